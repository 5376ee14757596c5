"""Make the exporters of metrics by their names in the settings. Each is imported only when asked for."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any, Protocol

from lz_otel._config import skip
from lz_otel._export import _ends
from lz_otel.errors import ConfigurationError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from opentelemetry.metrics import MeterProvider
    from prometheus_client import CollectorRegistry

    from lz_otel._config import Settings
    from lz_otel._export.audit import AuditLog
    from lz_otel._measure.store import Store
    from lz_otel.model import EndedCall


class Exporter(Protocol):
    """Takes the numbers of a store out of the process. None of its methods raises."""

    @property
    def port(self) -> int | None:
        """Return the port on which it serves ``/metrics``, or ``None`` while it serves none."""

    def start(self) -> None:
        """Export from now on; what cannot be started is one warning."""

    def stop(self, timeout: float) -> None:
        """Export what is left and end, within about ``timeout`` seconds."""

    def after_fork_in_child(self) -> None:
        """Become the exporter of a forked child, which starts from zero."""


def exporters(
    store: Store, settings: Settings, meter_provider: MeterProvider | None, registry: CollectorRegistry | None
) -> dict[str, Exporter]:
    """Return all exporters that the settings and the application ask for, by name, not started.

    Provider and registry (of prometheus_client) are those that the application has handed over. An exporter
    whose standard variables cannot be used is left out, with a warning.
    """
    names = settings.exporters
    explicit = names is not None
    host_provider = meter_provider or (None if explicit else global_meter_provider())
    if host_provider is None and not explicit:
        names = ("prometheus", "otlp") if settings.otlp_endpoint_set else ("prometheus",)
    made: dict[str, Exporter] = {}
    if host_provider is None and not (names and "otlp" in names):
        _tell_protocol()
    for name in names or ():
        if name != "none":
            try:
                made[name] = make(name, store, settings, registry)
            except ConfigurationError as error:
                skip(error, f"nothing goes to {name}")
    if host_provider is not None:
        from lz_otel._export.provider import ProviderExporter

        made["meter_provider"] = ProviderExporter(store, host_provider)
    return made


def _tell_protocol() -> None:
    """Warn of a protocol that is not supported, although nothing goes by OTLP yet."""
    from lz_otel._export import _otlp_settings

    try:
        _otlp_settings.protocol("metrics")
    except ConfigurationError as error:
        skip(error, "nothing could go by OTLP")


def unread(arguments: Mapping[str, Any], meter_provider: object) -> tuple[str, ...]:
    """Return the settings whose variables mean nothing: the application has its own MeterProvider."""
    if arguments.get("exporters") is None and (meter_provider or global_meter_provider()):
        return "exporters", "export_interval", "export_timeout", "prometheus_host", "prometheus_port"
    return ()


def make(name: str, store: Store, settings: Settings, registry: CollectorRegistry | None) -> Exporter:
    """Return the exporter of that name (``prometheus``, ``otlp`` or ``console``), not started.

    Raises:
        ConfigurationError: a standard variable of OTLP cannot be used.
    """
    if name == "prometheus":
        if os.environ.get("PROMETHEUS_MULTIPROC_DIR"):
            from lz_otel._export.multiprocess import MultiprocessExporter

            return MultiprocessExporter(store, settings.prometheus_host, settings.prometheus_port)
        from lz_otel._export.prometheus import PrometheusExporter

        return PrometheusExporter(store, settings.prometheus_host, settings.prometheus_port, registry)
    from lz_otel._export import _otlp_settings
    from lz_otel._export.otlp import ConsoleExporter, OtlpExporter

    if name == "console":
        return ConsoleExporter(store, settings.export_interval, settings.export_timeout)
    _otlp_settings.check("metrics")
    return OtlpExporter(store, settings.export_interval, settings.export_timeout)


def global_meter_provider() -> MeterProvider | None:
    """Return the MeterProvider that the application has set, or ``None``.

    One that ``OTEL_PYTHON_METER_PROVIDER`` names, and that is not installed or cannot be made, is a warning.
    """
    from opentelemetry import metrics
    from opentelemetry.sdk.metrics import MeterProvider

    from lz_otel._export._sdk_settings import asked

    try:
        provider = asked("meter_provider", metrics.get_meter_provider)
    except ConfigurationError as error:
        skip(error, "the numbers are exported as if it were not set")
        return None
    return provider if isinstance(provider, MeterProvider) else None


def audit_log(settings: Settings, listeners: list[Callable[[EndedCall], None]]) -> AuditLog | None:
    """Put the call log and the audit log that the settings ask for among the listeners of ended calls.

    Returns:
        The audit log, which is closed at an exit; ``None`` where there is none.

    Raises:
        ConfigurationError: its file cannot be written.
    """
    if settings.call_log:
        from lz_otel._export.call_log import CallLog

        listeners.append(CallLog().write)
    if not settings.audit_log:
        return None
    from lz_otel._export.audit import AuditLog

    log = AuditLog(settings.audit_log, settings.audit_max_bytes, settings.audit_backups)
    listeners.append(log.write)
    _ends.at_end(log.close)
    return log
