"""What the exporters share: safe label values, faults counted and told once, a late start in forked children."""

from __future__ import annotations

import logging
import threading
from typing import TYPE_CHECKING, Any

from lz_otel.catalogue import BUILD_INFO, INTERNAL_ERRORS

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from lz_otel._measure.store import Store

__all__ = ["Faults", "FirstCall", "add_listener", "clean", "logger", "remove_listener"]

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
        store.listeners = [one for one in store.listeners if one is not remove] + ([add] if add else [])
    finally:
        if held:
            _listeners_lock.release()


class Faults:
    """Unexpected exceptions of an exporter: counted in ``lz.internal.errors``, and told once."""

    def __init__(self, store: Store, what: str) -> None:
        self._store = store
        self._what = what
        self._told = False

    def note(self, error: BaseException) -> None:
        """Count one fault; the first one is logged with its traceback at level DEBUG only."""
        self._store.add([(INTERNAL_ERRORS, ("export",), 1)])
        if self._told:
            return
        self._told = True
        logger.warning(
            "%s: %s inside lz_otel; the service is not affected, more of the same is only counted",
            self._what,
            type(error).__name__,
        )
        logger.debug("%s: traceback of the first fault", self._what, exc_info=error)


class FirstCall:
    """Does something once, when the first call of this process is measured.

    A forked child must not start a thread before it has anything to report: most children
    leave, or replace themselves, soon.
    """

    def __init__(self, store: Store, action: Callable[[], None], faults: Faults) -> None:
        self._store = store
        self._action = action
        self._faults = faults
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
            self._faults.note(error)

    def cancel(self) -> None:
        """Never do it."""
        self._done = True
        remove_listener(self._store, self)
