"""Five calls pushed by OTLP and an end, for `test_otlp`: ``python pushing.py INTERVAL END``."""

from __future__ import annotations

import signal
import sys
import time

from lz_otel import catalogue
from lz_otel._export.otlp import OtlpExporter
from lz_otel._measure.store import Store


def main(interval: str, end: str) -> None:
    store = Store(catalogue.selected("latest"))
    exporter = OtlpExporter(store, float(interval))
    exporter.start()
    for _ in range(5):
        store.add([(catalogue.INTERNAL_OVERHEAD, (), 0.001)])
    if end == "exit":
        sys.exit(3)
    elif end == "signal":
        signal.signal(signal.SIGTERM, lambda *_: sys.exit(4))
        signal.raise_signal(signal.SIGTERM)
    elif end == "late exit":
        time.sleep(0.3)
        sys.exit(5)


main(*sys.argv[1:])
