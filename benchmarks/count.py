"""Makes so many calls, and lets callgrind count only those:
``python -m benchmarks.count CASE PORT CALLS VARIANT``.

To be run by ``valgrind --tool=callgrind --instr-atstart=no``: start-up and warm-up are not counted, nor
slowed down by counting. Prints the number of calls that were counted.
"""

from __future__ import annotations

import gc
import os
import subprocess
import sys

from benchmarks.cases import CASES
from benchmarks.variants import VARIANTS


def counting(on: bool) -> None:
    """Switch callgrind's counting of this process on or off."""
    command = ["callgrind_control", f"--instr={'on' if on else 'off'}", str(os.getpid())]
    subprocess.run(command, check=True, capture_output=True)


def main(argv: list[str]) -> None:
    """Warm up, count, stop."""
    name, port, calls, variant = argv
    base = f"http://127.0.0.1:{port}"
    run = CASES[name].make(base)
    gc.disable()  # collections come when they come, and would be counted for one run and not for the other
    with VARIANTS[variant](f"{base}/sink") as watch:
        run(10)
        watch.settle()
        counting(True)
        run(int(calls))
        watch.settle()
        counting(False)


if __name__ == "__main__":
    main(sys.argv[1:])
