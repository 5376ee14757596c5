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
from tests.wire_doubles import A_JSON

base = pytest.importorskip(
    "anthropic._base_client", reason="anthropic is not installed: install the group test"
)
MESSAGE = {"model": "claude-opus-5", "max_tokens": 5, "messages": [{"role": "user", "content": "x"}]}


def client() -> Any:
    """The official SDK over a transport without a socket."""
    import anthropic

    transport = httpx2.MockTransport(lambda _: httpx2.Response(200, json=A_JSON))
    return anthropic.Anthropic(api_key="k", http_client=anthropic.DefaultHttpxClient(transport=transport))


def provider() -> tuple[TracerProvider, InMemorySpanExporter]:
    """Somebody who traces."""
    made, spans = TracerProvider(), InMemorySpanExporter()
    made.add_span_processor(SimpleSpanProcessor(spans))
    return made, spans


def test_the_inner_method_is_hooked_once_somebody_traces() -> None:
    """Those who do not trace pay for one hook, not for two; afterwards both are off."""
    outer, inner = base.SyncAPIClient.__dict__["request"], base.SyncAPIClient.__dict__.get("_request")
    lz_otel.instrument(exporters="none")
    client().messages.create(**MESSAGE)
    assert (True, True) == (
        base.SyncAPIClient.__dict__["request"] is not outer,
        base.SyncAPIClient.__dict__.get("_request") is inner,
    )
    lz_otel.uninstrument()
    lz_otel.instrument(exporters="none", tracer_provider=provider()[0])
    client().messages.create(**MESSAGE)
    assert base.SyncAPIClient.__dict__.get("_request") is not inner or inner is None
    lz_otel.uninstrument()
    assert (outer, inner) == (
        base.SyncAPIClient.__dict__["request"],
        base.SyncAPIClient.__dict__.get("_request"),
    )


def test_a_wrapper_over_ours_stays_where_it_is() -> None:
    """Another library wraps the method after us:
    the first traced call puts nothing over it, and all comes off.
    """
    tracers, spans = provider()
    before = base.SyncAPIClient.__dict__["request"]
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
    finally:
        base.SyncAPIClient.request = ours
        lz_otel.uninstrument()
    assert ["theirs", "theirs"] == [span.name for span in spans.get_finished_spans()]
    assert base.SyncAPIClient.__dict__["request"] is before


def test_looking_inside_never_waits_for_itself() -> None:
    """A signal's handler that calls while its own thread is looking inside goes on at once."""
    lz_otel.instrument(exporters="none")
    hooks = _runtime._sdks
    with hooks._lock:
        hooks.look_inside()
    assert not hooks.inside


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
