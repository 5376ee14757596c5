"""The recording rules give the same on Prometheus by scrape and on VictoriaMetrics by OTLP,
from one process.
"""

from __future__ import annotations

import asyncio
import math
import threading
import time
from typing import TYPE_CHECKING, Any

import pytest
import yaml
from prometheus_client import CollectorRegistry

import lz_otel
from lz_otel import catalogue
from lz_otel._export.otlp import OtlpExporter
from lz_otel._export.prometheus import PrometheusExporter
from lz_otel._measure.store import Store
from lz_otel._runtime import current
from lz_otel.bundle import alerts, recording
from lz_otel.bundle.config import parse
from lz_otel.lab.history import _replay
from lz_otel.lab.simulator import load, running
from tests.bundle.prom import ROOT, prometheus, victoria_metrics

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

pytestmark = pytest.mark.timeout(400)

JOB = "shop"
SECONDS = 40  # of traffic
# Samples are taken at other moments, and only one of the two extrapolates to the ends of a window.
NEAR = 0.1
# What the healthy service has nothing of: fallbacks to another model, sessions whose calls have an intent.
EMPTY = {"job_route_from_to_reason:lz_operation_fallbacks:rate5m", "intent_switch_rate"}
CONFIG = parse(
    {
        "time": {
            "scale": 0.02,
            "shortest": "10s",
            "windows": {"5m": "16s", "10m": "16s", "15m": "16s", "30m": "16s", "1h": "16s", "1m": "1s"},
        },
    }
)


def traffic() -> list[tuple[catalogue.Metric, tuple[str, ...], Any]]:
    """What a few hundred calls of the healthy scenario, made through the SDKs, leave in the store."""
    from lz_otel.lab.demo.driver import Driver
    from lz_otel.lab.simulator.traffic import plan

    scenario = load("healthy")
    with running(scenario, latency_scale=0.02) as simulator:
        lz_otel.instrument(exporters=("none",))
        try:
            runtime = current()
            assert runtime is not None

            async def drive() -> None:
                driver = Driver(simulator.url, 0.0, in_flight=16)
                await driver.run(plan(scenario, calls=400))
                await driver.close()

            asyncio.run(drive())
            rows = []
            for series in runtime.store.snapshot():
                for labels, value in series.points:
                    histogram = series.metric.kind == catalogue.HISTOGRAM
                    rows.append(
                        (
                            series.metric,
                            labels,
                            (value.counts, value.sum, value.count) if histogram else value,
                        )
                    )
            return rows
        finally:
            lz_otel.uninstrument()


class Steady(threading.Thread):
    """Adds the same traffic ten times a second, as the clock says and not as the thread gets to run.

    What grows evenly has one rate, whichever moments it is read at.
    """

    def __init__(self, store: Store, rows: list[Any]) -> None:
        super().__init__(daemon=True)
        self._store, self._rows = store, rows
        self.ended = threading.Event()

    def run(self) -> None:
        start, done = time.monotonic(), 0
        while not self.ended.wait(0.05):
            due = int((time.monotonic() - start) * 10)
            while done < due:
                self._store.add(self._rows)
                done += 1


def numbers(series: list[dict[str, Any]]) -> dict[tuple[tuple[str, str], ...], float]:
    """Values by labels; the instance is an address for one and an id for the other."""
    out = {}
    for one in series:
        value = float(one["value"][1])
        labels = {k: v for k, v in one["metric"].items() if k not in ("__name__", "instance") and v}
        if "le" in labels:
            labels["le"] = repr(float(labels["le"]))
        if not math.isnan(value):
            out[tuple(sorted(labels.items()))] = value
    return out


@pytest.fixture
def both(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[tuple[Any, Any, int, int]]:
    """A Prometheus that has scraped and a VictoriaMetrics that was pushed to, and between which seconds."""
    store = Store(catalogue.selected("latest"))
    scraped = PrometheusExporter(store, "127.0.0.1", 0, CollectorRegistry(auto_describe=True))
    scraped.start()
    config = yaml.safe_dump(
        {
            "storage": {"tsdb": {"out_of_order_time_window": "1h"}},
            "scrape_configs": [
                {
                    "job_name": JOB,
                    "scrape_interval": "1s",
                    "static_configs": [{"targets": [f"127.0.0.1:{scraped.port}"]}],
                }
            ],
        }
    )
    relabel = f"-relabelConfig={ROOT}/stack/victoria-metrics-relabel.yml"
    rows = traffic()
    with (
        prometheus(tmp_path, config) as first,
        victoria_metrics(tmp_path, relabel, "-opentelemetry.usePrometheusNaming") as second,
    ):
        monkeypatch.setenv("OTEL_EXPORTER_OTLP_METRICS_ENDPOINT", f"{second.url}/opentelemetry/v1/metrics")
        monkeypatch.setenv("OTEL_SERVICE_NAME", JOB)
        for name in ("OTEL_RESOURCE_ATTRIBUTES", "OTEL_EXPORTER_OTLP_METRICS_PROTOCOL"):
            monkeypatch.delenv(name, raising=False)
        pushed = OtlpExporter(store, interval_s=1.0)
        pushed.start()
        steady = Steady(store, rows)
        steady.start()
        start = int(time.time())
        time.sleep(SECONDS)
        end = int(time.time()) - 2  # what is in flight is not yet everywhere
        steady.ended.set()
        steady.join(10)
        pushed.stop(20)
        second.flush()
        yield first, second, start, end
    scraped.stop()


def test_rules_and_alerts_give_the_same(both: tuple[Any, Any, int, int]) -> None:
    """Every recording rule has the same series on both, with values that agree;
    every alert is true for the same.
    """
    first, second, start, end = both
    rules = recording.rules(CONFIG)
    different, far, empty, compared = [], [], set(), 0
    for rule in rules:
        one, other = (numbers(server.instant(rule.expr.text, end)) for server in (first, second))
        if one.keys() != other.keys():
            different.append((rule.series.name, sorted(one.keys() ^ other.keys())[:3]))
        if not one:
            empty.add(rule.series.name)
        for key in one.keys() & other.keys():
            compared += 1
            if abs(one[key] - other[key]) > NEAR * max(abs(one[key]), abs(other[key])) + 1e-9:
                far.append((rule.series.name, key, one[key], other[key]))
        for server in (first, second):  # later rules and the alerts read it
            _replay.record(server.url, rule.series.name, rule.expr.text, dict(rule.labels), start, end, 1)
            server.flush()
    conditions = [(a.name, c.expr.text) for a in alerts.alerts(CONFIG) for c in a.conditions]
    true = {}
    for name, expr in conditions:
        one, other = (numbers(server.instant(expr, end)).keys() for server in (first, second))
        if one != other:
            different.append((name, sorted(one ^ other)[:3]))
        true[name] = len(one)
    print(
        f"\n{len(rules)} rules with {compared} series and {len(conditions)} conditions of alerts compared; "
        f"true: {sorted(n for n, number in true.items() if number)}; without series: {sorted(empty)}"
    )
    assert different == []
    assert far == []
    assert compared > 300
    assert empty <= EMPTY
