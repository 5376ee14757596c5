"""What is compared: each variant is put on before a block of calls and taken off after it."""

from __future__ import annotations

import contextlib
import os
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

ALL_MECHANISMS = "symbolic,pruning,intent,zeroing,scheduling,prompt_cache,response_cache"


@contextlib.contextmanager
def bare(_sink: str) -> Iterator[None]:
    """Nothing at all."""
    yield


@contextlib.contextmanager
def otel(_sink: str) -> Iterator[None]:
    """The OpenTelemetry instrumentors of httpx and httpx2, with metrics and without traces."""
    from opentelemetry.instrumentation.httpx import HTTPX2ClientInstrumentor, HTTPXClientInstrumentor
    from opentelemetry.sdk.metrics import MeterProvider
    from opentelemetry.sdk.metrics.export import InMemoryMetricReader

    provider = MeterProvider([InMemoryMetricReader()])
    instrumentors: list[Any] = [HTTPXClientInstrumentor(), HTTPX2ClientInstrumentor()]
    for instrumentor in instrumentors:
        instrumentor.instrument(meter_provider=provider)
    try:
        yield
    finally:
        for instrumentor in instrumentors:
            instrumentor.uninstrument()
        provider.shutdown()


@contextlib.contextmanager
def _lz(sink: str, **settings: Any) -> Iterator[None]:
    import lz_otel

    os.environ["OTEL_EXPORTER_OTLP_ENDPOINT"] = sink
    lz_otel.instrument(prometheus_port=0, **settings)
    try:
        yield
    finally:
        lz_otel.uninstrument()
        del os.environ["OTEL_EXPORTER_OTLP_ENDPOINT"]


def prometheus(sink: str) -> contextlib.AbstractContextManager[None]:
    """lz_otel as it is by default: Prometheus, no traces."""
    return _lz(sink, exporters="prometheus")


def no_reasons(sink: str) -> contextlib.AbstractContextManager[None]:
    """lz_otel for Prometheus, not looking for the reasons of prompt-cache misses."""
    return _lz(sink, exporters="prometheus", miss_reasons=False)


def otlp(sink: str) -> contextlib.AbstractContextManager[None]:
    """lz_otel by OTLP only."""
    return _lz(sink, exporters="otlp")


@contextlib.contextmanager
def host_provider(sink: str) -> Iterator[None]:
    """lz_otel into a MeterProvider that the application has made."""
    from opentelemetry.sdk.metrics import MeterProvider
    from opentelemetry.sdk.metrics.export import InMemoryMetricReader

    provider = MeterProvider([InMemoryMetricReader()])
    with _lz(sink, exporters="none", meter_provider=provider):
        yield
    provider.shutdown()


def both(sink: str) -> contextlib.AbstractContextManager[None]:
    """lz_otel for Prometheus and by OTLP."""
    return _lz(sink, exporters="prometheus,otlp")


@contextlib.contextmanager
def beside_otel(sink: str) -> Iterator[None]:
    """lz_otel and the OpenTelemetry instrumentor, one on top of the other."""
    with otel(sink), prometheus(sink):
        yield


def every_mechanism(sink: str) -> contextlib.AbstractContextManager[None]:
    """lz_otel for Prometheus with all seven mechanisms awake."""
    return _lz(sink, exporters="prometheus", mechanisms=ALL_MECHANISMS)


def no_mechanism(sink: str) -> contextlib.AbstractContextManager[None]:
    """lz_otel for Prometheus with no mechanism at all."""
    return _lz(sink, exporters="prometheus", mechanisms="none")


VARIANTS: dict[str, Callable[[str], contextlib.AbstractContextManager[None]]] = {
    "bare": bare,
    "otel": otel,
    "prometheus": prometheus,
    "no_reasons": no_reasons,
    "otlp": otlp,
    "host_provider": host_provider,
    "both": both,
    "beside_otel": beside_otel,
    "every_mechanism": every_mechanism,
    "no_mechanism": no_mechanism,
}
LABELS = {
    "bare": "bare client",
    "otel": "OpenTelemetry instrumentor",
    "prometheus": "lz-otel, Prometheus",
    "no_reasons": "lz-otel, Prometheus, no miss reasons",
    "otlp": "lz-otel, OTLP",
    "host_provider": "lz-otel, MeterProvider of the application",
    "both": "lz-otel, Prometheus and OTLP",
    "beside_otel": "lz-otel and the OpenTelemetry instrumentor",
    "every_mechanism": "lz-otel, every mechanism on",
    "no_mechanism": "lz-otel, no mechanism",
}
