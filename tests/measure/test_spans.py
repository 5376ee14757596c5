"""Spans: one per call, to the last byte; never doubled, never lost; none when nobody traces."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import anthropic
import httpx2
import openai
import pytest
from opentelemetry import trace
from opentelemetry.instrumentation import httpx as instrumentation
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from lz_otel.testing import capture
from tests.wire_doubles import A_JSON, O_JSON, a_full, transport

if TYPE_CHECKING:
    from collections.abc import Iterator

ASK: dict[str, Any] = {
    "model": "claude-opus-5",
    "max_tokens": 10,
    "messages": [{"role": "user", "content": "x"}],
}
SSE = {"content-type": "text/event-stream"}


@pytest.fixture
def spans(monkeypatch: pytest.MonkeyPatch) -> Iterator[InMemorySpanExporter]:
    """A global TracerProvider with spans in memory."""
    exporter = InMemorySpanExporter()
    provider = TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    monkeypatch.setattr(trace, "_TRACER_PROVIDER", provider)
    yield exporter
    provider.shutdown()


def answer(request: Any) -> Any:
    """A good answer of whichever API was asked, streamed if it was asked so."""
    if "chat" in request.url.path:
        return httpx2.Response(200, json=O_JSON)
    if b'"stream":true' in request.content:
        return 200, SSE, a_full()
    return httpx2.Response(200, json=A_JSON)


def claude(**options: Any) -> anthropic.Anthropic:
    """The official client on a double."""
    return anthropic.Anthropic(
        api_key="k", http_client=httpx2.Client(transport=transport(httpx2, answer)), **options
    )


def test_spans_of_the_sdk_are_enriched(spans: InMemorySpanExporter) -> None:
    """anthropic 2.x makes its own span: it gets our attributes, and there is no second one."""
    with capture(strict=True) as seen:
        claude().messages.create(**ASK)
        list(claude().messages.create(stream=True, **ASK))
        assert seen.value("gen_ai.client.inference.duration") == 2
    found = spans.get_finished_spans()
    assert [s.name for s in found] == ["anthropic.messages.create"] * 2
    assert [s.attributes["lz.ending"] for s in found if s.attributes] == ["ok", "ok"]
    assert all(s.attributes and s.attributes["lz.cost.usd"] > 0 for s in found)  # type: ignore[operator]


def test_our_span_where_the_sdk_makes_none(spans: InMemorySpanExporter) -> None:
    """Without a span of the SDK's there is exactly one of ours, with the standard attributes."""
    with capture(strict=True):
        client = openai.OpenAI(api_key="k", http_client=httpx2.Client(transport=transport(httpx2, answer)))
        client.chat.completions.create(model="gpt-5", messages=[])
        claude(open_telemetry=False).messages.create(**ASK)
    found = spans.get_finished_spans()
    assert [s.name for s in found] == ["chat gpt-5", "chat claude-opus-5"]
    attributes = dict(found[1].attributes or {})
    assert attributes["gen_ai.usage.input_tokens"] == 2104
    assert attributes["gen_ai.usage.cache_read.input_tokens"] == 2000
    assert attributes["gen_ai.provider.name"] == "anthropic"
    assert found[1].kind is trace.SpanKind.CLIENT


def test_failed_call_is_a_failed_span(spans: InMemorySpanExporter) -> None:
    """A call that fails ends its span as an error, without any message of the provider's."""

    def refuse(request: Any) -> Any:
        return httpx2.Response(400, json={"error": {"type": "invalid_request_error", "message": "SECRET"}})

    with capture(strict=True):
        client = openai.OpenAI(api_key="k", http_client=httpx2.Client(transport=transport(httpx2, refuse)))
        with pytest.raises(openai.BadRequestError):
            client.chat.completions.create(model="gpt-5", messages=[])
    (span,) = spans.get_finished_spans()
    assert span.status.status_code is trace.StatusCode.ERROR
    assert (span.attributes or {})["error.type"] == "invalid_request_error"
    assert "SECRET" not in span.to_json()


def test_operation_and_verdicts_are_on_the_span(spans: InMemorySpanExporter) -> None:
    """Route, group and verdicts are attributes of the span."""
    import lz_otel

    with capture(strict=True), lz_otel.operation("classify", group="B"):
        claude(open_telemetry=False).messages.create(**ASK)
    (span,) = spans.get_finished_spans()
    attributes = dict(span.attributes or {})
    assert (attributes["lz.route"], attributes["lz.group"]) == ("classify", "B")
    assert attributes["lz.prompt_cache.verdict"] == "hit"


@pytest.mark.skipif(
    not hasattr(instrumentation, "HTTPX2ClientInstrumentor"), reason="the oldest releases know httpx only"
)
@pytest.mark.parametrize("asynchronous", [False, True])
@pytest.mark.parametrize("first", ["lz_otel", "instrumentor"])
def test_beside_the_http_instrumentor(spans: InMemorySpanExporter, first: str, asynchronous: bool) -> None:
    """On before or after the HTTP instrumentor: one HTTP span, one call span, one sample of each metric."""
    reader = InMemoryMetricReader()
    instrumentor = instrumentation.HTTPX2ClientInstrumentor()

    def instrument() -> None:
        instrumentor.instrument(meter_provider=MeterProvider([reader]))

    url = "http://127.0.0.1:9/v1/messages"

    async def run_async() -> None:
        async with httpx2.AsyncClient() as client:
            await client.post(url, json=ASK)

    def run() -> None:
        if asynchronous:
            asyncio.run(run_async())
        else:
            httpx2.post(url, json=ASK)

    if first == "instrumentor":
        instrument()
    try:
        with capture(strict=True) as seen:
            if first == "lz_otel":
                instrument()
            with pytest.raises(httpx2.ConnectError):
                run()
            assert seen.value("gen_ai.client.inference.duration") == 1
    finally:
        instrumentor.uninstrument()
    assert sorted(s.name for s in spans.get_finished_spans()) == ["POST", "chat claude-opus-5"]


def test_no_provider_no_span(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where nobody traces, no span is made and the call costs no look at OpenTelemetry's globals."""
    looks: list[int] = []
    real = trace.get_tracer_provider
    monkeypatch.setattr(trace, "get_tracer_provider", lambda: looks.append(1) or real())
    with capture(strict=True) as seen:
        client = claude(open_telemetry=False)
        for _ in range(50):
            client.messages.create(**ASK)
        assert seen.value("gen_ai.client.inference.duration") == 50
    assert len(looks) < 50
