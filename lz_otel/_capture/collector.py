"""Whether this thread is inside the garbage collector.

A collection runs in the middle of whatever the thread was doing: perhaps our own locked code, perhaps
prometheus_client's. It may close a response of the host (a generator that was dropped within a ``with`` block
is ended by it), so what is told to us from there is only noted, and worked off by the next call or scrape.
"""

from __future__ import annotations

import gc
from contextlib import suppress
from threading import get_ident
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = ["inside", "unwatch", "watch"]

_thread = 0


def _note(phase: str, _: Mapping[str, int]) -> None:
    """Called by the collector as it begins and ends; only one thread collects at a time."""
    global _thread
    _thread = get_ident() if phase == "start" else 0


def inside() -> bool:
    """Whether the collector called us, at whatever distance. Always false before `watch`."""
    return _thread != 0 and _thread == get_ident()


def watch() -> None:
    """Be told of collections (about 1 microsecond for each)."""
    if _note not in gc.callbacks:
        gc.callbacks.append(_note)


def unwatch() -> None:
    """Be told no more."""
    global _thread
    with suppress(ValueError):
        gc.callbacks.remove(_note)
    _thread = 0
