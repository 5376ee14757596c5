"""Threads of ours, and the end of the processes that have them.

Children of multiprocessing leave by ``os._exit``: finalizers run, atexit does not.
"""

from __future__ import annotations

import sys
import threading
from typing import TYPE_CHECKING, Any, TypeVar

from lz_otel._ground.guard import guard

if TYPE_CHECKING:
    from collections.abc import Callable

T = TypeVar("T")


def start_thread(name: str, target: Callable[..., None], *arguments: Any) -> threading.Thread | None:
    """Start a daemon thread; ``None``, and a fault, where this process may have no more of them."""
    thread = threading.Thread(target=target, args=arguments, name=name, daemon=True)
    try:
        thread.start()
    except RuntimeError as error:
        guard.fault("export", error)
        return None
    return thread


def at_end_of_child(end: Callable[[], None]) -> None:
    """Call ``end`` as this process ends, if it is a child of multiprocessing."""
    util = sys.modules.get("multiprocessing.util")
    if util is not None and sys.modules["multiprocessing"].parent_process() is not None:
        util.Finalize(None, end, exitpriority=1)


def after_fork(owner: T, call: Callable[[T], None]) -> None:
    """Call ``call(owner)`` in a forked child of multiprocessing, once that has forgotten all finalizers."""
    util = sys.modules.get("multiprocessing.util")
    if util is not None:
        util.register_after_fork(owner, call)
