"""Starts twice in a fresh process:
with a limit that the SDK refuses as it is imported, and with a good one.
"""

from __future__ import annotations

import os
import threading

import lz_otel

for value in ("x", "64"):
    os.environ["OTEL_SPAN_ATTRIBUTE_COUNT_LIMIT"] = value
    try:
        print(lz_otel.instrument(prometheus_port=0, trace_exporters="console", http_spans="off").exporters)
    except lz_otel.ConfigurationError as error:
        names = [thread.name for thread in threading.enumerate()]
        print(type(error).__name__, error.setting, names)
