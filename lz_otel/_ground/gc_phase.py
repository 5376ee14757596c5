"""Whether the garbage collector is at work.

A collection runs in the middle of whatever its thread was doing: perhaps our own locked code, perhaps
prometheus_client's. It may close a response of the host (a generator that was dropped within a ``with`` block
is ended by it), so what is told to us meanwhile is only noted, and worked off by the next call or scrape.

The collector's callback is made of C functions only: what a signal's handler raises in one of Python is lost
to the host ("Exception ignored in ...").
"""

from __future__ import annotations

import functools
import gc
from contextlib import suppress
from typing import Any

__all__ = ["after_fork_in_child", "inside", "unwatch", "watch"]


class _Phase(list[Any]):
    """Ends with the collector's dictionary while it works, with a name of that dictionary's afterwards."""

    start = property(None, list.append)
    stop = property(None, list.__init__)


_phase = _Phase(["never"])
_note = functools.partial(setattr, _phase)  # called with "start" or "stop", and a dictionary


def inside() -> bool:
    """Whether the collector is at work, in this thread or (for a moment, and harmless) in another.

    Always false before `watch`.
    """
    return type(_phase[-1]) is dict


def watch() -> None:
    """Be told of collections (about 0.6 microseconds for each)."""
    if _note not in gc.callbacks:
        gc.callbacks.append(_note)


def after_fork_in_child() -> None:
    """The thread that was collecting may not be here."""
    _phase[:] = ["never"]


def unwatch() -> None:
    """Be told no more."""
    with suppress(ValueError):
        gc.callbacks.remove(_note)
    _phase[:] = ["never"]
