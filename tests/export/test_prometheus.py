"""The collector over the store, and the port of our own."""

from __future__ import annotations

import errno
import gzip
import logging
import socket
import threading
import urllib.error
import urllib.request
from socketserver import TCPServer
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from prometheus_client import CollectorRegistry, Counter, generate_latest, make_wsgi_app
from prometheus_client.openmetrics.exposition import generate_latest as generate_openmetrics

from lz_otel import catalogue
from lz_otel._export import _server
from lz_otel._export._server import MAX_REQUESTS, PAUSE
from lz_otel._export.prometheus import PrometheusExporter, StoreCollector
from lz_otel._measure.store import Store
from tests.export.filling import filled, from_text

if TYPE_CHECKING:
    from collections.abc import Iterator

COST = catalogue.COST_USD
COMMON = ("chat", "anthropic", "claude-sonnet-5", "", "")
OPENMETRICS = "application/openmetrics-text; version=1.0.0"


def registry() -> CollectorRegistry:
    return CollectorRegistry(auto_describe=True)


@pytest.fixture
def exporter() -> Iterator[PrometheusExporter]:
    one = PrometheusExporter(filled(), "127.0.0.1", 0, registry())
    one.start()
    yield one
    one.stop()


def fetch(
    exporter: PrometheusExporter, path: str = "/metrics", method: str = "GET", **headers: str
) -> tuple[bytes, str]:
    names = {k.replace("_", "-"): v for k, v in headers.items()}
    request = urllib.request.Request(f"http://127.0.0.1:{exporter.port}{path}", headers=names, method=method)
    with urllib.request.urlopen(request, timeout=20) as answer:
        return answer.read(), answer.headers["Content-Type"]


def taken() -> tuple[socket.socket, int]:
    one = socket.socket()
    one.bind(("127.0.0.1", 0))
    one.listen()
    return one, one.getsockname()[1]


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
    exporter = PrometheusExporter(store, registry=own, serve=False)
    exporter.start()
    started: list[object] = []
    environ = {"REQUEST_METHOD": "GET", "PATH_INFO": "/metrics"}
    body = b"".join(make_wsgi_app(own)(environ, lambda *args: started.append(args)))
    exporter.stop()
    samples = from_text(body.decode())
    assert 3 == samples["shop_orders_total", frozenset()]
    assert set(from_text(StoreCollector(store).text())) < set(samples)
    assert b"lz_" not in generate_latest(own)


def test_without_a_port_there_is_no_thread() -> None:
    """An exporter that does not listen starts no thread."""
    before = threading.active_count()
    exporter = PrometheusExporter(filled(), registry=registry(), serve=False)
    exporter.start()
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


def test_the_port_compresses(exporter: PrometheusExporter) -> None:
    """Who accepts gzip gets it."""
    assert fetch(exporter)[0] == gzip.decompress(fetch(exporter, Accept_Encoding="gzip")[0])


def test_the_port_restricts_by_name(exporter: PrometheusExporter) -> None:
    """``name[]`` restricts an answer as prometheus_client does."""
    body, _ = fetch(exporter, "/metrics?name[]=lz_cost_usd_total")
    assert {"lz_cost_usd_total"} == {name for name, _ in from_text(body.decode())}


def test_other_paths_are_not_there(exporter: PrometheusExporter) -> None:
    """Anything but ``/metrics`` is 404, and a HEAD has no body."""
    with pytest.raises(urllib.error.HTTPError) as error:
        fetch(exporter, "/admin")
    assert 404 == error.value.code
    assert b"" == fetch(exporter, method="HEAD")[0]


def test_a_client_that_leaves_changes_nothing(exporter: PrometheusExporter) -> None:
    """A connection that says nothing, or nonsense, does not keep others from being served."""
    assert exporter.port is not None
    silent = socket.create_connection(("127.0.0.1", exporter.port))
    rude = socket.create_connection(("127.0.0.1", exporter.port))
    rude.sendall(b"\x00\x01\r\n\r\n")
    rude.close()
    assert exporter.collector.text().encode() == fetch(exporter)[0]
    silent.close()


class Stopped(threading.Event):
    """Notes how long somebody would have waited for it."""

    def __init__(self) -> None:
        super().__init__()
        self.waits: list[float | None] = []

    def wait(self, timeout: float | None = None) -> bool:
        self.waits.append(timeout)
        return self.is_set()


