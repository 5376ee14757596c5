"""The application's own MeterProvider."""

from __future__ import annotations

import logging
import math
from bisect import bisect_left
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader
from opentelemetry.sdk.metrics.view import DropAggregation, View

from lz_otel import catalogue
from lz_otel._export import provider as provider_module
from lz_otel._export.prometheus import StoreCollector
from lz_otel._export.provider import ProviderExporter, values_within
from lz_otel._ground.guard import guard
from lz_otel._measure.store import Store
from tests.export.filling import from_sdk, from_text

COMMON = ("chat", "anthropic", "claude-sonnet-5", "", "")
CHUNKS = catalogue.TIME_PER_OUTPUT_CHUNK
ATTEMPTS = catalogue.ATTEMPTS
LABELS = (*COMMON, "full")


def set_up(
    *views: View, metrics: tuple[catalogue.Metric, ...] = (CHUNKS, ATTEMPTS)
) -> tuple[Store, InMemoryMetricReader, ProviderExporter]:
    reader = InMemoryMetricReader()
    store = Store(metrics)
    exporter = ProviderExporter(store, MeterProvider([reader], views=views))
    exporter.start()
    return store, reader, exporter


def prepared(samples: list[float]) -> tuple[list[int], float, int]:
    counts = [0] * (len(CHUNKS.buckets) + 1)
    for sample in samples:
        counts[bisect_left(CHUNKS.buckets, sample)] += 1
    return counts, math.fsum(samples), len(samples)


@settings(deadline=None)
@given(
    st.lists(st.one_of(st.sampled_from((0.0, *CHUNKS.buckets)), st.floats(0, 1000)), min_size=1, max_size=50)
)
def test_values_within_keep_buckets_and_sum(samples: list[float]) -> None:
    """Each value lies inside its bucket, and the values of all samples add up to the true sum."""
    counts, total, _ = prepared(samples)
    values = values_within(CHUNKS.buckets, counts, total)
    assert list(range(len(counts))) == [bisect_left(CHUNKS.buckets, v) for v in values]
    assert math.fsum(n * v for n, v in zip(counts, values, strict=True)) == pytest.approx(
        total, rel=1e-6, abs=1e-6
    )


@pytest.mark.parametrize("metric", [m for m in catalogue.ALL if m.buckets], ids=lambda m: m.name)
def test_values_within_any_metrics_buckets(metric: catalogue.Metric) -> None:
    """Every histogram of the catalogue has a value inside each of its buckets, bounds of 0 included."""
    size = len(metric.buckets) + 1
    for total in (0.0, 1.0, 1e9):
        values = values_within(metric.buckets, [1] * size, total)
        assert list(range(size)) == [bisect_left(metric.buckets, v) for v in values]


def test_prepared_samples_are_recorded_when_a_reader_collects(monkeypatch: pytest.MonkeyPatch) -> None:
    """Prepared samples wait for a collection, and are in it; what is over the limit is in the next ones."""
    monkeypatch.setattr(provider_module, "DRAIN_LIMIT", 3)
    store, reader, exporter = set_up()
    counts, total, n = prepared([0.004, 0.018, 0.018, 20.0])
    store.add([(CHUNKS, LABELS, (counts, total, n)), (ATTEMPTS, (*COMMON, "200"), 1)])
    count = "gen_ai_client_inference_time_per_output_chunk_seconds_count"
    seen = [
        sum(v for (name, _), v in from_sdk(reader.get_metrics_data()).items() if name == count)
        for _ in range(3)
    ]
    exporter.stop()
    assert [3, 4, 4] == seen
    assert from_text(StoreCollector(store).text()) == pytest.approx(
        from_sdk(reader.get_metrics_data())
        | {k: v for k, v in from_text(StoreCollector(store).text()).items() if k[0] == "lz_attempts_total"},
        rel=1e-6,
    )


