"""Makes calls and waits for SIGTERM, with a handler of its own or without:
``waits_for_sigterm.py [handled]``.
"""

from __future__ import annotations

import signal
import sys
import time

import lz_otel
from tests.casebook.programs.calling import calls

lz_otel.instrument()
calls(20)
if "handled" in sys.argv[1:]:
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(7))
print("ready", flush=True)
time.sleep(30)
