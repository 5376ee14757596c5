"""Begins two children by multiprocessing after five calls: ``children.py fork|spawn``."""

from __future__ import annotations

import multiprocessing
import sys
import time
from typing import Any

import lz_otel
from tests.casebook.programs.calling import calls, runtime


def child(method: str) -> None:
    """Make one call, and stay until it is pushed."""
    if method == "spawn":
        lz_otel.instrument()
    calls(1)
    time.sleep(2)


def main(method: str) -> None:
    """Make calls, and begin the children."""
    lz_otel.instrument()
    calls(5)
    runtime().intake.catch_up()
    context: Any = multiprocessing.get_context(method)
    processes = [context.Process(target=child, args=(method,)) for _ in range(2)]
    for process in processes:
        process.start()
    for process in processes:
        process.join()
        assert process.exitcode == 0


if __name__ == "__main__":
    main(sys.argv[1])
