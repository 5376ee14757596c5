"""What the exporters share: safe label values, a late start in forked children, the end of multiprocessing's."""

from __future__ import annotations

import logging
import sys
import threading
from typing import TYPE_CHECKING, Any, TypeVar

from lz_otel._ground.guard import guard
from lz_otel.catalogue import BUILD_INFO, INTERNAL_ERRORS

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from lz_otel._measure.store import Store

__all__ = [
    "FirstCall",
    "add_listener",
    "after_fork_of_multiprocessing",
    "at_end_of_child",
    "clean",
    "logger",
    "remove_listener",
]

T = TypeVar("T")

logger = logging.getLogger("lz_otel")

_listeners_lock = threading.Lock()


def clean(value: str) -> str:
    """A label value that every receiver takes: what cannot be printed becomes ``?``.

    Prometheus' parser ends a line at NUL, and lone surrogates cannot be encoded: one such value
    would cost the whole scrape or push.
    """
    if value.isprintable():
        return value
    return "".join(c if c.isprintable() else "?" for c in value)


def add_listener(store: Store, listener: Callable[[Sequence[Any]], None]) -> None:
    """Listen to a store. The list is replaced, never changed, since others are walking through it."""
    _replace(store, add=listener)


def remove_listener(store: Store, listener: Callable[[Sequence[Any]], None]) -> None:
    """Stop listening; no error when it was not there."""
    _replace(store, remove=listener)


def _replace(store: Store, add: Any = None, remove: Any = None) -> None:
    # With a limit: a fork may have copied the lock while another thread of the parent held it.
    held = _listeners_lock.acquire(timeout=0.2)
    try:
        # By !=, since a bound method is a new object each time it is looked up.
        store.listeners = [one for one in store.listeners if one != remove] + ([add] if add else [])
    finally:
        if held:
            _listeners_lock.release()


class FirstCall:
    """Does something once, when the first call of this process is measured.

    A forked child must not start a thread before it has anything to report: most children
    leave, or replace themselves, soon.
    """

    def __init__(self, store: Store, action: Callable[[], None]) -> None:
        self._store = store
        self._action = action
        self._lock = threading.Lock()
        self._done = False
        add_listener(store, self)

    def __call__(self, measurements: Sequence[Any]) -> None:
        """Store listener."""
        if all(m[0] is BUILD_INFO or m[0] is INTERNAL_ERRORS for m in measurements):
            return
        with self._lock:
            if self._done:
                return
            self._done = True
        remove_listener(self._store, self)
        try:
            self._action()
        except Exception as error:  # noqa: BLE001 - runs on the host's thread
            guard.fault("export", error)

    def cancel(self) -> None:
        """Never do it."""
        self._done = True
        remove_listener(self._store, self)


def at_end_of_child(end: Callable[[], None]) -> None:
    """Call this as a child of multiprocessing ends: it leaves by ``os._exit``, atexit never runs in it, finalizers do."""
    util = sys.modules.get("multiprocessing.util")
    if util is not None and sys.modules["multiprocessing"].parent_process() is not None:
        util.Finalize(None, end, exitpriority=1)


def after_fork_of_multiprocessing(owner: T, call: Callable[[T], None]) -> None:
    """In a child of ``fork``: call this once more if it is one of multiprocessing's, which forget all finalizers first."""
    util = sys.modules.get("multiprocessing.util")
    if util is not None:
        util.register_after_fork(owner, call)
