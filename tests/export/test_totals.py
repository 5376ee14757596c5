"""Sums go on where `instrument` is called again, for the same registry or provider."""

from __future__ import annotations

from typing import TYPE_CHECKING

import httpx
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader
from prometheus_client import CollectorRegistry, generate_latest

import lz_otel
from lz_otel import catalogue
from lz_otel._export._totals import Totals, keep, totals_of
from lz_otel._measure.store import HistogramValue, Series, Store
from tests.export.receiver import Receiver

if TYPE_CHECKING:
    import pytest

BODY = {"model": "m", "choices": [], "usage": {"prompt_tokens": 1, "completion_tokens": 1, "total_tokens": 2}}


def call(times: int) -> None:
    """Make calls over a transport of their own."""
    client = httpx.Client(transport=httpx.MockTransport(lambda _: httpx.Response(200, json=BODY)))
    lz_otel.instrument_client(client)
    for _ in range(times):
        client.post("https://api.openai.com/v1/chat/completions", json={"model": "m", "messages": []})


def lives(*calls: int, **settings: object) -> None:
    """Instrument, call, and undo it, so many times."""
    for times in calls:
        lz_otel.instrument(**settings)  # type: ignore[arg-type]  # what the test says
        call(times)
        lz_otel.uninstrument()


def attempts(page: str) -> float:
    return sum(float(line.split()[-1]) for line in page.splitlines() if line.startswith("lz_attempts_total{"))


def test_a_registry_sees_totals_go_on() -> None:
    """Two calls, taken off, and three more are five: never three after two."""
    registry = CollectorRegistry()
    lives(2, registry=registry, exporters="prometheus", prometheus_port=0)
    lz_otel.instrument(registry=registry, exporters="prometheus", prometheus_port=0)
    try:
        assert 2.0 == attempts(generate_latest(registry).decode())
        call(3)
        page = generate_latest(registry).decode()
    finally:
        lz_otel.uninstrument()
    assert 5.0 == attempts(page)
    assert "gen_ai_client_inference_duration_seconds_count" in page
    assert {"5.0"} == {
        line.split()[-1] for line in page.splitlines() if "inference_duration_seconds_count" in line
    }
    other = CollectorRegistry()
    lz_otel.instrument(registry=other, exporters="prometheus", prometheus_port=0)
    try:
        assert 0.0 == attempts(generate_latest(other).decode())
    finally:
        lz_otel.uninstrument()


def test_a_provider_sees_totals_go_on() -> None:
    """The same holds for the observable counters of an application's MeterProvider."""
    reader = InMemoryMetricReader()
    provider = MeterProvider([reader])
    lives(2, meter_provider=provider, exporters="none")
    lz_otel.instrument(meter_provider=provider, exporters="none")
    try:
        call(3)
        data = reader.get_metrics_data()
    finally:
        lz_otel.uninstrument()
        provider.shutdown()
    assert data is not None
    metrics = {m.name: m for r in data.resource_metrics for s in r.scope_metrics for m in s.metrics}
    assert 5.0 == sum(p.value for p in metrics["lz.attempts"].data.data_points)  # type: ignore[union-attr]
    duration = metrics["gen_ai.client.inference.duration"].data.data_points
    assert 5 == sum(p.count for p in duration)  # type: ignore[union-attr]


def test_a_receiver_sees_another_instance(monkeypatch: pytest.MonkeyPatch) -> None:
    """Over OTLP the second life has an id of its own, whatever the environment says."""
    receiver = Receiver()
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", receiver.endpoint)
    monkeypatch.setenv("OTEL_RESOURCE_ATTRIBUTES", "service.instance.id=pod-7")
    lives(2, 3, exporters="otlp")
    receiver.close()
    assert [2.0, 3.0] == sorted(receiver.last("lz.attempts").values())


def test_what_is_kept() -> None:
    """Counters and histograms are added up, point by point; what is now goes with its store."""
    one = Store(catalogue.selected("latest"))
    one.add([(catalogue.INTERNAL_LOST, ("push",), 2.0), (catalogue.INTERNAL_OVERHEAD, (), 0.5)])
    one.add([(catalogue.BUILD_INFO, ("1", "2", "3", "4"), 1.0)])
    snapshot = one.snapshot()
    assert snapshot is Totals().added_to(snapshot)
    kept = Totals(Totals(snapshot).added_to(snapshot))
    points = {series.metric: dict(series.points) for series in kept.added_to(snapshot)}
    assert {("push",): 6.0} == points[catalogue.INTERNAL_LOST]
    [value] = points[catalogue.INTERNAL_OVERHEAD].values()
    assert (HistogramValue, 3, 1.5) == (type(value), value.count, value.sum)
    assert {("1", "2", "3", "4"): 1.0} == points[catalogue.BUILD_INFO]
    assert {catalogue.INTERNAL_LOST, catalogue.INTERNAL_OVERHEAD} == {s.metric for s in kept.added_to([])}


def test_an_owner_without_weak_references() -> None:
    """It starts from zero each time, and nothing is held."""
    snapshot = [Series(catalogue.INTERNAL_LOST, [(("push",), 1.0)])]
    keep(owner := 7, snapshot)
    assert [] == totals_of(owner).added_to([])
