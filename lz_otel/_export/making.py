"""Makes the exporters of metrics by their names in the settings. Each is imported only when it is asked for."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

from lz_otel._version import __version__

if TYPE_CHECKING:
    from lz_otel._config import Settings
    from lz_otel._measure.store import Store

__all__ = ["global_meter_provider", "make"]


def make(name: str, store: Store, settings: Settings, registry: Any) -> Any:
    """The exporter of that name, not started; ``None`` for ``none``.

    Raises:
        ConfigurationError: a standard variable of OTLP cannot be used.
    """
    if name == "prometheus":
        if os.environ.get("PROMETHEUS_MULTIPROC_DIR"):
            from lz_otel._export.multiprocess import MultiprocessExporter

            return MultiprocessExporter(store, settings.prometheus_host, settings.prometheus_port)
        from lz_otel._export.prometheus import PrometheusExporter

        return PrometheusExporter(store, settings.prometheus_host, settings.prometheus_port, registry)
    times = (settings.export_interval, settings.export_timeout, __version__)
    if name == "otlp":
        from lz_otel._export import _otlp_settings
        from lz_otel._export.otlp import OtlpExporter

        _otlp_settings.check("metrics")
        return OtlpExporter(store, *times, protocol=_otlp_settings.protocol("metrics"))
    if name == "console":
        from lz_otel._export.otlp import ConsoleExporter

        return ConsoleExporter(store, *times)
    return None


def global_meter_provider() -> Any:
    """The MeterProvider that the application has set, or ``None``."""
    from opentelemetry import metrics
    from opentelemetry.sdk.metrics import MeterProvider

    provider = metrics.get_meter_provider()
    return provider if isinstance(provider, MeterProvider) else None
