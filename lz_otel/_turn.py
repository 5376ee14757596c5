"""Whose turn it is to work: one thread at a time, and no thread within its own turn.

A signal's handler may run between any two steps of the main thread, may call us again from there, and may
leave by an exception. So the lock is taken by ``with`` alone, which cannot be interrupted between getting a
lock and knowing that (``acquire`` can: the lock would be held for ever).
"""

from __future__ import annotations

import threading
from time import monotonic, sleep
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["Turn"]

_ROOM = 60  # calls within calls that reading a call may need (C: about 30)
_SHORTEST, _LONGEST = 0.0001, 0.005  # seconds between two looks at a turn that is taken


class Turn:
    """Lets one thread work at a time."""

    __slots__ = ("_lock", "_worker")

    def __init__(self) -> None:
        self._lock = threading.RLock()
        self._worker = 0

    def run(self, work: Callable[[], None], patience: float) -> None:
        """Do the work, unless this thread is at it already, or another one is for longer than that.

        Args:
            work: what to do; what it raises passes through.
            patience: seconds to wait for another thread's turn.
        """
        me = threading.get_ident()
        worker = self._worker
        if worker == me or (worker and not self._free(patience)) or not _room():
            return
        with self._lock:
            if self._worker:
                return
            try:
                self._worker = me
                work()
            finally:
                self._worker = 0

    def _free(self, patience: float) -> bool:
        """Wait for the end of another thread's turn."""
        end = monotonic() + patience
        pause = _SHORTEST
        while self._worker:
            if monotonic() >= end:
                return False
            sleep(pause)
            pause = min(2 * pause, _LONGEST)
        return True


def _room() -> bool:
    """Whether this thread is far enough from the limit of recursion: else it would lose what waits."""
    try:
        _deeper(_ROOM)
    except RecursionError:
        return False
    return True


def _deeper(steps: int) -> None:
    if steps:
        _deeper(steps - 1)
