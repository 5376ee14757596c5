"""Prints the modules of others that `import lz_otel` and `instrument()` load, as JSON."""

from __future__ import annotations

import json
import sys

import lz_otel
import lz_otel._runtime

if __name__ == "__main__":
    lz_otel.instrument(exporters="prometheus", prometheus_port=0)
    ours = ("lz_otel", "benchmarks", "__main__")
    print(json.dumps([name for name in list(sys.modules) if name.partition(".")[0] not in ours]))
