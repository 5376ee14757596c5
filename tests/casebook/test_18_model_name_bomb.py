"""Case 18: however many names an agent or a proxy invents, the series stay few and the good names stay."""

from __future__ import annotations

import gc
import json
import random
import tracemalloc
from typing import Any

import httpx2
import pytest
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader
from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.parser import text_string_to_metric_families

import lz_otel
from lz_otel import catalogue
from tests.casebook.bodies import ASK, MESSAGES_URL
from tests.casebook.helpers import CALLS, observed
from tests.wire_doubles import A_JSON, transport

KNOWN = ("claude-opus-5", "our-own-tune-7")
HOSTILE = (
    "m" * 10_000,
    'quote " and \\ backslash',
    "new\nline",
    "nul\x00",
    "\ud800 lone",
    "\u202e backwards",
    "",
)


def answer(request: Any) -> Any:
    """404 for unknown models, an answer that echoes the name for known ones, or what the request asks for."""
    asked = json.loads(request.content)
    model = asked["model"]
    if model not in KNOWN:
        return httpx2.Response(
            404, json={"type": "error", "error": {"type": "not_found_error", "message": model}}
        )
    body = {**A_JSON, "model": asked.get("echo", model)}
    return httpx2.Response(
        200, content=json.dumps(body).encode(), headers={"content-type": "application/json"}
    )


class Bomber:
    """A client whose every call names another model, user or host."""

    def __init__(self) -> None:
        self.http = httpx2.Client(transport=transport(httpx2, answer))
        self.random = random.Random(18)
        lz_otel.instrument_client(self.http)

    def name(self) -> str:
        return f"model-{self.random.getrandbits(64):x}"

    def call(self, model: str, n: int = 1, *, url: str = MESSAGES_URL, **more: Any) -> None:
        for _ in range(n):
            body = json.dumps({**ASK, "model": model, **more}).encode()
            self.http.post(url, content=body, headers={"content-type": "application/json"})


def series(found: Any) -> dict[str, int]:
    """Number of series of each metric."""
    return {s.metric.name: len(s.points) for s in found.seen.store.snapshot()}


def kept() -> int:
    """Bytes that Python holds now, after a collection."""
    gc.collect()
    return tracemalloc.get_traced_memory()[0]


def test_18_series_and_memory_are_bounded() -> None:
    """5000 invented names: no more series and no more memory after them than after the first thousand."""
    registry, reader = CollectorRegistry(), InMemoryMetricReader()
    provider = MeterProvider([reader])
    with observed(
        exporters="prometheus", prometheus_port=0, registry=registry, meter_provider=provider
    ) as found:
        bomber = Bomber()
        for model in KNOWN:
            bomber.call(model, 20)
        tracemalloc.start()
        try:
            for i in range(5000):
                bomber.call(bomber.name())
                if i == 999:
                    early, held = series(found), kept()
            late, grown = series(found), kept() - held
        finally:
            tracemalloc.stop()
        assert early == late
        assert grown < 1_000_000
        for model in KNOWN:
            bomber.call(model, 20)
        for i in range(1000):
            bomber.call("claude-opus-5", echo=HOSTILE[i % len(HOSTILE)] if i % 2 else bomber.name())
        cap = next(a.cap for a in catalogue.by_name(CALLS).attributes if a.name == "gen_ai.request.model")
        models = {k[2] for k in found.seen.points(CALLS)}
        assert len(models) <= cap + 1
        assert 1040 == found.calls(gen_ai_request_model="claude-opus-5").count
        assert 40 == found.calls(gen_ai_request_model="our-own-tune-7").count
        assert 2 * 40 + 5000 + 1000 == found.calls().count
        assert 5000 - cap <= found.calls(gen_ai_request_model="other").count
        assert 0 == found.seen.value("lz.internal.overflow")
        check_text(generate_latest(registry).decode())
        check_points(reader)
    provider.shutdown()


def check_text(text: str) -> None:
    """The exposition parses, and no value is longer than 128 characters."""
    values = {v for f in text_string_to_metric_families(text) for s in f.samples for v in s.labels.values()}
    assert "claude-opus-5" in values
    assert max(map(len, values)) <= 128


def check_points(reader: InMemoryMetricReader) -> None:
    """The SDK has not folded anything into its point of overflow."""
    data = reader.get_metrics_data()
    assert data is not None
    points = [
        p
        for r in data.resource_metrics
        for s in r.scope_metrics
        for m in s.metrics
        for p in m.data.data_points
    ]
    assert points
    assert not any("otel.metric.overflow" in (p.attributes or {}) for p in points)


@pytest.mark.parametrize("where", ["host", "user", "request id", "priced spelling", "route", "error type"])
def test_18_no_other_field_of_the_wire_makes_series(where: str) -> None:
    """Other hosts, users, ids, dates after a model's name, routes and error types: bounded all the same."""
    bounds = []
    with observed() as found:
        bomber = Bomber()
        for i in range(1200):
            name = bomber.name()
            if where == "host":
                bomber.call("claude-opus-5", url=f"https://{name}.test/anthropic/v1/messages")
            elif where == "user":
                bomber.call("claude-opus-5", metadata={"user_id": name})
            elif where == "request id":
                bomber.http.post(MESSAGES_URL, json=ASK, headers={"x-request-id": name})
            elif where == "priced spelling":
                bomber.call(f"claude-opus-5-2026{i:04d}")
            elif where == "route":
                with lz_otel.operation(name, group=name, session=name):
                    bomber.call("claude-opus-5")
            else:
                http = httpx2.Client(
                    transport=transport(
                        httpx2,
                        lambda r, n=name: httpx2.Response(
                            400, json={"type": "error", "error": {"type": n, "message": n}}
                        ),
                    )
                )
                lz_otel.instrument_client(http)
                http.post(MESSAGES_URL, json=ASK)
            if i in (599, 1199):
                bounds.append(series(found))
        assert bounds[0] == bounds[1]
        assert 1200 == found.calls().count
        assert max(bounds[1].values()) <= 2000
