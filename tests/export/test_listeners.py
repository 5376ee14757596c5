"""Listeners of the store, and the one that waits for the first call."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from lz_otel import catalogue
from lz_otel._export._listeners import FirstCall
from lz_otel._ground.guard import guard
from lz_otel._measure.store import Store

if TYPE_CHECKING:
    import pytest

ATTEMPTS = catalogue.ATTEMPTS
LABELS = ("chat", "anthropic", "claude-sonnet-5", "", "", "200")
INFO = (catalogue.BUILD_INFO, ("1", "3", "", ""), 1)


def test_first_call_comes_once() -> None:
    """The action waits for a measurement of a call, is done once, and then nobody listens."""
    store = Store(catalogue.selected("latest"))
    done: list[int] = []
    FirstCall(store, lambda: done.append(1))
    store.add([INFO])
    store.add([(catalogue.INTERNAL_ERRORS, ("export",), 1)])
    assert ([], 1) == (done, len(store.listeners))
    store.add([INFO, (ATTEMPTS, LABELS, 1)])
    store.add([(ATTEMPTS, LABELS, 1)])
    assert ([1], []) == (done, store.listeners)


def test_first_call_can_be_cancelled() -> None:
    """After a cancel nothing happens."""
    store = Store([ATTEMPTS])
    done: list[int] = []
    FirstCall(store, lambda: done.append(1)).cancel()
    store.add([(ATTEMPTS, LABELS, 1)])
    assert ([], []) == (done, store.listeners)


def test_first_call_does_not_disturb_other_listeners() -> None:
    """A listener that leaves while the listeners are called does not make another one miss the batch."""
    store = Store([ATTEMPTS])
    FirstCall(store, lambda: None)
    seen: list[Any] = []
    store.listeners = [*store.listeners, seen.append]
    store.add([(ATTEMPTS, LABELS, 1)])
    assert 1 == len(seen)


def test_first_call_that_fails_reaches_nobody(monkeypatch: pytest.MonkeyPatch) -> None:
    """A fault in the action is counted; the host's call goes on."""
    faults: list[str] = []
    monkeypatch.setattr(guard, "on_fault", faults.append)
    store = Store([ATTEMPTS])
    FirstCall(store, lambda: {}["missing"])
    store.add([(ATTEMPTS, LABELS, 1)])
    assert ["export"] == faults
