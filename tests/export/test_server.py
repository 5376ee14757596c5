"""The server of a port of our own: what it answers, and what it stands."""

from __future__ import annotations

import errno
import gzip
import logging
import socket
import threading
import urllib.error
import urllib.request
from socketserver import TCPServer
from typing import Any

import pytest
from prometheus_client import generate_latest

from lz_otel._export import _server
from lz_otel._export._server import MAX_REQUESTS, PAUSE
from lz_otel._export.prometheus import PrometheusExporter
from tests.export.filling import filled
from tests.export.scraping import fetch, registry


def taken() -> tuple[socket.socket, int]:
    holder = socket.socket()
    holder.bind(("127.0.0.1", 0))
    holder.listen()
    return holder, holder.getsockname()[1]


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
    """Idle connections take at most so many threads; those beyond are closed, and a scrape works then."""
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
    """A client that drips is never idle: after the time limit the next one without a seat ends it."""
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
