"""The server of a port of our own: what it answers, and what it stands."""

from __future__ import annotations

import errno
import gzip
import logging
import socket
import threading
import urllib.error
import urllib.request
from pathlib import Path
from socketserver import TCPServer
from typing import Any

import pytest
from prometheus_client import generate_latest

from lz_otel._export import _server
from lz_otel._export._server import MAX_REQUESTS, PAUSE
from lz_otel._export.prometheus import PrometheusExporter
from tests.export.filling import filled
from tests.export.scraping import fetch, registry
from tests.processes import run

PROGRAMS = Path(__file__).parent / "programs"


def taken() -> tuple[socket.socket, int]:
    holder = socket.socket()
    holder.bind(("127.0.0.1", 0))
    holder.listen()
    return holder, holder.getsockname()[1]


def status_of(exporter: PrometheusExporter, target: str, host: str) -> str:
    """Return the status of a request that no client would make."""
    assert exporter.port is not None
    head = f"GET {target} HTTP/1.1\r\n" + (f"Host: {host}\r\n" if host else "") + "\r\n"
    with socket.create_connection(("127.0.0.1", exporter.port), timeout=20) as one:
        one.sendall(head.encode("latin-1"))
        return one.makefile("rb").readline().decode().split(" ")[1]


def test_the_port_compresses(exporter: PrometheusExporter) -> None:
    """Who accepts gzip gets it."""
    assert fetch(exporter)[0] == gzip.decompress(fetch(exporter, Accept_Encoding="gzip")[0])


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
    """Each try to accept without a descriptor is followed by a pause, which a stop ends."""
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
    """Idle connections take at most so many threads; each beyond them ends the oldest, and a scrape works."""
    monkeypatch.setattr(_server._Handler, "timeout", None)  # else the time limit would close them
    assert exporter.port is not None
    before = threading.active_count()
    idle = [
        socket.create_connection(("127.0.0.1", exporter.port), timeout=20) for _ in range(MAX_REQUESTS + 5)
    ]
    assert [b""] * 5 == [one.recv(1) for one in idle[:5]]
    assert MAX_REQUESTS >= threading.active_count() - before
    assert b"lz_cost_usd_total" in fetch(exporter)[0]
    assert b"" == idle[5].recv(1)
    for one in idle:
        one.close()


def test_a_scrape_among_many_idle_and_dripping_clients() -> None:
    """Beside 200 idle connections and one client that drips into all it can get, scrapes get through."""
    run(PROGRAMS / "crowded_port.py")


@pytest.mark.parametrize(
    "target",
    ["http://[::1/metrics", "http://x:99999999/metrics", "*", "metrics", "/met\0rics", "/m\xe9", "ftp://x/"],
)
def test_a_target_that_is_none(exporter: PrometheusExporter, target: str) -> None:
    """A request for what is no path and no URL is answered by 400."""
    assert "400" == status_of(exporter, target, "localhost")


@pytest.mark.parametrize(
    ("host", "status"),
    [
        ("", "200"),
        ("127.0.0.1:9464", "200"),
        ("[::1]:9464", "200"),
        ("10.0.0.7", "200"),
        ("LOCALHOST.", "200"),
        ("app.localhost", "200"),
        ("host.docker.internal:9464", "200"),
        ("service:9464", "200"),
        (socket.gethostname(), "200"),
        ("evil.example", "403"),
        ("evil.example:9464", "403"),
        ("127.0.0.1.evil.example", "403"),
        ("localhost.evil.example", "403"),
        ("localhost@evil.example", "403"),
        ("256.1.1.1", "403"),
        ("[::1", "400"),
        ("localhost\r\nHost: evil.example", "400"),
    ],
)
def test_names_of_others(exporter: PrometheusExporter, host: str, status: str) -> None:
    """A port that only this machine reaches answers to names of this machine alone (DNS rebinding)."""
    assert status == status_of(exporter, "/metrics", host)
    if status == "200":
        assert "403" == status_of(exporter, "http://evil.example/metrics", host)


def test_names_of_others_are_told_once(
    exporter: PrometheusExporter, caplog: pytest.LogCaptureFixture
) -> None:
    """The log says of the first refused name what to do about it, at a limited length."""
    for _ in range(2):
        status_of(exporter, "/metrics", f"{'a' * 5000}.example")
    [record] = caplog.records
    assert "OTEL_EXPORTER_PROMETHEUS_HOST" in record.getMessage()
    assert len(record.getMessage()) < 400


def test_any_name_where_others_can_connect() -> None:
    """A port that other machines reach is scraped by any name: a service, a proxy, a full name."""
    exporter = PrometheusExporter(filled(), "0.0.0.0", 0, registry())
    exporter.start()
    try:
        assert "200" == status_of(exporter, "/metrics", "app.ns.svc.cluster.example:9464")
    finally:
        exporter.stop()


@pytest.mark.parametrize(
    ("accept", "compressed"),
    [
        ("gzip", True),
        ("deflate, GZIP;q=0.5", True),
        ("gzip ; q=1.0", True),
        ("gzip;q=0", False),
        ("gzip; Q=0.000, identity", False),
        ("gzip;q=high", False),
        ("gzip;q=nan", False),
        ("gzipped", False),
        ("identity", False),
        ("", False),
    ],
)
def test_who_takes_gzip(exporter: PrometheusExporter, accept: str, compressed: bool) -> None:
    """An answer is compressed for who accepts that, by name and with a quality above 0."""
    body, _ = fetch(exporter, Accept_Encoding=accept)
    assert compressed == body.startswith(b"\x1f\x8b")


def test_a_connection_that_says_nothing_is_closed(
    exporter: PrometheusExporter, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An idle connection gives its thread back after the time limit."""
    assert 10 == _server._Handler.timeout
    monkeypatch.setattr(_server._Handler, "timeout", 0.01)
    assert exporter.port is not None
    with socket.create_connection(("127.0.0.1", exporter.port), timeout=20) as idle:
        assert b"" == idle.recv(1)


def test_answers_that_are_not_read_lose_their_seats(
    exporter: PrometheusExporter, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With all seats taken by answers, the next client ends those that take longer than the time limit."""
    monkeypatch.setattr(_server, "REQUEST_TIMEOUT", 0.0)
    begun, go_on = threading.Semaphore(0), threading.Event()

    def expose(accept: str, names: list[str]) -> tuple[bytes, str]:
        begun.release()
        go_on.wait()
        return b"", "text/plain"

    server = _server.MetricsServer("127.0.0.1", 0, expose)
    server.start()
    assert server.port is not None
    slow = [socket.create_connection(("127.0.0.1", server.port), timeout=20) for _ in range(MAX_REQUESTS)]
    for one in slow:
        one.send(b"GET /metrics HTTP/1.0\r\n\r\n")
        begun.acquire()
    with socket.create_connection(("127.0.0.1", server.port), timeout=20) as refused:
        assert b"" == refused.recv(1)  # the threads are in the registry still
    assert [b""] * MAX_REQUESTS == [one.recv(1) for one in slow]
    go_on.set()
    server.stop(5)
    for one in slow:
        one.close()


def test_a_thread_that_cannot_start_gives_its_seat_back(
    exporter: PrometheusExporter, monkeypatch: pytest.MonkeyPatch
) -> None:
    """When the process may have no more threads, connections are closed; then scrapes work again."""
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
    """An address that cannot be used is one warning with a hint; a taken port is none to workers."""

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
