"""Whose turn it is to work: one thread at a time, and no thread within its own turn.

A signal's handler may run between any two steps of the main thread, may call us again from there, and may
leave by an exception. So the lock is taken by ``with`` alone, which cannot be interrupted between getting a
lock and knowing that (``acquire`` can: the lock would be held for ever).
"""

from __future__ import annotations

import threading
import time
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["Turn"]

_ROOM = 60  # calls within calls that reading a call may need (C: about 30)
_SHORTEST, _LONGEST = 0.0001, 0.005  # seconds between two looks at a turn that is taken


class Turn:
    """Lets one thread work at a time."""

    __slots__ = ("_late", "_lock", "_worker")

    def __init__(self) -> None:
        self._lock = threading.RLock()
        self._worker = 0
        self._late = False  # somebody has waited for this turn in vain: nobody else does

    def run(self, work: Callable[[], None], patience: float) -> None:
        """Do the work, unless this thread is at it already, or another one is for longer than that.

        Args:
            work: what to do; what it raises passes through.
            patience: seconds to wait for another thread's turn.
        """
        me = threading.get_ident()
        if self._worker == me or (self._worker and not self._free(patience)) or not _room():
            return
        try:
            while True:
                with self._lock:  # for a moment only: who waits for another's turn does that in `_free`
                    if not self._worker:
                        self._worker = me
                        break
                if not self._free(patience):
                    return
            work()
        finally:
            if self._worker == me:  # no call in here: no handler can run in between
                self._worker, self._late = 0, False

    def _free(self, patience: float) -> bool:
        """Wait for the end of another thread's turn."""
        end = time.monotonic() + (0.0 if self._late else patience)
        pause = _SHORTEST
        while self._worker:
            if time.monotonic() >= end:
                self._late = self._late or patience > 0
                return False
            time.sleep(pause)  # of the module: gevent may have replaced it since
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
