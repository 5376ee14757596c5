"""The collector over the store, and what an exporter's port shows."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

from hypothesis import given, settings
from hypothesis import strategies as st
from prometheus_client import Counter, generate_latest, make_wsgi_app
from prometheus_client.openmetrics.exposition import generate_latest as generate_openmetrics

from lz_otel import catalogue
from lz_otel._export.prometheus import PrometheusExporter, StoreCollector
from lz_otel._measure.store import Store
from tests.export.filling import filled, from_text
from tests.export.scraping import fetch, registry

if TYPE_CHECKING:
    import pytest


COST = catalogue.COST_USD
COMMON = ("chat", "anthropic", "claude-sonnet-5", "", "")
OPENMETRICS = "application/openmetrics-text; version=1.0.0"


@settings(max_examples=60, deadline=None)
@given(
    model=st.text(max_size=20),
    samples=st.lists(st.floats(0, 1e12, allow_nan=False), min_size=1, max_size=5),
    money=st.floats(allow_nan=True, allow_infinity=True),
    count=st.integers(1, 10**9),
)
def test_direct_text_is_the_clients_text(model: str, samples: list[float], money: float, count: int) -> None:
    """Rendered directly or through prometheus_client, text and OpenMetrics are the same to the byte."""
    store = Store(catalogue.selected("latest"))
    labels = ("chat", "anthropic", model, "", "")
    store.add([(catalogue.TIME_TO_FIRST_CHUNK, (*labels, "full"), s) for s in samples])
    store.add(
        [
            (COST, (*labels, ""), money),
            (catalogue.CALL_ACTIVE, labels, -count),
            (catalogue.INTERNAL_OVERHEAD, (), samples[0]),
        ]
    )
    store.add([(catalogue.TIME_PER_OUTPUT_CHUNK, (*labels, "fast"), ([count] * 21, money, 21 * count))])
    collector = StoreCollector(store)
    own = registry()
    own.register(collector)
    assert generate_latest(own) == collector.text().encode()
    assert generate_openmetrics(own) == f"{collector.text(openmetrics=True)}# EOF\n".encode()


def test_no_label_value_breaks_a_scrape() -> None:
    """NUL, line breaks and lone surrogates become a question mark; the rest of the value stays."""
    store = Store([COST])
    store.add([(COST, ("chat", "x", 'a\x00b\nc\ud800"\\', "", "", ""), 1)])
    [(_, labels)] = from_text(StoreCollector(store).text())
    assert ("gen_ai_request_model", 'a?b?c?"\\') in labels


def test_types_and_help_come_from_the_catalogue() -> None:
    """Each family has the catalogue's name, type and meaning, and there are no ``_created`` series."""
    collector = StoreCollector(filled())
    types = {"counter": "counter", "histogram": "histogram", "gauge": "gauge", "updowncounter": "gauge"}
    wanted = {m.prometheus: (types[m.kind], m.doc) for m in catalogue.selected("both")}
    got = {}
    for family in collector.collect():
        got[family.name + ("_total" if family.type == "counter" else "")] = (
            family.type,
            family.documentation,
        )
    assert wanted == got
    assert "_created" not in collector.text()


def test_an_existing_metrics_page_shows_our_series() -> None:
    """A service that already serves the registry serves our series with it."""
    own = registry()
    Counter("shop_orders", "of the host", registry=own).inc(3)
    store = filled()
    exporter = PrometheusExporter(store, "127.0.0.1", 0, own)
    exporter.start()
    started: list[object] = []
    environ = {"REQUEST_METHOD": "GET", "PATH_INFO": "/metrics"}
    body = b"".join(make_wsgi_app(own)(environ, lambda *args: started.append(args)))
    exporter.stop()
    samples = from_text(body.decode())
    assert 3 == samples["shop_orders_total", frozenset()]
    assert set(from_text(StoreCollector(store).text())) < set(samples)
    assert b"lz_" not in generate_latest(own)


