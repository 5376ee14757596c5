"""The fail-open boundary: our faults end there, what is meant for the host passes."""

from __future__ import annotations

import contextlib
import functools
import inspect
import os
import signal
import sys
from typing import Any

import httpx2
import pytest

import lz_otel
from lz_otel._ground.guard import Guard, guard
from tests.wire_doubles import A_JSON, transport


class SoftTimeLimit(Exception):  # noqa: N818 - as they are called there
    """What a task queue raises in its workers."""


def function(*_: Any) -> None:
    """A handler."""
    raise SoftTimeLimit


class Handlers:
    """Handlers of other kinds."""

    def method(self, *_: Any) -> None:
        """Bound."""
        raise SoftTimeLimit

    def __call__(self, *_: Any) -> None:
        raise SoftTimeLimit


def noted(made: Guard) -> None:
    """A signal strikes where faults are caught."""
    try:
        os.kill(os.getpid(), signal.SIGUSR1)
    except SoftTimeLimit as error:
        made.fault("judge", error)


@pytest.mark.parametrize(
    "handler",
    [function, functools.partial(function, 1), Handlers().method, Handlers()],
    ids=["function", "partial", "method", "object"],
)
def test_what_a_signals_handler_raises_is_the_hosts(handler: Any) -> None:
    """A soft time limit that strikes while we are at work is not swallowed, and is no fault of ours."""
    made, counted = Guard(), []
    made.on_fault = counted.append
    before = signal.signal(signal.SIGUSR1, handler)
    try:
        with pytest.raises(SoftTimeLimit):
            noted(made)
    finally:
        signal.signal(signal.SIGUSR1, before)
    assert [] == counted


def test_the_same_exception_from_elsewhere_is_swallowed() -> None:
    """Only the handler's own frames tell: its class says nothing."""
    made, counted = Guard(), []
    made.on_fault = counted.append
    try:
        raise SoftTimeLimit
    except SoftTimeLimit as error:
        made.fault("judge", error)
    assert ["judge"] == counted


@pytest.mark.parametrize("place", ["_intake.Intake.begin", "_later.rules.call", "_later._extract.identify"])
def test_a_signal_in_the_middle_of_a_call(place: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Wherever it strikes, the host gets its exception, and the next call is seen as if nothing had been."""
    from lz_otel.testing import capture

    owner_path, _, name = place.rpartition(".")
    owner: Any = lz_otel
    for part in owner_path.split("."):
        owner = getattr(owner, part)
    original = getattr(owner, name)
    struck = []

    def strike(*args: Any, **kwargs: Any) -> Any:
        if not struck:
            struck.append(True)
            os.kill(os.getpid(), signal.SIGUSR1)
        return original(*args, **kwargs)

    before = signal.signal(signal.SIGUSR1, function)
    try:
        with capture() as seen:
            client = httpx2.Client(transport=transport(httpx2, lambda _: httpx2.Response(200, json=A_JSON)))
            lz_otel.instrument_client(client)

            def ask_and_scrape() -> None:
                client.post(
                    "https://api.anthropic.com/v1/messages",
                    json={"model": "m", "messages": []},
                    headers={"anthropic-version": "1"},
                )
                seen.store.snapshot()

            monkeypatch.setattr(owner, name, strike)
            lz_otel._runtime.current()._connect()
            with pytest.raises(SoftTimeLimit):
                ask_and_scrape()
            monkeypatch.undo()
            lz_otel._runtime.current()._connect()
            ask_and_scrape()
            assert 1 <= seen.value("gen_ai.client.inference.duration") <= 2
            assert 0 == seen.value("lz.call.active")
    finally:
        signal.signal(signal.SIGUSR1, before)
    assert not guard.strict


def test_without_room_for_looking_the_fault_still_ends_here() -> None:
    """Near the limit of recursion nothing of ours is raised into the host, wherever that limit strikes."""
    made = Guard()
    raised: list[int] = []

    def deep(steps: int) -> None:
        if steps:
            return deep(steps - 1)
        made.reset()  # as deep as the first step of what follows
        try:
            made.fault("judge", ValueError())
        except RecursionError:
            raised.append(1)

    frames = len(inspect.stack(0))
    for steps in range(sys.getrecursionlimit() - frames - 80, sys.getrecursionlimit() - frames - 8):
        with contextlib.suppress(RecursionError):
            deep(steps)
    assert [] == raised


@pytest.mark.parametrize("inside", ["counting", "placing"])
def test_a_signal_in_the_middle_of_noting_a_fault(inside: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Even there what its handler raises passes."""
    made = Guard()

    def strike(_: Any) -> str:
        signal.raise_signal(signal.SIGUSR1)
        return ""

    if inside == "counting":
        made.on_fault = strike  # type: ignore[assignment]  # returns something, which nobody reads
    else:
        monkeypatch.setattr("lz_otel._ground.guard._place", strike)
    before = signal.signal(signal.SIGUSR1, function)
    try:
        with pytest.raises(SoftTimeLimit):
            made.fault("judge", ValueError())
    finally:
        signal.signal(signal.SIGUSR1, before)