@pytest.mark.parametrize(
    ("code", "waits"),
    [
        (errno.EMFILE, [PAUSE]),
        (errno.ENFILE, [PAUSE]),
        (errno.ENOMEM, [PAUSE]),
        (errno.ENOBUFS, [PAUSE]),
        (errno.ECONNABORTED, []),
    ],
)
def test_without_descriptors_no_spinning(
    monkeypatch: pytest.MonkeyPatch, code: int, waits: list[float]
) -> None:
    """While a pending connection cannot be accepted for want of descriptors, each try is followed by a pause a stop ends."""
    stopped = Stopped()
    server = _server._Server(("127.0.0.1", 0), lambda accept, names: (b"found", "text/plain"), stopped)
    accept = TCPServer.get_request

    def fail(self: Any) -> Any:
        raise OSError(code, "no")

    with server, socket.create_connection(server.server_address[:2], timeout=20) as pending:
        pending.sendall(b"GET /metrics HTTP/1.0\r\n\r\n")
        monkeypatch.setattr(TCPServer, "get_request", fail)
        server.handle_request()
        server.handle_request()
        assert waits * 2 == stopped.waits
        monkeypatch.setattr(TCPServer, "get_request", accept)
        server.handle_request()
        with pending.makefile("rb") as found:
            assert found.read().endswith(b"found")


