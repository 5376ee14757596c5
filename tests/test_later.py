"""Batches and what comes in between: interrupts, other threads, listeners that fail."""

from __future__ import annotations

import threading
from typing import Any

import httpx2
import pytest

import lz_otel
from lz_otel import _backlog, _extract, _later, _runtime
from lz_otel.testing import capture
from tests.wire_doubles import A_JSON, a_full, pieces_for, transport

URL = "https://api.anthropic.com/v1/messages"
ASK: dict[str, Any] = {
    "model": "claude-opus-5",
    "max_tokens": 10,
    "messages": [{"role": "user", "content": "x"}],
}
CALLS = "gen_ai.client.inference.duration"
FULL = "gen_ai.client.inference.usage.input_tokens"


def client(answer: Any = lambda _: httpx2.Response(200, json=A_JSON)) -> httpx2.Client:
    """A client that is watched."""
    made = httpx2.Client(transport=transport(httpx2, answer))
    lz_otel.instrument_client(made)
    return made


def intake() -> Any:
    """The one in force."""
    runtime = _runtime.current()
    assert runtime is not None
    return runtime.intake


def test_an_exit_in_the_middle_of_a_batch_keeps_what_was_read(monkeypatch: pytest.MonkeyPatch) -> None:
    """SystemExit out of a signal's handler costs the call that was being read, and no other one."""
    with capture() as seen:
        http = client()
        for _ in range(20):
            http.post(URL, json=ASK)
        original, done = _later.Later.call, []

        def call(self: Any, *args: Any) -> None:
            done.append(1)
            if len(done) == 11:
                raise SystemExit(0)
            original(self, *args)

        monkeypatch.setattr(_later.Later, "call", call)
        with pytest.raises(SystemExit):
            intake().catch_up()
        assert 10 == seen.store.value(lz_otel.catalogue.INFERENCE_DURATION).count
        assert 19 == seen.value(CALLS)


def test_a_batch_ends_though_others_go_on(monkeypatch: pytest.MonkeyPatch) -> None:
    """What ends while a batch is read is left to the next one:
    no call of the host works for all others for ever.
    """
    with capture() as seen:
        http = client()
        read: list[int] = []
        original = _later.Later.attempt

        def attempt(self: Any, *args: Any) -> None:
            read.append(1)
            if len(read) < 1000:
                http.post(URL, json=ASK)  # another thread would
            original(self, *args)

        http.post(URL, json=ASK)
        monkeypatch.setattr(_later.Later, "attempt", attempt)
        intake().catch_up()
        assert 1 == len(read)
        monkeypatch.undo()
        assert 2 == seen.value(CALLS)


def test_a_long_backlog_makes_a_call_wait_for_its_turn() -> None:
    """Where more ends than is read, calls wait until the reader is done, so that what waits stays bounded."""
    with capture():
        taken = intake()
        patience: list[float] = []
        taken.backlog.run = lambda work, seconds: patience.append(seconds)
        http = client()
        for _ in range(_backlog._MAX_WAITING):
            http.post(URL, json=ASK)
        assert 0.0 == patience[0]
        assert 0.0 < patience[-1]


@pytest.mark.parametrize("wrong", [ValueError("no"), RuntimeError("can't start new thread")], ids=repr)
def test_a_log_that_fails_does_not_lose_the_call(wrong: Exception) -> None:
    """The host's logging may raise: the call is counted all the same, and so is the fault."""

    def listener(*_: Any) -> None:
        raise wrong

    with capture() as seen:
        intake().later.listeners.append(listener)
        client().post(URL, json=ASK)
        assert 1 == seen.value(CALLS)
        assert 1 == seen.value("lz.internal.errors", where="audit")


def test_a_scrape_sets_no_reader(monkeypatch: pytest.MonkeyPatch) -> None:
    """A scrape that counts a stream while the host's thread opens it does not take its reader away."""
    with capture() as seen:
        original, main = _extract.identify, threading.get_ident()
        inside, release = threading.Event(), threading.Event()
        active: list[float] = []
        scrape = threading.Thread(target=lambda: active.append(seen.value("lz.call.active")))

        def identify(*args: Any) -> Any:
            if threading.get_ident() != main:
                inside.set()
                release.wait(10)
            elif scrape.ident is None:
                scrape.start()
                inside.wait(10)
            return original(*args)

        head = {"content-type": "text/event-stream"}
        http = client(lambda _: httpx2.Response(200, headers=head, stream=pieces_for(httpx2, a_full())))
        http.post(
            URL, json={**ASK, "stream": True}
        )  # the first call of an address has its reader from the beginning
        monkeypatch.setattr(_extract, "identify", identify)
        with http.stream("POST", URL, json={**ASK, "stream": True}) as response:
            pieces = response.iter_raw()
            next(pieces)
            release.set()
            scrape.join()
            for _ in pieces:
                pass
        assert [1] == active
        assert 2 == seen.value(CALLS, lz_ending="ok")
        assert 2 * 2104 == seen.value(FULL)
        assert 0 == seen.value("lz.call.usage_missing")


def test_the_trace_of_a_log_line_is_the_one_the_call_began_in(caplog: pytest.LogCaptureFixture) -> None:
    """A stream that is dropped and reported within another request keeps its own trace id."""
    from opentelemetry import trace
    from opentelemetry.sdk.trace import TracerProvider

    tracer = TracerProvider().get_tracer("test")
    caplog.set_level("INFO", "lz_otel.calls")
    with capture(call_log=True):
        head = {"content-type": "text/event-stream"}
        http = client(lambda _: httpx2.Response(200, headers=head, stream=pieces_for(httpx2, a_full())))
        with tracer.start_as_current_span("a") as span:
            response = http.send(http.build_request("POST", URL, json={**ASK, "stream": True}), stream=True)
            next(response.iter_raw())
            expected = f"{trace.get_current_span().get_span_context().trace_id:032x}"
            assert span.is_recording()
        with tracer.start_as_current_span("b"):
            response.close()
    (line,) = [r.getMessage() for r in caplog.records if r.name == "lz_otel.calls"]
    assert expected in line


def test_an_answer_that_nobody_could_read_yet_is_not_said_to_be_good() -> None:
    """Where another thread's turn lasts too long, the call is counted later, and no step of it fails."""
    with capture(strict=True) as seen:
        taken = intake()
        taken.backlog.run = lambda *_: None
        client().post(URL, json=ASK)
        taken.spans = type("Spans", (), {"borrowed": lambda *_: True})()
        (attempt,) = [one for one in taken.backlog.waiting if one.__class__.__name__ == "Attempt"]
        assert not taken._answered(attempt.call, attempt)
        del taken.backlog.run
        taken.spans = None
        assert 1 == seen.value(CALLS)
