"""Starts twice in a fresh process: with a limit that the SDK refuses as it is imported, and with a good one.

Prints where the metrics go, and whether spans are exported.
"""

from __future__ import annotations

import os

import lz_otel
from lz_otel import _runtime

for value in ("x", "64"):
    os.environ["OTEL_SPAN_ATTRIBUTE_COUNT_LIMIT"] = value
    exporters = lz_otel.instrument(prometheus_port=0, trace_exporters="console", http_spans="off").exporters
    print(exporters, bool(_runtime.current().own_spans))  # type: ignore[union-attr]  # it is there
    lz_otel.uninstrument()