def test_idle_connections_hold_few_threads(
    exporter: PrometheusExporter, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Connections that say nothing take at most so many threads; those beyond are closed, and a scrape works after them."""
    monkeypatch.setattr(_server._Handler, "timeout", None)  # else the time limit would close them
    assert exporter.port is not None
    before = threading.active_count()
    idle = [socket.create_connection(("127.0.0.1", exporter.port), timeout=20) for _ in range(MAX_REQUESTS)]
    refused = [socket.create_connection(("127.0.0.1", exporter.port), timeout=20) for _ in range(5)]
    assert [b""] * 5 == [one.recv(1) for one in refused]
    assert MAX_REQUESTS >= threading.active_count() - before
    for one in (*idle, *refused):
        one.close()
    for thread in [t for t in threading.enumerate() if "process_request_thread" in t.name]:
        thread.join()
    assert b"lz_cost_usd_total" in fetch(exporter)[0]


def test_a_connection_that_says_nothing_is_closed(
    exporter: PrometheusExporter, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An idle connection gives its thread back after the time limit."""
    assert 10 == _server._Handler.timeout
    monkeypatch.setattr(_server._Handler, "timeout", 0.01)
    assert exporter.port is not None
    with socket.create_connection(("127.0.0.1", exporter.port), timeout=20) as idle:
        assert b"" == idle.recv(1)


def test_clients_that_drip_lose_their_seats(
    exporter: PrometheusExporter, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A client that sends byte by byte never is idle: after the time limit the next one that finds no seat ends it."""
    monkeypatch.setattr(_server._Handler, "timeout", None)  # as if a byte came just in time, always
    monkeypatch.setattr(_server, "REQUEST_TIMEOUT", 0.0)
    assert exporter.port is not None
    slow = [socket.create_connection(("127.0.0.1", exporter.port), timeout=20) for _ in range(MAX_REQUESTS)]
    for one in slow:
        one.send(b"GET /metrics HTTP/1.0\r\nA: ")
    with socket.create_connection(("127.0.0.1", exporter.port), timeout=20) as refused:
        assert b"" == refused.recv(1)
    assert [b""] * MAX_REQUESTS == [one.recv(1) for one in slow]
    for one in slow:
        one.close()
    for thread in [t for t in threading.enumerate() if "process_request_thread" in t.name]:
        thread.join()
    assert b"lz_cost_usd_total" in fetch(exporter)[0]


def test_a_thread_that_cannot_start_gives_its_seat_back(
    exporter: PrometheusExporter, monkeypatch: pytest.MonkeyPatch
) -> None:
    """When the process may have no more threads, connections are closed; afterwards scrapes work as before."""
    assert exporter.port is not None

    def refuse(self: Any) -> None:
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(threading.Thread, "start", refuse)
    for _ in range(MAX_REQUESTS + 1):
        with socket.create_connection(("127.0.0.1", exporter.port), timeout=20) as one:
            assert b"" == one.recv(1)
    monkeypatch.undo()
    assert b"lz_cost_usd_total" in fetch(exporter)[0]


def test_a_taken_port_is_one_warning(caplog: pytest.LogCaptureFixture) -> None:
    """A taken port is told once, with port and setting; the registry still has the series."""
    holder, port = taken()
    own = registry()
    exporter = PrometheusExporter(filled(), "127.0.0.1", port, own)
    exporter.start()
    exporter.start()
    holder.close()
    assert exporter.port is None
    assert b"lz_cost_usd_total" in generate_latest(own)
    exporter.stop()
    [record] = caplog.records
    assert (logging.WARNING, "lz_otel") == (record.levelno, record.name)
    assert f"127.0.0.1:{port} (Address already in use)" in record.getMessage()
    assert "OTEL_EXPORTER_PROMETHEUS_PORT" in record.getMessage()


def test_stop_releases_port_and_thread() -> None:
    """After a stop nothing is left: no thread, and the port can be had at once, more than once."""
    before = set(threading.enumerate())
    port = 0
    for _ in range(3):
        exporter = PrometheusExporter(filled(), "127.0.0.1", port, registry())
        exporter.start()
        assert exporter.port is not None
        port = port or exporter.port
        assert port == exporter.port
        fetch(exporter)
        exporter.stop()
        exporter.stop()
        assert exporter.port is None
        assert not [t for t in set(threading.enumerate()) - before if t.name == "lz-otel-prometheus"]


def test_start_again_after_stop() -> None:
    """The same exporter can be started again."""
    exporter = PrometheusExporter(filled(), "127.0.0.1", 0, registry())
    for _ in range(2):
        exporter.start()
        assert b"lz_cost_usd_total" in fetch(exporter)[0]
        exporter.stop()


def test_localhost_is_127_0_0_1(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where a name has addresses of both kinds, the port is opened on the IPv4 one."""
    both = [
        (socket.AF_INET6, socket.SOCK_STREAM, 6, "", ("::1", 0, 0, 0)),
        (socket.AF_INET, socket.SOCK_STREAM, 6, "", ("127.0.0.1", 0)),
    ]
    monkeypatch.setattr(socket, "getaddrinfo", lambda *_, **__: both)
    exporter = PrometheusExporter(filled(), "localhost", 0, registry())
    exporter.start()
    monkeypatch.undo()
    assert b"lz_cost_usd_total" in fetch(exporter)[0]
    exporter.stop()


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
    """A failing collector of the host does not take our series off our port; it is told once, without its text."""
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


@pytest.mark.parametrize(
    ("error", "hint"),
    [
        (
            socket.gaierror(socket.EAI_NONAME, "Name or service not known"),
            "HOST to a name that resolves here",
        ),
        (
            OSError(errno.EADDRNOTAVAIL, "Cannot assign requested address"),
            "HOST to an address of this machine",
        ),
        (OSError(errno.EACCES, "Permission denied"), "PORT to a port that this user may listen on"),
        (
            OSError(errno.EADDRINUSE, "Address already in use"),
            "PORT to a free port, or PROMETHEUS_MULTIPROC_DIR",
        ),
    ],
)
@pytest.mark.parametrize("quiet", [False, True])
def test_the_hint_fits_the_reason(
    error: OSError, hint: str, quiet: bool, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An address that cannot be listened on is one warning whose hint mends it; workers are quiet about a taken port only."""

    def refuse(*_: object, **__: object) -> None:
        raise error

    monkeypatch.setattr(_server.socket, "getaddrinfo", refuse)
    server = _server.MetricsServer("collector.example", 9464, lambda *_: (b"", ""), quiet=quiet)
    for _ in range(2):
        assert server._bind() is False
    texts = [r.getMessage() for r in caplog.records]
    assert int(not (quiet and error.errno == errno.EADDRINUSE)) == len(texts)
    assert all(
        f"Set OTEL_EXPORTER_PROMETHEUS_{hint}" in text and str(error.strerror) in text for text in texts
    )


def test_an_address_of_another_machine_is_one_warning(caplog: pytest.LogCaptureFixture) -> None:
    """A good address that is not ours: the system's own words, and the host setting in the hint."""
    exporter = PrometheusExporter(filled(), "192.0.2.1", 0, registry())
    exporter.start()
    exporter.stop()
    [record] = caplog.records
    assert "Set OTEL_EXPORTER_PROMETHEUS_HOST to an address of this machine" in record.getMessage()
