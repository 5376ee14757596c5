"""What is compared: each variant is put on before a block of calls and taken off after it.

A variant hands out a function that does whatever it has put off, so that the block pays for it.
"""

from __future__ import annotations

import contextlib
import os
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    Settle = Callable[[], None]

ALL_MECHANISMS = "symbolic,pruning,intent,zeroing,scheduling,prompt_cache,response_cache"


def _nothing() -> None:
    """Nothing was put off."""


@contextlib.contextmanager
def bare(_sink: str) -> Iterator[Settle]:
    """Nothing at all."""
    yield _nothing


@contextlib.contextmanager
def otel(_sink: str) -> Iterator[Settle]:
    """The OpenTelemetry instrumentors of httpx and httpx2, with metrics and without traces."""
    from opentelemetry.instrumentation.httpx import HTTPX2ClientInstrumentor, HTTPXClientInstrumentor
    from opentelemetry.sdk.metrics import MeterProvider
    from opentelemetry.sdk.metrics.export import InMemoryMetricReader

    provider = MeterProvider([InMemoryMetricReader()])
    instrumentors: list[Any] = [HTTPXClientInstrumentor(), HTTPX2ClientInstrumentor()]
    for instrumentor in instrumentors:
        instrumentor.instrument(meter_provider=provider)
    try:
        yield _nothing
    finally:
        for instrumentor in instrumentors:
            instrumentor.uninstrument()
        provider.shutdown()


@contextlib.contextmanager
def _lz(sink: str, **settings: Any) -> Iterator[Settle]:
    import lz_otel
    from lz_otel import _runtime

    os.environ["OTEL_EXPORTER_OTLP_ENDPOINT"] = sink
    lz_otel.instrument(prometheus_port=0, **settings)
    runtime = _runtime.current()
    assert runtime is not None

    def settle() -> None:
        for put_off in runtime.store.before_snapshot:  # what a scrape would make it do first
            put_off()

    try:
        yield settle
    finally:
        lz_otel.uninstrument()
        del os.environ["OTEL_EXPORTER_OTLP_ENDPOINT"]


def prometheus(sink: str) -> contextlib.AbstractContextManager[Settle]:
    """lz_otel as it is by default: Prometheus, no traces."""
    return _lz(sink, exporters="prometheus")


def no_reasons(sink: str) -> contextlib.AbstractContextManager[Settle]:
    """lz_otel for Prometheus, not looking for the reasons of prompt-cache misses."""
    return _lz(sink, exporters="prometheus", miss_reasons=False)


def otlp(sink: str) -> contextlib.AbstractContextManager[Settle]:
    """lz_otel by OTLP only."""
    return _lz(sink, exporters="otlp")


@contextlib.contextmanager
def host_provider(sink: str) -> Iterator[Settle]:
    """lz_otel into a MeterProvider that the application has made."""
    from opentelemetry.sdk.metrics import MeterProvider
    from opentelemetry.sdk.metrics.export import InMemoryMetricReader

    provider = MeterProvider([InMemoryMetricReader()])
    with _lz(sink, exporters="none", meter_provider=provider) as settle:
        yield settle
    provider.shutdown()


def both(sink: str) -> contextlib.AbstractContextManager[Settle]:
    """lz_otel for Prometheus and by OTLP."""
    return _lz(sink, exporters="prometheus,otlp")


@contextlib.contextmanager
def beside_otel(sink: str) -> Iterator[Settle]:
    """lz_otel and the OpenTelemetry instrumentor, one on top of the other."""
    with otel(sink), prometheus(sink) as settle:
        yield settle


def every_mechanism(sink: str) -> contextlib.AbstractContextManager[Settle]:
    """lz_otel for Prometheus with all seven mechanisms awake."""
    return _lz(sink, exporters="prometheus", mechanisms=ALL_MECHANISMS)


def no_mechanism(sink: str) -> contextlib.AbstractContextManager[Settle]:
    """lz_otel for Prometheus with no mechanism at all."""
    return _lz(sink, exporters="prometheus", mechanisms="none")


VARIANTS: dict[str, Callable[[str], contextlib.AbstractContextManager[Settle]]] = {
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
