"""What is compared: each variant is put on before a block of calls and taken off after it.

A variant hands out a `Watch`: what it has put off can be asked for, so that the block pays for it, and how
many calls it has counted, so that nothing is called cheap that sees nothing.
"""

from __future__ import annotations

import contextlib
import os
import tempfile
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

ALL_MECHANISMS = "symbolic,pruning,intent,zeroing,scheduling,prompt_cache,response_cache"


def _nothing() -> None:
    """Nothing was put off."""


def _unknown() -> None:
    """Nothing counts."""


class Watch(NamedTuple):
    """A variant in force.

    Attributes:
        settle: does what was put off.
        seen: calls counted so far; ``None`` where lz_otel is not on.
    """

    settle: Callable[[], None] = _nothing
    seen: Callable[[], float | None] = _unknown


@contextlib.contextmanager
def bare(_sink: str) -> Iterator[Watch]:
    """Nothing at all."""
    yield Watch()


@contextlib.contextmanager
def otel(_sink: str) -> Iterator[Watch]:
    """The OpenTelemetry instrumentors of httpx and httpx2, with metrics and without traces."""
    from opentelemetry.instrumentation.httpx import HTTPX2ClientInstrumentor, HTTPXClientInstrumentor
    from opentelemetry.sdk.metrics import MeterProvider
    from opentelemetry.sdk.metrics.export import InMemoryMetricReader

    provider = MeterProvider([InMemoryMetricReader()])
    instrumentors: list[Any] = [HTTPXClientInstrumentor(), HTTPX2ClientInstrumentor()]
    for instrumentor in instrumentors:
        instrumentor.instrument(meter_provider=provider)
    try:
        yield Watch()
    finally:
        for instrumentor in instrumentors:
            instrumentor.uninstrument()
        provider.shutdown()


@contextlib.contextmanager
def _lz(sink: str, **settings: Any) -> Iterator[Watch]:
    import lz_otel
    from lz_otel import _runtime, catalogue

    os.environ["OTEL_EXPORTER_OTLP_ENDPOINT"] = sink
    lz_otel.instrument(prometheus_port=0, **settings)
    runtime = _runtime.current()
    assert runtime is not None

    def settle() -> None:
        for put_off in runtime.store.before_snapshot:  # what a scrape would make it do first
            put_off()

    def seen() -> float:
        calls: float = runtime.store.value(catalogue.INFERENCE_DURATION).count
        return calls

    try:
        yield Watch(settle, seen)
    finally:
        lz_otel.uninstrument()
        del os.environ["OTEL_EXPORTER_OTLP_ENDPOINT"]


def prometheus(sink: str) -> contextlib.AbstractContextManager[Watch]:
    """lz_otel as it is by default: Prometheus, no traces."""
    return _lz(sink, exporters="prometheus")


@contextlib.contextmanager
def shared_folder(sink: str) -> Iterator[Watch]:
    """lz_otel for Prometheus in a worker process, whose numbers others read from files."""
    with tempfile.TemporaryDirectory(prefix="lz-workers-") as folder:
        os.environ["PROMETHEUS_MULTIPROC_DIR"] = folder
        try:
            with _lz(sink, exporters="prometheus") as watch:
                yield watch
        finally:
            del os.environ["PROMETHEUS_MULTIPROC_DIR"]


def no_reasons(sink: str) -> contextlib.AbstractContextManager[Watch]:
    """lz_otel for Prometheus, not looking for the reasons of prompt-cache misses."""
    return _lz(sink, exporters="prometheus", miss_reasons=False)


def otlp(sink: str) -> contextlib.AbstractContextManager[Watch]:
    """lz_otel by OTLP only."""
    return _lz(sink, exporters="otlp")


@contextlib.contextmanager
def host_provider(sink: str) -> Iterator[Watch]:
    """lz_otel into a MeterProvider that the application has made."""
    from opentelemetry.sdk.metrics import MeterProvider
    from opentelemetry.sdk.metrics.export import InMemoryMetricReader

    provider = MeterProvider([InMemoryMetricReader()])
    with _lz(sink, exporters="none", meter_provider=provider) as watch:
        yield watch
    provider.shutdown()


def both(sink: str) -> contextlib.AbstractContextManager[Watch]:
    """lz_otel for Prometheus and by OTLP."""
    return _lz(sink, exporters="prometheus,otlp")


@contextlib.contextmanager
def beside_otel(sink: str) -> Iterator[Watch]:
    """lz_otel and the OpenTelemetry instrumentor, one on top of the other."""
    with otel(sink), prometheus(sink) as watch:
        yield watch


def every_mechanism(sink: str) -> contextlib.AbstractContextManager[Watch]:
    """lz_otel for Prometheus with all seven mechanisms awake."""
    return _lz(sink, exporters="prometheus", mechanisms=ALL_MECHANISMS)


def no_mechanism(sink: str) -> contextlib.AbstractContextManager[Watch]:
    """lz_otel for Prometheus with no mechanism at all."""
    return _lz(sink, exporters="prometheus", mechanisms="none")


VARIANTS: dict[str, Callable[[str], contextlib.AbstractContextManager[Watch]]] = {
    "bare": bare,
    "otel": otel,
    "prometheus": prometheus,
    "shared_folder": shared_folder,
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
    "shared_folder": "lz-otel, Prometheus, one of several workers",
    "no_reasons": "lz-otel, Prometheus, no miss reasons",
    "otlp": "lz-otel, OTLP",
    "host_provider": "lz-otel, MeterProvider of the application",
    "both": "lz-otel, Prometheus and OTLP",
    "beside_otel": "lz-otel and the OpenTelemetry instrumentor",
    "every_mechanism": "lz-otel, every mechanism on",
    "no_mechanism": "lz-otel, no mechanism",
}
