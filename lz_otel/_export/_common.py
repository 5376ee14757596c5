"""What the exporters share: safe label values, the cap on label sets, a late start in forked children."""

from __future__ import annotations

import logging
import threading
from typing import TYPE_CHECKING, Any

from lz_otel._guard import guard
from lz_otel._measure.store import OTHER
from lz_otel.catalogue import BUILD_INFO, INTERNAL_ERRORS

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from lz_otel._measure.store import Store
    from lz_otel.catalogue import Metric

__all__ = ["FirstCall", "add_listener", "clean", "logger", "other", "remove_listener"]

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


def other(metric: Metric, labels: tuple[str, ...]) -> tuple[str, ...]:
    """The label set that stands for all that came after the cap, as `Store` chooses it."""
    return tuple(
        label if a.values and label in a.values else OTHER
        for a, label in zip(metric.attributes, labels, strict=True)
    )


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
