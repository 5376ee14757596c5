"""Spans out of the process: only on request, and never over a TracerProvider of the application."""

from __future__ import annotations

import logging
from typing import Any

from lz_otel.errors import MissingDependencyError

__all__ = ["http_spans", "set_up"]

_LOG = logging.getLogger("lz_otel")


def set_up(names: tuple[str, ...]) -> Any:
    """Set a global TracerProvider that exports to ``otlp`` and/or ``console``.

    Does nothing when the application has set one: that one is used. A missing package is a warning.
    """
    from opentelemetry import trace
    from opentelemetry.sdk.trace import TracerProvider
    from opentelemetry.sdk.trace.export import BatchSpanProcessor, ConsoleSpanExporter

    if not isinstance(trace.get_tracer_provider(), (trace.ProxyTracerProvider, trace.NoOpTracerProvider)):
        return None
    exporters: list[Any] = []
    for name in names:
        if name == "console":
            exporters.append(ConsoleSpanExporter())
        elif name == "otlp":
            try:
                from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
            except ImportError:
                missing = MissingDependencyError(
                    "opentelemetry-exporter-otlp-proto-http", "otlp", "OTEL_TRACES_EXPORTER=otlp"
                )
                _LOG.warning("lz_otel: %s; no spans are exported", missing)
            else:
                exporters.append(OTLPSpanExporter())
    if not exporters:
        return None
    provider = TracerProvider()
    for exporter in exporters:
        provider.add_span_processor(BatchSpanProcessor(exporter))
    trace.set_tracer_provider(provider)
    return provider


def http_spans() -> None:
    """Switch on the OpenTelemetry instrumentors of httpx and httpx2, where they are installed and off."""
    from opentelemetry.instrumentation import httpx as package

    for name in ("HTTPXClientInstrumentor", "HTTPX2ClientInstrumentor"):
        cls = getattr(package, name, None)
        if cls is None:
            continue
        instrumentor = cls()
        if not instrumentor.is_instrumented_by_opentelemetry:
            try:
                instrumentor.instrument()
            except Exception as error:  # noqa: BLE001 - e.g. the client's version is not supported
                _LOG.warning("lz_otel: no HTTP spans by %s (%s)", name, type(error).__name__)
