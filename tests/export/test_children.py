"""What the exporters share."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lz_otel import catalogue
from lz_otel._export._children import FirstCall, clean
from lz_otel._export._outage import _cause, endpoint
from lz_otel._ground.guard import guard
from lz_otel._measure.store import Store, other

ATTEMPTS = catalogue.ATTEMPTS
LABELS = ("chat", "anthropic", "claude-sonnet-5", "", "", "200")
INFO = (catalogue.BUILD_INFO, ("1", "3", "", ""), 1)


@given(st.text())
def test_clean_values_can_be_sent(value: str) -> None:
    """A cleaned value can be encoded, holds no control character, is as long as before, and stays when cleaned again."""
    cleaned = clean(value)
    cleaned.encode()
    assert (len(value), cleaned) == (len(cleaned), clean(cleaned))
    assert not any(ord(c) < 32 for c in cleaned)
    if value.isprintable():
        assert value == cleaned


def test_other_is_what_the_store_chooses() -> None:
    """The set for what is over the cap is the store's: closed lists keep their values, the rest is ``other``."""
    store = Store([ATTEMPTS, catalogue.INTERNAL_OVERFLOW], max_series=1)
    store.add([(ATTEMPTS, LABELS, 1), (ATTEMPTS, ("chat", "x", "y", "z", "", "429"), 1)])
    points = dict(store.snapshot()[0].points)
    assert {LABELS, other(ATTEMPTS, ("chat", "x", "y", "z", "", "429"))} == set(points)


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


@pytest.mark.parametrize(
    ("url", "wanted"),
    [
        ("http://localhost:4318/v1/metrics", " to http://localhost:4318"),
        ("https://user:secret@example.com/v1?key=secret", " to https://example.com"),
        ("collector:4317", " to collector:4317"),
        ("http://[::1", ""),
        (None, ""),
    ],
)
def test_endpoint_shows_no_secret(url: object, wanted: str) -> None:
    """Of an endpoint only scheme, host and port are shown."""
    exporter = type("Exporter", (), {"_endpoint": url})()
    assert wanted == endpoint(exporter)


def test_cause_finds_the_systems_error() -> None:
    """The reason is the outermost class and the system's own words; texts of exceptions are left out."""
    inner = ConnectionRefusedError(111, "Connection refused")
    middle = ValueError("url: /v1?key=secret")
    middle.__cause__ = inner
    outer = RuntimeError(middle)
    assert "RuntimeError: Connection refused" == _cause(outer)
    loop = KeyError("secret")
    loop.__cause__ = loop
    assert "KeyError" == _cause(loop)
