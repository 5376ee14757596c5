"""Makes the calls of case 19 as a worker that leaves its numbers in shared files."""

from __future__ import annotations

import os

from lz_otel import testing
from tests.casebook.test_privacy import calls_of_the_case

with testing.capture(exporters="prometheus", prometheus_port=0):
    calls_of_the_case()
    os._exit(0)
