"""HTTP spans that lz_otel switches on hold no secret; those that the application switched on are its own."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any

import httpx2
import pytest
from opentelemetry import trace
from opentelemetry.instrumentation import httpx as package
from opentelemetry.instrumentation.httpx import HTTPXClientInstrumentor
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import StatusCode

from lz_otel._export import http_spans

if TYPE_CHECKING:
    from collections.abc import Iterator

URL = "http://127.0.0.1:9/v1/messages?key=SECRET"


@pytest.fixture
def spans(monkeypatch: pytest.MonkeyPatch) -> Iterator[InMemorySpanExporter]:
    """An application that has set a TracerProvider of its own; both instrumentors are off at the end."""
    memory = InMemorySpanExporter()
    provider = TracerProvider(shutdown_on_exit=False)
    provider.add_span_processor(SimpleSpanProcessor(memory))
    monkeypatch.setattr(trace, "_TRACER_PROVIDER", provider)
    yield memory
    classes = [HTTPXClientInstrumentor, getattr(package, "HTTPX2ClientInstrumentor", None)]
    for one in [cls() for cls in classes if cls is not None]:
        if one.is_instrumented_by_opentelemetry:
            one.uninstrument()


needs_httpx2 = pytest.mark.skipif(
    not hasattr(package, "HTTPX2ClientInstrumentor"), reason="the oldest releases know httpx only"
)


def refused() -> None:
    with httpx2.Client(trust_env=False) as client, pytest.raises(httpx2.ConnectError):
        client.get(URL)


@pytest.mark.parametrize(
    ("url", "bare"),
    [
        ("https://u:p@h:1/a/b?key=S#S", "https://h:1/a/b"),
        ("https://h/a#S?S", "https://h/a"),
        ("https://u@S@h/a@b", "https://h/a@b"),
        ("//u:p@h/a", "//h/a"),
        ("https://[::1]:80?S", "https://[::1]:80"),
        ("/a@b/c?S", "/a@b/c"),
        ("", ""),
    ],
)
def test_a_bare_url(url: str, bare: str) -> None:
    """User, password, query and fragment go; scheme, host, port and path stay."""
    assert bare == http_spans.bare_url(url)


@needs_httpx2
def test_the_applications_provider_sees_no_secret_either(spans: InMemorySpanExporter) -> None:
    """Also where the spans go to a provider of the application's: an exception is there by its class only."""
    http_spans.switch_on()
    refused()
    [span] = spans.get_finished_spans()
    assert "http://127.0.0.1:9/v1/messages" == (span.attributes or {})["http.url"]
    assert [{"exception.type": "httpx2.ConnectError"}] == [dict(e.attributes or {}) for e in span.events]
    assert (StatusCode.ERROR, "ConnectError") == (span.status.status_code, span.status.description)
    assert "SECRET" not in span.to_json()


@needs_httpx2
def test_what_the_application_switched_on_is_its_own(spans: InMemorySpanExporter) -> None:
    """An instrumentor that is on already is left as it is."""
    package.HTTPX2ClientInstrumentor().instrument()
    http_spans.switch_on()
    refused()
    [span] = spans.get_finished_spans()
    assert URL == (span.attributes or {})["http.url"]


def test_every_part_of_a_url_goes(spans: InMemorySpanExporter) -> None:
    """Both ways to make a span, and every attribute that may hold a query, in whichever conventions."""
    tracer = http_spans._Provider().get_tracer("t")
    given: dict[str, Any] = {
        "http.target": "/a?S",
        "url.original": "/b?S",
        "url.query": "S",
        "url.fragment": "S",
        "n": 1,
    }
    tracer.start_span("one", attributes=given).end()
    with tracer.start_as_current_span("two", attributes=given), tracer.start_as_current_span("none"):
        pass
    none, *found = sorted(spans.get_finished_spans(), key=lambda span: span.name)
    assert {} == dict(none.attributes or {})
    assert [{"http.target": "/a", "url.original": "/b", "n": 1}] * 2 == [
        dict(span.attributes or {}) for span in found
    ]


@needs_httpx2
def test_an_instrumentor_that_fails_is_one_warning(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, spans: InMemorySpanExporter
) -> None:
    """One that cannot be switched on costs a line without the exception's text, and not the other one."""

    def fails(self: Any, **_: Any) -> None:
        raise RuntimeError("SECRET")

    monkeypatch.setattr(HTTPXClientInstrumentor, "_instrument", fails)
    http_spans.switch_on()
    [record] = [r for r in caplog.records if r.name == "lz_otel"]
    assert (logging.WARNING, "lz_otel: no HTTP spans by HTTPXClientInstrumentor (RuntimeError)") == (
        record.levelno,
        record.getMessage(),
    )
    assert package.HTTPX2ClientInstrumentor().is_instrumented_by_opentelemetry


def test_one_that_is_too_old_for_httpx2_is_one_warning(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, spans: InMemorySpanExporter
) -> None:
    """The oldest that the package allows knows httpx only: that httpx2 goes without is said."""
    monkeypatch.delattr(package, "HTTPX2ClientInstrumentor", raising=False)
    assert [HTTPXClientInstrumentor] == [type(one) for one in http_spans.switch_on()]
    text = "lz_otel: no HTTP spans of httpx2: opentelemetry-instrumentation-httpx is too old for it"
    assert [text] == [record.getMessage() for record in caplog.records if record.name == "lz_otel"]