def test_one_snapshot_per_collection(monkeypatch: pytest.MonkeyPatch) -> None:
    """All instruments of a collection see one copy of the store, and each collection a new one."""
    reader = InMemoryMetricReader()
    store = Store(catalogue.selected("latest"))
    taken: list[int] = []
    original = store.snapshot
    monkeypatch.setattr(store, "snapshot", lambda: taken.append(1) or original())
    exporter = ProviderExporter(store, MeterProvider([reader]))
    exporter.start()
    store.add([(ATTEMPTS, (*COMMON, "200"), 1)])
    for n in (1, 2, 3):
        reader.get_metrics_data()
        assert n == len(taken)


def test_two_readers_see_everything() -> None:
    """Readers that take turns, and views that drop an instrument, do not make each other miss anything."""
    readers = [InMemoryMetricReader(), InMemoryMetricReader()]
    first = next(m for m in catalogue.selected("latest") if m.kind == catalogue.COUNTER)
    drop = View(instrument_name=first.name, aggregation=DropAggregation())
    store = Store(catalogue.selected("latest"))
    exporter = ProviderExporter(store, MeterProvider(readers, views=[drop]))
    exporter.start()
    for n in range(1, 4):
        store.add([(ATTEMPTS, (*COMMON, "200"), 1)])
        for reader in readers:
            assert [n] == [
                v
                for (name, _), v in from_sdk(reader.get_metrics_data()).items()
                if name == "lz_attempts_total"
            ]


def test_stop_and_start_again(caplog: pytest.LogCaptureFixture) -> None:
    """After a stop nothing is observed or recorded; another start makes no second instrument."""
    reader = InMemoryMetricReader()
    owner = MeterProvider([reader])
    for n in (1, 2):
        store = Store([ATTEMPTS, CHUNKS])
        exporter = ProviderExporter(store, owner)
        exporter.start()
        exporter.start()
        store.add([(ATTEMPTS, (*COMMON, "200"), n), (CHUNKS, LABELS, 0.1)])
        assert n in from_sdk(reader.get_metrics_data()).values()
        exporter.stop()
        store.add([(CHUNKS, LABELS, 0.1)])
        names = {name for name, _ in from_sdk(reader.get_metrics_data())}
        assert "lz_attempts_total" not in names
        assert not store.listeners
    counts = [v for (name, _), v in from_sdk(reader.get_metrics_data()).items() if name.endswith("_count")]
    assert ([2], []) == (counts, caplog.records)


def test_the_cap_holds_for_histograms() -> None:
    """Label sets over the cap go to one set of ``other``, as in the store."""
    reader = InMemoryMetricReader()
    store = Store([CHUNKS, catalogue.INTERNAL_OVERFLOW], max_series=3)
    exporter = ProviderExporter(store, MeterProvider([reader]))
    exporter.start()
    for i in range(10):
        labels = ("chat", "anthropic", f"model-{i}", "", "", "full")
        store.add([(CHUNKS, labels, 0.1), (CHUNKS, labels, prepared([0.2, 0.3]))])
    scraped = {k: v for k, v in from_text(StoreCollector(store).text()).items() if not k[0].startswith("lz_")}
    collected = {k: v for k, v in from_sdk(reader.get_metrics_data()).items() if not k[0].startswith("lz_")}
    assert scraped == pytest.approx(collected, rel=1e-6)


def test_a_failing_provider_reaches_nobody(monkeypatch: pytest.MonkeyPatch) -> None:
    """A histogram that raises is counted as a fault of the export; the host's call goes on."""
    faults: list[str] = []
    monkeypatch.setattr(guard, "on_fault", faults.append)
    store, _, exporter = set_up()

    class Bad:
        def record(self, *_: Any) -> None:
            raise ZeroDivisionError

    exporter._histograms[id(CHUNKS)] = Bad()
    store.add([(CHUNKS, LABELS, 0.1)])
    assert ["export"] == faults


def test_a_fork_is_told_once(caplog: pytest.LogCaptureFixture) -> None:
    """In a forked child whose parent recorded histograms, one warning says what to do; else there is none."""
    store, _, exporter = set_up()
    exporter.after_fork_in_child()
    assert [] == caplog.records
    store.add([(CHUNKS, LABELS, 0.1)])
    for _ in range(2):
        exporter.after_fork_in_child()
    [record] = caplog.records
    assert logging.WARNING == record.levelno
    assert "after the fork" in record.getMessage()
