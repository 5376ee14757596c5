"""A lock for ``with`` that is held for certain, or not at all, when a signal's handler raises.

A handler may run between any two steps of the main thread, and may leave by an exception. Up to Python 3.13
none runs between the moment when ``with`` has the lock and its block. From 3.14 on one may (C): the lock
would be held for ever.
"""

from __future__ import annotations

import _thread
import sys
import threading
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable


class _Held(_thread.RLock):  # type: ignore[misc]  # final in the stubs only
    """Gives back what it got. Leaving is the base's, in C, so that no handler comes before it."""

    def __enter__(self, blocking: bool = True, timeout: float = -1) -> bool:
        times: Callable[[], int] = self._recursion_count  # type: ignore[attr-defined]  # of this thread
        before = times()
        try:
            return self.acquire(blocking, timeout)
        except BaseException:
            if times() > before:
                self.release()
            raise


def lock() -> Any:
    """Make a lock that its holder may take again, as a signal's handler does."""
    made = threading.RLock()  # gevent may have put one of its own there
    return _Held() if sys.version_info >= (3, 14) and type(made) is _thread.RLock else made
