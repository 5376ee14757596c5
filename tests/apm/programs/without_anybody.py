"""Makes the calls, and prints what the host sees of them."""

from __future__ import annotations

import json

from tests.apm.programs import traffic

with traffic.serve() as url:
    print(json.dumps(traffic.host_sees(url)))
