"""Makes so many calls and nothing else, for valgrind to count: ``python -m benchmarks.count CASE PORT CALLS VARIANT``."""

from __future__ import annotations

import gc
import sys

from benchmarks.cases import CASES
from benchmarks.variants import VARIANTS

if __name__ == "__main__":
    _, name, port, calls, variant = sys.argv
    base = f"http://127.0.0.1:{port}"
    run = CASES[name].make(base)
    gc.disable()  # collections come when they come, and would be counted for one run and not for the other
    with VARIANTS[variant](f"{base}/sink"):
        run(5)
        run(int(calls))
