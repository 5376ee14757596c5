"""The same calls, scraped and pushed: real SDK traffic, a scrape of our port, OTLP into a real receiver."""

from __future__ import annotations

import time
import urllib.request
from typing import TYPE_CHECKING, Any

import anthropic
import pytest
from prometheus_client import CollectorRegistry
from prometheus_client.parser import text_string_to_metric_families

import lz_otel
from lz_otel.lab.simulator import running
from tests.bundle.prom import victoria_metrics

if TYPE_CHECKING:
    from pathlib import Path

# What differs by nature: where a series comes from, and what was read at another moment.
BY_NATURE = {"job", "instance", "service_name", "service_instance_id", "scope_name", "scope_version",
             "telemetry_sdk_language", "telemetry_sdk_name", "telemetry_sdk_version"}  # fmt: skip


def traffic(url: str) -> None:
    """Plain, streamed, retried and failed calls, inside and outside of operations."""
    client = anthropic.Anthropic(api_key="k", base_url=url)
    ask: dict[str, Any] = {"model": "claude-haiku-5-5", "max_tokens": 64}
    for number in range(20):
        force = "fault=429,529; retry-after-ms=1" if number % 7 == 3 else ""
        if number == 11:
            force = "fault=400"
        messages = [{"role": "user", "content": f"question {number}"}]
        with lz_otel.operation("a-route", group="B" if number % 2 else None):
            try:
                answer: Any = client.messages.create(
                    **ask, messages=messages, stream=number % 3 == 0,
                    extra_headers={"x-sim-call": str(number), "x-sim-force": force},
                )  # fmt: skip
                if number % 3 == 0:
                    list(answer)
            except anthropic.APIStatusError:
                pass


def key(name: str, labels: dict[str, str]) -> tuple[Any, ...]:
    """A series without what differs by nature; bounds as numbers, since their spelling is the receiver's."""
    kept = {k: v for k, v in labels.items() if k not in BY_NATURE and v != ""}
    if "le" in kept:
        kept["le"] = str(float(kept["le"].replace("+Inf", "inf")))
    return name, *sorted(kept.items())


def scraped(port: int) -> dict[tuple[Any, ...], float]:
    """All series of our own /metrics."""
    with urllib.request.urlopen(f"http://localhost:{port}/metrics", timeout=5) as answer:
        text = answer.read().decode()
    return {key(s.name, s.labels): s.value for f in text_string_to_metric_families(text) for s in f.samples}


def test_scrape_and_push_are_the_same(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every series and value is the same on both ways; only the labels listed above differ."""
    with (
        victoria_metrics(tmp_path, "-opentelemetry.usePrometheusNaming") as server,
        running("healthy", latency_scale=0.0) as simulator,
    ):
        monkeypatch.setenv("OTEL_EXPORTER_OTLP_METRICS_ENDPOINT", f"{server.url}/opentelemetry/v1/metrics")
        monkeypatch.setenv("OTEL_SERVICE_NAME", "shop")
        status = lz_otel.instrument(
            prometheus_port=0, registry=CollectorRegistry(), export_interval="500", overhead_sample=0.0
        )
        assert status.exporters == ("prometheus", "otlp")
        traffic(simulator.url)
        assert status.prometheus_port
        by_scrape = scraped(status.prometheus_port)
        lz_otel.uninstrument()
        deadline = time.monotonic() + 30
        by_push: dict[tuple[Any, ...], float] = {}
        while time.monotonic() < deadline:
            server.flush()
            rows = server.instant('last_over_time({__name__=~"lz_.+|gen_ai_.+"}[1h])', time.time())
            by_push = {
                key(r["metric"]["__name__"], {k: v for k, v in r["metric"].items() if k != "__name__"}):
                float(r["value"][1]) for r in rows
            }  # fmt: skip
            if len(by_push) >= len(by_scrape):
                break
            time.sleep(0.5)
    print(f"{len(by_scrape)} series by scrape, {len(by_push)} by push")
    assert len(by_scrape) > 500
    assert set(by_push) == set(by_scrape)
    different = {
        k: (by_scrape[k], by_push[k]) for k in by_scrape if by_scrape[k] != pytest.approx(by_push[k])
    }
    # the reset is in seconds from now: both ways read the same header, and report the same number
    assert different == {}
