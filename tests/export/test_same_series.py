"""Prometheus, OTLP and a host's MeterProvider show the same series."""

from __future__ import annotations

import json
import socket
import subprocess
import time
import urllib.parse
import urllib.request
from contextlib import contextmanager
from typing import TYPE_CHECKING

import pytest
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader
from prometheus_client import CollectorRegistry

from lz_otel import catalogue
from lz_otel._export.otlp import OtlpExporter
from lz_otel._export.prometheus import PrometheusExporter, StoreCollector
from lz_otel._export.provider import ProviderExporter
from lz_otel._measure.store import Store
from tests.export.filling import from_sdk, from_text, key, measurements
from tests.peers import need

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from tests.export.filling import Key

# What differs by nature, and why.
BY_NATURE_SCRAPED = {
    "job": "name of the scrape configuration; on OTLP that is service.name",
    "instance": "address that was scraped; on OTLP that is service.instance.id",
}
BY_NATURE_PUSHED = {
    "service_name": "resource attribute, which VictoriaMetrics promotes to every series",
    "service_instance_id": "the same",
    "telemetry_sdk_language": "the same, from the SDK",
    "telemetry_sdk_name": "the same, from the SDK",
    "telemetry_sdk_version": "the same, from the SDK",
    "scope_name": "who measured: only OTLP has scopes",
    "scope_version": "version of lz_otel: only OTLP has scopes",
}
OURS = {a.label for m in catalogue.ALL for a in m.attributes} | {"le"}
CONVENTIONS = ("latest", "both")


def free_port() -> int:
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return int(one.getsockname()[1])


@pytest.fixture
def victoria(tmp_path: Path) -> Iterator[str]:
    """Address of a real OTLP receiver with a database behind it."""
    program = need("victoria-metrics")
    port = free_port()
    arguments = [
        program,
        f"-storageDataPath={tmp_path / 'data'}",
        f"-httpListenAddr=127.0.0.1:{port}",
        "-opentelemetry.usePrometheusNaming",
        "-retentionPeriod=1d",
        "-memory.allowedBytes=64MiB",
        "-loggerLevel=ERROR",
    ]
    address = f"http://127.0.0.1:{port}"
    with running(arguments, tmp_path / "log"):
        wait_for(lambda: get(f"{address}/health") == b"OK", "VictoriaMetrics does not answer")
        yield address


@contextmanager
def running(arguments: list[str], log: Path) -> Iterator[None]:
    """A server, for as long as the block lasts; its log is shown when the block fails."""
    with log.open("wb") as file:
        process = subprocess.Popen(arguments, stdout=file, stderr=file)
    try:
        yield
    except BaseException:
        print(log.read_text(errors="replace"))
        raise
    finally:
        process.terminate()
        process.wait(20)


def get(url: str) -> bytes | None:
    try:
        with urllib.request.urlopen(url, timeout=5) as answer:
            return bytes(answer.read())
    except OSError:
        return None


def wait_for(ready: Callable[[], object], what: str) -> None:
    deadline = time.monotonic() + 60
    while not ready():
        assert time.monotonic() < deadline, what
        time.sleep(0.1)


def split(samples: Iterator[tuple[dict[str, str], float]]) -> tuple[dict[Key, float], set[str]]:
    """Series by our own labels, and the names of all other labels."""
    out: dict[Key, float] = {}
    others: set[str] = set()
    for labels, value in samples:
        name = labels.pop("__name__")
        others |= set(labels) - OURS
        one = key(name, {k: v for k, v in labels.items() if k in OURS})
        assert one not in out, f"twice: {one}"
        out[one] = value
    return out, others


def in_victoria(address: str) -> tuple[dict[Key, float], set[str]]:
    """All series in VictoriaMetrics with their last values."""
    get(f"{address}/internal/force_flush")
    query = urllib.parse.urlencode({"match[]": '{__name__!=""}'})
    lines = map(json.loads, (get(f"{address}/api/v1/export?{query}") or b"").splitlines())
    return split((line["metric"], line["values"][-1]) for line in lines)


