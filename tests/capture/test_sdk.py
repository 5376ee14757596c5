"""The hooks on the SDKs' methods: which are put on when, over whose, and how they come off."""

from __future__ import annotations

import functools
from typing import Any

import httpx2
import pytest
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

import lz_otel
from lz_otel import _runtime
from lz_otel.testing import capture
from tests.wire_doubles import A_JSON

base = pytest.importorskip(
    "anthropic._base_client", reason="anthropic is not installed: install the group test"
)
CALLS = "gen_ai.client.inference.duration"
MESSAGE = {"model": "claude-opus-5", "max_tokens": 5, "messages": [{"role": "user", "content": "x"}]}


def client(answer: Any = lambda _: httpx2.Response(200, json=A_JSON)) -> Any:
    """The official SDK over a transport without a socket."""
    import anthropic

    transport = httpx2.MockTransport(answer)
    return anthropic.Anthropic(api_key="k", http_client=anthropic.DefaultHttpxClient(transport=transport))


def provider() -> tuple[TracerProvider, InMemorySpanExporter]:
    """Somebody who traces."""
    made, spans = TracerProvider(), InMemorySpanExporter()
    made.add_span_processor(SimpleSpanProcessor(spans))
    return made, spans


def codes() -> tuple[Any, Any]:
    """The code of the outer and of the inner method; hooks are put into it."""
    methods = (base.SyncAPIClient.__dict__["request"], base.SyncAPIClient.__dict__.get("_request"))
    return tuple(getattr(method, "__code__", None) for method in methods)  # type: ignore[return-value]


def test_the_inner_method_is_hooked_once_somebody_traces() -> None:
    """Those who do not trace pay for one hook, not for two; afterwards both are off."""
    outer, inner = codes()
    lz_otel.instrument(exporters="none")
    client().messages.create(**MESSAGE)
    assert (False, True) == (codes()[0] is outer, codes()[1] is inner)
    lz_otel.uninstrument()
    lz_otel.instrument(exporters="none", tracer_provider=provider()[0])
    client().messages.create(**MESSAGE)
    assert codes()[1] is not inner or inner is None
    lz_otel.uninstrument()
    assert (outer, inner) == codes()


def test_a_wrapper_over_ours_stays_where_it_is() -> None:
    """Another library wraps the method after us:
    the first traced call puts nothing over it, and ours comes off beneath it.
    """
    tracers, spans = provider()
    before, code = base.SyncAPIClient.__dict__["request"], codes()[0]
    lz_otel.instrument(exporters="none", tracer_provider=tracers)
    ours = base.SyncAPIClient.__dict__["request"]

    @functools.wraps(ours)
    def theirs(self: Any, *args: Any, **kwargs: Any) -> Any:
        attributes = {"gen_ai.operation.name": "chat"}
        with tracers.get_tracer("other").start_as_current_span("theirs", attributes=attributes):
            return ours(self, *args, **kwargs)

    base.SyncAPIClient.request = theirs
    try:
        one = client()
        one._lazy_tracer = None  # an SDK that makes no span of its own
        for _ in range(2):
            one.messages.create(**MESSAGE)
        assert base.SyncAPIClient.__dict__["request"] is theirs
        lz_otel.uninstrument()
        assert before.__code__ is code
    finally:
        base.SyncAPIClient.request = ours
        lz_otel.uninstrument()
    assert ["theirs", "theirs"] == [span.name for span in spans.get_finished_spans()]
    assert base.SyncAPIClient.__dict__["request"] is before


def on_a_class(one: Any, wrap: Any) -> None:
    """Wrap as ``logfire.instrument_anthropic()`` does: on the class below the one that has the method."""
    kind = type(one)
    kind.request = wrap(kind.request)


def on_a_client(one: Any, wrap: Any) -> None:
    """Wrap as ``logfire.instrument_anthropic(client)`` does: on one client only."""
    one.request = wrap(one.request)


def on_the_class_of_the_method(one: Any, wrap: Any) -> None:
    """Wrap where the method is."""
    base.SyncAPIClient.request = wrap(base.SyncAPIClient.request)


@pytest.mark.parametrize("named", [True, False], ids=["functools.wraps", "bare"])
@pytest.mark.parametrize("first", [True, False], ids=["before us", "after us"])
@pytest.mark.parametrize("place", [on_a_class, on_a_client, on_the_class_of_the_method])
def test_a_call_is_one_call_whoever_wraps_the_method(
    place: Any, first: bool, named: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Three attempts are one call over a transport of the host's own,
    and the first wrapper, who took the method before us, is still called.
    """
    entered: list[str] = []

    def wrap(method: Any) -> Any:
        def wrapper(*args: Any, **kwargs: Any) -> Any:
            entered.append("theirs")
            return method(*args, **kwargs)

        return functools.wraps(method)(wrapper) if named else wrapper

    answers = iter([529, 529, 200] * 2)
    headers = {"retry-after-ms": "1"}
    one = client(lambda _: httpx2.Response(next(answers), json=A_JSON, headers=headers))
    monkeypatch.setattr(base.SyncAPIClient, "request", base.SyncAPIClient.__dict__["request"])
    monkeypatch.setattr(type(one), "request", type(one).request)
    monkeypatch.delattr(type(one), "request")  # it is put back, and so is what a wrapper put there
    if first:
        place(one, wrap)
    with capture(strict=True) as seen:
        if not first:
            place(one, wrap)
        one.messages.create(**MESSAGE)
        assert (1, 1) == (seen.value(CALLS), seen.value(CALLS, lz_ending="ok"))
        assert (3, 2) == (seen.value("lz.attempts"), seen.value("lz.call.retries"))
    one.messages.create(**MESSAGE)
    assert ["theirs"] * 2 == entered


def test_a_call_within_the_putting_on_of_hooks() -> None:
    """A signal's handler that calls while its own thread puts hooks on goes on at once."""
    lz_otel.instrument(exporters="none", tracer_provider=provider()[0])
    hooks = _runtime._clients.sdks
    with hooks._functions._lock, hooks.hooks._functions._lock:
        client().messages.create(**MESSAGE)
    assert hooks.inside


def test_what_is_remembered_of_an_address_holds_no_query() -> None:
    """A key in the query (Gemini) is gone with its request,
    and addresses with other queries are the same one.
    """
    lz_otel.instrument(exporters="none")
    with httpx2.Client(transport=httpx2.MockTransport(lambda _: httpx2.Response(200, json={}))) as one:
        lz_otel.instrument_client(one)
        for number in range(3):
            url = "https://generativelanguage.googleapis.com/v1beta/models/gemini-3-pro:generateContent"
            one.post(url, params={"key": f"SECRET-{number}"}, json={"contents": []})
    runtime = _runtime.current()
    assert runtime is not None
    assert 1 == len(runtime.intake._places)
    assert "SECRET" not in repr(runtime.intake._places)
