"""Listeners of the store: the list of them, and one that waits for the first call of a process."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Any

from lz_otel._ground.guard import guarded
from lz_otel._ground.once import Once
from lz_otel.catalogue import BUILD_INFO, INTERNAL_ERRORS, INTERNAL_LOST

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from lz_otel._measure.store import Store

    Listener = Callable[[Sequence[Any]], None]

_lock = threading.Lock()
OF_THE_PROCESS = (BUILD_INFO, INTERNAL_ERRORS, INTERNAL_LOST)  # not of a call


def add_listener(store: Store, listener: Listener) -> None:
    """Listen to a store."""
    _replace(store, remove=None, add=[listener])


def remove_listener(store: Store, listener: Listener) -> None:
    """Stop listening; no error when it was not there."""
    _replace(store, remove=listener, add=[])


def _replace(store: Store, remove: Listener | None, add: list[Listener]) -> None:
    """Give a store a new list: the old one is never changed, since other threads are walking through it."""
    # With a limit: a fork may have copied the lock while another thread of the parent held it.
    held = _lock.acquire(timeout=0.2)
    try:
        # By !=, since a bound method is a new object each time it is looked up.
        store.listeners = [listener for listener in store.listeners if listener != remove] + add
    finally:
        if held:
            _lock.release()


class FirstCall:
    """Does something once, when the first call of this process begins, or something else is measured.

    A process must not start a thread before it has anything to report: many fork first (from 3.12 on Python
    warns where there are threads), and most children leave, or replace themselves, soon.
    """

    def __init__(self, store: Store, action: Callable[[], None]) -> None:
        self._store = store
        self._action = action
        self._once = Once()
        add_listener(store, self)

    def __call__(self, measurements: Sequence[Any]) -> None:
        """Store listener; a batch without measurements tells of a call that begins."""
        if measurements and all(metric in OF_THE_PROCESS for metric, _, _ in measurements):
            return
        if next(self._once, False):
            remove_listener(self._store, self)
            with guarded("export"):  # this is the host's thread
                self._action()

    def cancel(self) -> None:
        """Never do it."""
        next(self._once, False)
        remove_listener(self._store, self)