def test_before_the_start_there_is_no_thread() -> None:
    """An exporter that does not listen yet has no port and no thread."""
    before = threading.active_count()
    exporter = PrometheusExporter(filled(), "127.0.0.1", 0, registry())
    assert (before, None) == (threading.active_count(), exporter.port)
    exporter.stop()


def test_the_port_serves_text(exporter: PrometheusExporter) -> None:
    """Without a wish for another format, the port serves the text format at ``/metrics`` and ``/``."""
    body, content_type = fetch(exporter)
    assert exporter.collector.text().encode() == body
    assert content_type.startswith("text/plain; version=0.0.4")
    assert body == fetch(exporter, "/")[0]


def test_the_port_serves_openmetrics(exporter: PrometheusExporter) -> None:
    """Who accepts OpenMetrics gets it, with one end mark, host's metrics included."""
    Counter("shop_orders", "of the host", registry=exporter._registry).inc(3)
    body, content_type = fetch(exporter, Accept=OPENMETRICS)
    assert content_type.startswith("application/openmetrics-text")
    assert 1 == body.count(b"# EOF\n")
    assert body.endswith(b"# EOF\n")
    assert b"shop_orders_total 3.0\n" in body
    assert 1 == body.count(b"# TYPE lz_cost_usd counter\n")
    assert exporter.collector.text(openmetrics=True).encode() in body


def test_the_port_restricts_by_name(exporter: PrometheusExporter) -> None:
    """``name[]`` restricts an answer as prometheus_client does."""
    body, _ = fetch(exporter, "/metrics?name[]=lz_cost_usd_total")
    assert {"lz_cost_usd_total"} == {name for name, _ in from_text(body.decode())}


def test_a_clash_of_names_is_one_warning(caplog: pytest.LogCaptureFixture) -> None:
    """A registry that already has one of our names is left alone; our port shows our series."""
    own = registry()
    Counter("lz_cost_usd", "of somebody else", registry=own).inc()
    exporter = PrometheusExporter(filled(), "127.0.0.1", 0, own)
    exporter.start()
    body = fetch(exporter)[0]
    exporter.stop()
    assert exporter.collector.text().encode() == body
    [record] = caplog.records
    assert "lz_cost_usd" in record.getMessage()
    assert {"lz_cost_usd_total", "lz_cost_usd_created"} == {
        n for n, _ in from_text(generate_latest(own).decode())
    }


class Broken:
    """A collector of the host that fails."""

    def describe(self) -> list[object]:
        return []

    def collect(self) -> list[object]:
        raise ZeroDivisionError("secret")


def test_somebody_elses_broken_collector(
    exporter: PrometheusExporter, caplog: pytest.LogCaptureFixture
) -> None:
    """A failing collector of the host leaves our series on our port; one warning, without its text."""
    exporter._registry.register(Broken())  # type: ignore[arg-type]  # what a host may do
    assert [exporter.collector.text().encode()] * 2 == [fetch(exporter)[0] for _ in range(2)]
    [record] = caplog.records
    assert "ZeroDivisionError" in record.getMessage()
    assert "secret" not in record.getMessage()


def test_scrapes_while_recording() -> None:
    """Scrapes and measurements at the same time: every scrape is consistent, and the last one complete."""
    store = Store([catalogue.INTERNAL_OVERHEAD])
    collector = StoreCollector(store)
    done = threading.Event()

    def record() -> None:
        for _ in range(2000):
            store.add([(catalogue.INTERNAL_OVERHEAD, (), 0.00002)])
        done.set()

    thread = threading.Thread(target=record)
    thread.start()
    while not done.is_set():
        samples = from_text(collector.text())
        total = samples.get(("lz_internal_overhead_seconds_count", frozenset()), 0)
        assert total == samples.get(("lz_internal_overhead_seconds_bucket", frozenset({("le", "inf")})), 0)
    thread.join()
    assert 2000 == from_text(collector.text())["lz_internal_overhead_seconds_count", frozenset()]
