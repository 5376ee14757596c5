"""Begins children by multiprocessing while other threads are inside calls:
``children_of_calls.py fork|spawn``.
"""

from __future__ import annotations

import multiprocessing
import sys
import threading
import time
from typing import Any

import lz_otel
from tests.safety.programs.asking import BODY, client, value

THREADS, CHILDREN = 4, 4


def child(active: Any) -> None:
    """Make three calls, and say how many are still active."""
    lz_otel.instrument()  # of no effect where the fork brought it along
    made = client()
    for _ in range(3):
        made.messages.create(**BODY)
    active.put(value("lz.call.active"))


def main(method: str) -> None:
    """Begin the children, and print how many calls this process made."""
    lz_otel.instrument()
    context: Any = multiprocessing.get_context(method)
    active = context.Queue()
    stop, counts = threading.Event(), [0] * THREADS

    def slow(n: int) -> None:
        made = client()
        while not stop.is_set():
            made.messages.create(**{**BODY, "model": "slow" if n % 2 else "claude-opus-5"})
            counts[n] += 1

    threads = [threading.Thread(target=slow, args=(n,)) for n in range(THREADS)]
    for thread in threads:
        thread.start()
    while not all(
        counts
    ):  # what the SDK and the interpreter do once, under locks that no fork frees, is done
        time.sleep(0.01)
    children = []
    for _ in range(CHILDREN):
        time.sleep(0.05)
        children.append(context.Process(target=child, args=(active,)))
        children[-1].start()
    still_active = [active.get(timeout=60) for _ in children]
    for process in children:
        process.join(60)
    stop.set()
    for thread in threads:
        thread.join()
    assert [process.exitcode for process in children] == [0] * CHILDREN
    assert still_active == [0] * CHILDREN, still_active
    print(sum(counts))


if __name__ == "__main__":
    main(sys.argv[1])
