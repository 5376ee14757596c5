"""Makes as many calls as each line of its input says, until that ends."""

from __future__ import annotations

import sys

import lz_otel
from tests.casebook.programs.calling import calls, client

lz_otel.instrument()
http = client()
for line in sys.stdin:
    calls(int(line), http)
    print("done", flush=True)
