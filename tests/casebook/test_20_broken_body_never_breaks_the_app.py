"""Case 20: whatever arrives, and whatever of ours fails,
the application gets what it would get without us.
"""

from __future__ import annotations

import asyncio
import json
import logging
from typing import Any

import anthropic
import httpx2
import openai
import pytest

import lz_otel
from lz_otel import _extract, _intake, _later, _runtime
from lz_otel._capture import attempt, sdk, transports
from lz_otel._ground.guard import guard
from lz_otel._judge.in_force import MechanismsInForce
from lz_otel._measure import rules
from lz_otel._measure.labels import _Common
from lz_otel._measure.store import Store
from lz_otel._price.cost import Prices
from lz_otel.catalogue import INTERNAL_ERRORS
from tests.casebook.bodies import ASK, CHAT
from tests.casebook.helpers import INPUT, OPERATIONS, SELF_ERRORS, claude, good, gpt, observed
from tests.wire_doubles import A_JSON, O_JSON, a_full, o_full

JSON = "application/json"
SSE = "text/event-stream"
Answer = tuple[int, dict[str, str], bytes]


def usage_bodies(model: dict[str, Any], count: str) -> dict[str, tuple[Any, bool]]:
    """Bodies with odd usage, and whether the count in them is a sane number."""
    without = {k: v for k, v in model.items() if k != "usage"}
    out: dict[str, tuple[Any, bool]] = {"absent": (without, False)}
    for name, usage in (("null", None), ("string", "12"), ("list", [1, 2])):
        out[name] = {**model, "usage": usage}, False
    for value in ("12", -5, True, 2**63, 1.5, None, {}, []):
        out[f"count {value}"] = {**model, "usage": {count: value}}, False
    out["count 7"] = {**model, "usage": {count: 7}}, True
    return out