def in_prometheus(address: str) -> tuple[dict[Key, float], set[str]]:
    """All series that Prometheus scraped from us, with their last values."""
    query = urllib.parse.urlencode({"query": '{__name__=~"lz_.+|gen_ai_.+"}'})
    body = json.loads(get(f"{address}/api/v1/query?{query}") or b'{"data": {"result": []}}')
    return split((one["metric"], float(one["value"][1])) for one in body["data"]["result"])


@pytest.mark.parametrize("conventions", CONVENTIONS)
def test_otlp_into_a_real_receiver(conventions: str, victoria: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """What is pushed by OTLP into VictoriaMetrics is what a scrape shows: names, labels, bounds, values."""
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_METRICS_ENDPOINT", f"{victoria}/opentelemetry/v1/metrics")
    monkeypatch.setenv("OTEL_SERVICE_NAME", "same-series")
    store = Store(catalogue.selected(conventions))
    store.add(measurements(7, store.metrics))
    scraped = from_text(StoreCollector(store).text())
    exporter = OtlpExporter(store, interval_s=3600)
    exporter.start()
    exporter.stop(20)
    wait_for(lambda: len(in_victoria(victoria)[0]) >= len(scraped), "the series do not arrive")
    pushed, others = in_victoria(victoria)
    assert set(scraped) == set(pushed)
    assert scraped == pytest.approx(pushed, rel=1e-12)
    assert {m.prometheus for m in store.metrics} == families(scraped)
    assert set(BY_NATURE_PUSHED) == others


@pytest.mark.parametrize("conventions", CONVENTIONS)
def test_a_real_prometheus_scrapes_our_port(conventions: str, tmp_path: Path) -> None:
    """Prometheus, with the content type it negotiates, stores what our text shows."""
    program = need("prometheus")
    store = Store(catalogue.selected(conventions))
    store.add(measurements(7, store.metrics))
    exporter = PrometheusExporter(store, "127.0.0.1", 0, CollectorRegistry(auto_describe=True))
    exporter.start()
    scraped = from_text(exporter.collector.text())
    config = tmp_path / "prometheus.yml"
    config.write_text(
        "scrape_configs:\n- job_name: lz\n  scrape_interval: 1s\n"
        f"  static_configs:\n  - targets: ['127.0.0.1:{exporter.port}']\n"
    )
    port = free_port()
    arguments = [
        program,
        f"--config.file={config}",
        f"--storage.tsdb.path={tmp_path / 'data'}",
        f"--web.listen-address=127.0.0.1:{port}",
        "--log.level=error",
    ]
    address = f"http://127.0.0.1:{port}"
    try:
        with running(arguments, tmp_path / "log"):
            wait_for(lambda: len(in_prometheus(address)[0]) >= len(scraped), "nothing is scraped")
            kept, others = in_prometheus(address)
    finally:
        exporter.stop()
    assert set(scraped) == set(kept)
    assert scraped == pytest.approx(kept, rel=1e-12)
    assert set(BY_NATURE_SCRAPED) == others


@pytest.mark.parametrize("conventions", CONVENTIONS)
def test_a_hosts_meter_provider(conventions: str) -> None:
    """The readers of a host's MeterProvider get what a scrape shows; prepared sums up to rounding."""
    reader = InMemoryMetricReader()
    store = Store(catalogue.selected(conventions))
    exporter = ProviderExporter(store, MeterProvider([reader]))
    exporter.start()
    store.add(measurements(7, store.metrics))
    scraped = from_text(StoreCollector(store).text())
    collected = from_sdk(reader.get_metrics_data())
    exporter.stop()
    assert set(scraped) == set(collected)
    assert scraped == pytest.approx(collected, rel=1e-9)
    assert {m.prometheus for m in store.metrics} == families(scraped)


def families(samples: dict[Key, float]) -> set[str]:
    """Names of metrics, without the suffixes of histograms."""
    names = {name for name, _ in samples}
    out = set()
    for name in names:
        base = name
        for suffix in ("_bucket", "_count", "_sum"):
            if name.endswith(suffix) and name.removesuffix(suffix) + "_bucket" in names:
                base = name.removesuffix(suffix)
        out.add(base)
    return out
