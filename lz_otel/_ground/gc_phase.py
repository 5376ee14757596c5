"""Whether the garbage collector is at work.

A collection runs in the middle of whatever its thread was doing: perhaps our own locked code, perhaps
prometheus_client's. It may close a response of the host (a generator that was dropped within a ``with`` block
is ended by it), so what happens meanwhile is only noted, and worked off by the next call or scrape.

``gc.callbacks`` calls ``callback("start", info)`` and ``callback("stop", info)``, where ``info`` is a
dictionary with the same three keys both times. The callback here is ``setattr(COLLECTING, phase, info)``:
setting ``start`` adds those keys to the set, setting ``stop`` takes them out again. So the set is empty but
for the time of a collection, and ``if COLLECTING:`` costs no call. All of it is C: what a signal's handler
raises in a callback of Python is lost to the host ("Exception ignored in ...").
"""

from __future__ import annotations

import functools
import gc
from contextlib import suppress


class _Phase(set[str]):
    """Holds the keys of the collector's dictionary while it works."""

    start = property(None, set.update)
    stop = property(None, set.difference_update)


COLLECTING = _Phase()
"""True while the collector works, in this thread or (for a moment, and harmless) in another.

Always false before `watch`.
"""
_callback = functools.partial(setattr, COLLECTING)


def watch() -> None:
    """Follow collections (about 0.6 microseconds for each)."""
    if _callback not in gc.callbacks:
        gc.callbacks.append(_callback)


def after_fork_in_child() -> None:
    """Forget a collection of the parent: the thread at it is not here."""
    COLLECTING.clear()


def unwatch() -> None:
    """Follow collections no more."""
    with suppress(ValueError):
        gc.callbacks.remove(_callback)
    COLLECTING.clear()