def answers(vendor: str) -> dict[str, tuple[Answer, bool]]:
    """All answers of the first part, and whether input tokens may be counted from them."""
    model, count = (A_JSON, "input_tokens") if vendor == "anthropic" else (O_JSON, "prompt_tokens")
    events = b"".join(a_full() if vendor == "anthropic" else o_full())
    whole = json.dumps(model).encode()
    odd = b'data: {"type": "unheard_of", "x": 1}\n\n'
    out: dict[str, tuple[Answer, bool]] = {
        f"usage {name}": ((200, {"content-type": JSON}, json.dumps(body).encode()), sane)
        for name, (body, sane) in usage_bodies(model, count).items()
    }
    infinite = whole.replace(b'"usage": {', b'"usage": {"' + count.encode() + b'": 1e400, "x": {', 1) + b"}"
    others: dict[str, tuple[int, dict[str, str], bytes, bool]] = {
        "infinite": (200, {"content-type": JSON}, infinite, False),
        "deep": (200, {"content-type": JSON}, b"[" * 10_000 + b"]" * 10_000, False),
        "cut": (200, {"content-type": JSON}, whole[: len(whole) // 2], False),
        "empty": (200, {"content-type": JSON}, b"", False),
        "no length": (200, {"content-type": JSON, "content-length": "0"}, b"", False),
        "status 204": (204, {}, b"", False),
        "html": (200, {"content-type": "text/html"}, b"<html>busy</html>", False),
        "no type": (200, {}, whole, True),
        "json named stream": (200, {"content-type": SSE}, whole, True),
        "stream named json": (200, {"content-type": JSON}, events, True),
        "stream": (200, {"content-type": SSE}, events, True),
        "unknown event": (200, {"content-type": SSE}, b"event: unheard_of\n" + odd + events, True),
        "no json in data": (200, {"content-type": SSE}, b"data: not json\n\n" + events, True),
        "long line": (
            200,
            {"content-type": SSE},
            b"event: x\ndata: " + b"y" * 1_000_000 + b"\n\n" + events,
            True,
        ),
        "no last empty line": (200, {"content-type": SSE}, events.rstrip(b"\n"), True),
        "cut stream": (200, {"content-type": SSE}, events[: len(events) // 2], True),
        "nul": (200, {"content-type": JSON}, b"\x00\xff" * 50, False),
        "gzip by name only": (200, {"content-type": JSON, "content-encoding": "gzip"}, whole, False),
        "error of null": (400, {"content-type": JSON}, b'{"error": null}', False),
        "error of text": (500, {"content-type": JSON}, b'{"error": "x", "type": 3}', False),
    }
    return out | {
        name: ((status, headers, body), may) for name, (status, headers, body, may) in others.items()
    }


def chain(error: BaseException | None) -> list[tuple[str, str]]:
    """Classes and texts of an exception and all behind it."""
    out = []
    while error is not None and len(out) < 20:
        out.append((f"{type(error).__module__}.{type(error).__name__}", str(error)[:500]))
        error = error.__cause__ or error.__context__
    return out


def plain_value(item: Any) -> Any:
    return item.model_dump() if hasattr(item, "model_dump") else item


def outcome(vendor: str, streamed: bool, asynchronous: bool, answer: Any) -> Any:
    """What the application sees: the value, or the items and then the exception;
    and the number of requests.
    """
    requests = 0
    items: list[Any] = []

    def counted(request: Any) -> Any:
        nonlocal requests
        requests += 1
        return answer(request)

    def call(is_async: bool) -> Any:
        if vendor == "anthropic":
            return claude(counted, is_async, max_retries=1).messages.create(**ASK, stream=streamed)
        return gpt(counted, is_async, max_retries=1).chat.completions.create(**CHAT, stream=streamed)

    async def run() -> None:
        result = await call(True)
        if streamed:
            items.extend([plain_value(item) async for item in result])
        else:
            items.append(plain_value(result))

    try:
        if asynchronous:
            asyncio.run(run())
        else:
            result = call(False)
            if streamed:
                for item in result:
                    items.append(plain_value(item))  # noqa: PERF401 - those before an exception count too
            else:
                items.append(plain_value(result))
    except Exception as error:
        return repr(items), chain(error), getattr(error, "status_code", None), requests
    return repr(items), None, None, requests


@pytest.fixture(autouse=True)
def _short_back_off(monkeypatch: pytest.MonkeyPatch) -> None:
    for module in (anthropic, openai):
        monkeypatch.setattr(module._base_client, "INITIAL_RETRY_DELAY", 0.001)


@pytest.mark.parametrize("asynchronous", [False, True])
@pytest.mark.parametrize("streamed", [False, True])
@pytest.mark.parametrize("vendor", ["anthropic", "openai"])
def test_20_odd_answers_change_nothing(vendor: str, streamed: bool, asynchronous: bool) -> None:
    """The same values or the same exceptions, by the same number of requests; one call; only sane counts."""
    for name, ((status, headers, body), may_count) in answers(vendor).items():

        def answer(request: Any, status: int = status, headers: Any = headers, body: bytes = body) -> Any:
            return status, headers, [body[i : i + 65_536] for i in range(0, len(body), 65_536)]

        bare = outcome(vendor, streamed, asynchronous, answer)
        with observed() as found:
            assert bare == outcome(vendor, streamed, asynchronous, answer), name
            assert 1 == found.calls().count, name
            assert may_count or found.seen.points(INPUT) == {}, name
            assert found.inflight == 0, name


def test_20_ten_megabytes_in_one_line() -> None:
    """A single line of 10 MB inside a stream is passed on and given up,
    and the rest of the stream is still read.
    """
    body = b"event: ping\ndata: " + b"y" * 10_000_000 + b"\n\n" + b"".join(a_full())

    def answer(request: Any) -> Any:
        return 200, {"content-type": SSE}, [body]

    bare = outcome("anthropic", True, False, answer)
    with observed() as found:
        assert bare == outcome("anthropic", True, False, answer)
        assert 1 == found.calls().count


# --- the second part: our own entry points fail ----------------------------------------------------

ENTRY_POINTS: dict[str, tuple[Any, str]] = {
    "attempt: head": (attempt.Attempt, "head"),
    "attempt: plain piece": (attempt.Attempt, "_keep"),
    "attempt: stream piece": (attempt.Attempt, "_along"),
    "attempt: end": (attempt.Attempt, "end"),
    "attempt: fail": (attempt.Attempt, "fail"),
    "attempt: close": (attempt.Attempt, "close"),
    "intake: begin": (_intake.Intake, "begin"),
    "intake: attempt": (_intake.Intake, "attempt_ended"),
    "intake: call": (_intake.Intake, "call_left"),
    "later: identify": (_later.Later, "identify"),
    "later: read along": (_later.Later, "read_along"),
    "later: open": (_later.Later, "_open"),
    "later: attempt": (_later.Later, "attempt"),
    "later: call": (_later.Later, "call"),
    "ending": (_later, "outcome_of"),
    "extract: candidate": (_extract, "candidate"),
    "extract: identify": (_extract, "identify"),
    "recording": (Store, "add"),
    "zeros": (Store, "touch"),
    "rules: call": (rules, "call"),
    "rules: attempt": (rules, "attempt"),
    "labels": (_Common, "__missing__"),
    "prices": (Prices, "price"),
    "judges": (MechanismsInForce, "judge"),
    "judges: begin": (MechanismsInForce, "begin"),
    "clock: attempt": (attempt, "perf_counter"),
    "clock: intake": (_intake, "perf_counter"),
    "clock: transport": (transports, "perf_counter"),
    "clock: SDK": (sdk, "perf_counter"),
}


def broken(original: Any, error: type[BaseException], met: list[int]) -> Any:
    """A function that always fails; of a store, all but the count of our faults fails."""

    def fails(*arguments: Any, **named: Any) -> Any:
        if original is Store_add and arguments[1] and arguments[1][0][0] is INTERNAL_ERRORS:
            return original(*arguments)
        met.append(1)
        raise error("PROMPT")

    return fails


Store_add = Store.add


@pytest.mark.parametrize("error", [RuntimeError, MemoryError])
@pytest.mark.parametrize("name", ENTRY_POINTS)
def test_20_our_own_faults_stay_with_us(
    name: str, error: type[BaseException], monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Each entry point fails at every turn:
    values and exceptions are the same, the fault is counted and told once.
    """
    owner, attribute = ENTRY_POINTS[name]
    refused = lambda request: httpx2.ConnectError("no", request=request)  # noqa: E731
    ways = [
        (v, s, a, answer)
        for v in ("anthropic", "openai")
        for s in (False, True)
        for a in (False, True)
        for answer in (good, refused)
    ]
    bare = [outcome(*way) for way in ways]
    guard.reset()
    met: list[int] = []
    with observed(strict=False, overhead_sample=1.0) as found:
        monkeypatch.setattr(owner, attribute, broken(getattr(owner, attribute), error, met))
        reconnect()
        seen = [outcome(*way) for way in ways]
        _catch_up()
        monkeypatch.undo()
        reconnect()
        assert bare == seen
        assert met
        assert found.seen.value(SELF_ERRORS) >= 1
        again = found.calls().count
        outcome("anthropic", False, False, good)
        assert again + 1 == found.calls().count  # whole again
        assert 0 == found.inflight  # nothing is held for ever
    lines = [r.getMessage() for r in caplog.records if r.name == "lz_otel" and r.levelno >= logging.WARNING]
    assert 1 <= len(lines) == len({line.partition("(")[0] for line in lines})
    assert not any("PROMPT" in line for line in lines)
    assert not any(r.exc_info for r in caplog.records if r.name.startswith("lz_otel"))


def reconnect() -> None:
    """Hand the hooks what stands in the classes now."""
    runtime = _runtime.current()
    assert runtime is not None
    runtime._connect()


def _catch_up() -> None:
    """What an exporter's turn would do, with its fault caught as an exporter catches it."""
    runtime = _runtime.current()
    assert runtime is not None
    try:
        runtime.store.snapshot()
    except Exception as fault:
        guard.fault("export", fault)


def test_20_a_store_that_takes_nothing_is_still_told(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Where even the fault cannot be counted, the log line is there."""
    guard.reset()
    with observed(strict=False):
        monkeypatch.setattr(Store, "add", broken(None, RuntimeError, []))
        claude(good).messages.create(**ASK)
        _catch_up()
        monkeypatch.undo()
        reconnect()
    assert [r for r in caplog.records if r.name == "lz_otel" and "swallowed" in r.getMessage()]


@pytest.mark.parametrize("error", [KeyboardInterrupt, SystemExit])
@pytest.mark.parametrize("name", ["attempt: head", "attempt: stream piece", "intake: begin"])
def test_20_interrupts_are_not_swallowed(
    name: str, error: type[BaseException], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Ctrl-C while code of ours runs is the application's."""
    owner, attribute = ENTRY_POINTS[name]
    with observed(strict=False):
        monkeypatch.setattr(owner, attribute, broken(None, error, []))
        reconnect()
        with pytest.raises(error):
            list(claude(good).messages.create(**ASK, stream=True))
        monkeypatch.undo()
        reconnect()


@pytest.mark.parametrize("name", ["rules: call", "labels", "intake: attempt", "attempt: end"])
def test_20_an_operation_does_not_wait_for_a_lost_call(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A call that a fault of ours has lost does not keep its operation from being reported."""
    owner, attribute = ENTRY_POINTS[name]
    with observed(strict=False) as found:
        monkeypatch.setattr(owner, attribute, broken(None, RuntimeError, []))
        reconnect()
        with lz_otel.operation("ticket"):
            claude(good).messages.create(**ASK)
            list(claude(good).messages.create(**ASK, stream=True))
        monkeypatch.undo()
        reconnect()
        assert 1 == found.samples(OPERATIONS)
