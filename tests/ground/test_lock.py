"""A lock is free again after a signal's handler has raised, wherever that was."""

from __future__ import annotations

import signal
import threading
from typing import Any

import pytest

from lz_otel._ground.lock import lock
from tests.interrupts import Stop


def free(one: Any) -> bool:
    """Whether another thread gets it."""
    got: list[bool] = []
    thread = threading.Thread(target=lambda: got.append(one.acquire(blocking=False)))
    thread.start()
    thread.join()
    return got == [True]


@pytest.mark.parametrize("depth", [0, 1])
def test_an_interrupt_at_any_step_leaves_it_free(alarm: None, depth: int) -> None:
    """From Python 3.14 on a handler may run between the getting of a lock and the block of its ``with``."""
    for number in range(300):
        one = lock()
        try:
            signal.setitimer(signal.ITIMER_REAL, 0.0002 + number * 1e-6)
            while True:
                with one:
                    for _ in range(depth):
                        with one:
                            pass
        except Stop:
            pass
        assert free(one), f"after {number} interrupts"
