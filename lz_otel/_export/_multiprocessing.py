"""The end of children of multiprocessing, which leave by ``os._exit``: finalizers run, atexit does not."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable

T = TypeVar("T")


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
