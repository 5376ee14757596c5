"""What has ended and waits to be read and counted, and whose turn it is to work it off.

A signal's handler may run between any two steps of the main thread, may call us again from there, and may
leave by an exception. So the lock (`_ground.lock`) is taken by ``with`` alone, which cannot be interrupted
between getting a lock and knowing that (``acquire`` can: the lock would be held for ever).
"""

from __future__ import annotations

import threading
import time
from collections import deque
from typing import TYPE_CHECKING

from lz_otel._capture.call import Call
from lz_otel._ground.gc_phase import COLLECTING
from lz_otel._ground.guard import guarded
from lz_otel._ground.lock import lock

if TYPE_CHECKING:
    from collections.abc import Callable

    from lz_otel._capture.attempt import Attempt

# What has ended is worked off so many at a time, or when it holds so many bytes: with 1 MiB, freeing a batch
# made the allocator shrink its heap, and the host's next calls paid 11 page faults each (C)
BATCH = 256
MAX_WEIGHT = 524_288
_MAX_WAITING = 4 * BATCH  # from here on a call waits for its turn, so that what waits does not grow for ever
_LONG_ENOUGH = 1.0  # seconds to wait for another thread's turn: longer than any takes (C)
_ROOM = 60  # calls within calls that reading a call may need (C: about 30)
_SHORTEST, _LONGEST = 0.0001, 0.005  # seconds between two looks at a turn that is taken


class Backlog:
    """Holds what has ended, in order, and lets one thread at a time work it off.

    Args:
        work: works off the backlog; called in a turn.
        left: told of a call or an attempt that a finalizer has found, outside of the garbage collector.
        lost: told of a call that a fault of ours has lost track of.

    Attributes:
        waiting: attempts and calls that have ended and were not read yet.
        weight: bytes that these hold.
        dropped: what finalizers have found, perhaps inside the garbage collector; not reported yet.
    """

    def __init__(
        self,
        work: Callable[[], None],
        left: Callable[[Attempt | Call], None],
        lost: Callable[[Call], None],
    ) -> None:
        self.waiting: deque[Attempt | Call] = deque()
        self.weight = 0
        self.dropped: deque[Attempt | Call] = deque()
        self._work = work
        self._left = left
        self._lost = lost
        self._reset()

    def _reset(self) -> None:
        self._lock = lock()
        self._worker = 0  # the thread whose turn it is
        self._collectors: set[int] = set()  # threads that report what finalizers have found
        self._late = False  # a thread has waited too long for this turn: no other one waits

    def take_turn(self, *, urgent: bool) -> None:
        """Work off what waits, if it is much or its numbers are wanted at once."""
        if COLLECTING:
            return
        if self.dropped:
            self.collect_dropped()
        number = len(self.waiting)
        if urgent or number >= BATCH or self.weight >= MAX_WEIGHT:
            self.run(self._work, _LONG_ENOUGH if urgent or number >= _MAX_WAITING else 0.0)

    def catch_up(self) -> None:
        """Work off everything that waits, before the numbers are read."""
        if not COLLECTING:
            self.collect_dropped()
            self.run(self._work, _LONG_ENOUGH)

    def collect_dropped(self) -> None:
        """Report what finalizers have found. Reporting one comes back here: the rest is the first one's."""
        me = threading.get_ident()
        if me in self._collectors:
            return
        self._collectors.add(me)
        try:
            while self.dropped:
                try:
                    item = self.dropped.popleft()
                except IndexError:
                    return
                done = False
                with guarded("capture"):
                    self._left(item)
                    done = True
                if not done:
                    with guarded("capture"):
                        self._lost(item if isinstance(item, Call) else item.call)
        finally:
            self._collectors.discard(me)

    def run(self, work: Callable[[], None], wait: float) -> None:
        """Do the work, unless this thread is at it already, or another one is for longer than that.

        Args:
            work: what to do; what it raises passes through.
            wait: seconds to wait for another thread's turn.
        """
        me = threading.get_ident()
        if self._worker == me or (self._worker and not self._free(wait)) or not _room():
            return
        try:
            while True:
                with self._lock:  # for a moment only: waiting for another thread's turn is done in `_free`
                    if not self._worker:
                        self._worker = me
                        break
                if not self._free(wait):
                    return
            work()
        finally:
            if self._worker == me:  # no call in here: no handler can run in between
                self._worker, self._late = 0, False

    def _free(self, wait: float) -> bool:
        """Wait for the end of another thread's turn."""
        end = time.monotonic() + (0.0 if self._late else wait)
        pause = _SHORTEST
        while self._worker:
            if time.monotonic() >= end:
                self._late = self._late or wait > 0
                return False
            time.sleep(pause)  # of the module: gevent may have replaced it since
            pause = min(2 * pause, _LONGEST)
        return True

    def after_fork_in_child(self) -> None:
        """Forget what belongs to the parent."""
        self.dropped.clear()
        self.waiting.clear()
        self.weight = 0
        self._reset()


def _room() -> bool:
    """Return whether this thread is far enough from the limit of recursion: else it would lose what waits."""
    try:
        _deeper(_ROOM)
    except RecursionError:
        return False
    return True


def _deeper(steps: int) -> None:
    if steps:
        _deeper(steps - 1)
