"""Which exporters the settings ask for."""

from __future__ import annotations

import pytest
from opentelemetry.sdk.metrics import MeterProvider
from prometheus_client import CollectorRegistry

from lz_otel import _config
from lz_otel._export import factory
from lz_otel._export.otlp import ConsoleExporter, OtlpExporter
from lz_otel._export.prometheus import PrometheusExporter
from lz_otel._export.provider import ProviderExporter
from lz_otel._measure.store import Store
from lz_otel.catalogue import selected
from lz_otel.errors import ConfigurationError

OTLP = {"OTEL_EXPORTER_OTLP_ENDPOINT": "http://127.0.0.1:4318"}


@pytest.mark.parametrize(
    ("names", "environ", "provider", "kinds"),
    [
        (None, {}, False, [PrometheusExporter]),
        (None, OTLP, False, [PrometheusExporter, OtlpExporter]),
        (None, OTLP, True, [ProviderExporter]),
        ("console,otlp", {}, False, [ConsoleExporter, OtlpExporter]),
        ("console", {}, True, [ConsoleExporter, ProviderExporter]),
        ("none", OTLP, False, []),
    ],
)
def test_what_is_asked_for(
    names: str | None,
    environ: dict[str, str],
    provider: bool,
    kinds: list[type],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Named exporters are made, and that of a provider that is handed over; nothing is started."""
    for name, text in environ.items():
        monkeypatch.setenv(name, text)
    monkeypatch.setattr(factory, "global_meter_provider", lambda: None)
    given = MeterProvider(shutdown_on_exit=False) if provider else None
    settings = _config.load(exporters=names)
    made = factory.exporters(Store(selected("latest")), settings, given, CollectorRegistry())
    assert kinds == [type(exporter) for exporter in made.values()]
    assert [None] * len(kinds) == [exporter.port for exporter in made.values()]


def test_a_protocol_is_told_without_an_endpoint(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Whoever sets one means to push, and would wait for numbers that nobody sends."""
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_PROTOCOL", "http/json")
    monkeypatch.setattr(factory, "global_meter_provider", lambda: None)
    made = factory.exporters(Store(selected("latest")), _config.load(), None, CollectorRegistry())
    assert ["prometheus"] == list(made)
    [line] = [record.getMessage() for record in caplog.records]
    assert "OTEL_EXPORTER_OTLP_PROTOCOL='http/json' cannot be used" in line


def test_a_protocol_that_cannot_be_used_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """OTLP's own variables are checked before an exporter is made."""
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_PROTOCOL", "carrier")
    with pytest.raises(ConfigurationError, match="OTEL_EXPORTER_OTLP_PROTOCOL='carrier'"):
        factory.make("otlp", Store(selected("latest")), _config.load(), None)
