"""What an attempt came to."""

from __future__ import annotations

import asyncio
import gzip
import json
import socket
import threading
import zlib
from typing import TYPE_CHECKING, Any

import httpx
import httpx2
import pytest
import zstandard

from lz_otel._extract.ending import _label
from lz_otel.catalogue import STATUSES
from lz_otel.testing import capture

if TYPE_CHECKING:
    from collections.abc import Iterator

CALLS = "gen_ai.client.inference.duration"
ASKED = {"model": "m", "messages": [{"role": "user", "content": "x"}]}
CHOICE = {"index": 0, "message": {"content": "a"}, "delta": {"content": "a"}, "finish_reason": "stop"}
DIED = {"code": 502, "message": "upstream died"}


def test_statuses_are_a_closed_list() -> None:
    """Any HTTP status is a value of the catalogue's list: itself, or its class."""
    assert all(_label(status) in STATUSES for status in range(1000))
    assert ("200", "429", "4xx", "5xx") == tuple(map(_label, (200, 429, 418, 999)))


class Server:
    """Answers every request with one head and one body, and closes."""

    def __init__(self) -> None:
        self.kind, self.encoding, self.body = "application/json", "", b""
        self._socket = socket.create_server(("127.0.0.1", 0))
        self.port = self._socket.getsockname()[1]
        self.url = f"http://127.0.0.1:{self.port}/v1/chat/completions"
        threading.Thread(target=self._accept, daemon=True).start()

    def close(self) -> None:
        self._socket.close()

    def _accept(self) -> None:
        while True:
            try:
                connection, _ = self._socket.accept()
            except OSError:
                return
            with connection, connection.makefile("rb") as lines:
                size = 0
                while line := lines.readline().strip().lower():
                    if line.startswith(b"content-length:"):
                        size = int(line[15:])
                lines.read(size)
                encoding = f"content-encoding: {self.encoding}\r\n" if self.encoding else ""
                head = f"HTTP/1.1 200 X\r\ncontent-type: {self.kind}\r\n{encoding}connection: close\r\n\r\n"
                connection.sendall(head.encode() + self.body)


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    """The loopback server."""
    made = Server()
    yield made
    made.close()


def ask(server: Server, module: Any, *, waits: bool, stream: bool) -> str:
    """Make a call and read its answer; the class of what was raised."""
    asked = ASKED | ({"stream": True} if stream else {})

    async def later() -> None:
        async with module.AsyncClient() as client, client.stream("POST", server.url, json=asked) as answer:
            await answer.aread()

    try:
        if waits:
            asyncio.run(later())
        else:
            with module.Client() as client, client.stream("POST", server.url, json=asked) as answer:
                answer.read()
    except Exception as error:
        return type(error).__name__
    return ""


def endings(seen: Any) -> list[tuple[str, str, str]]:
    """Ending and error type of the calls, and the statuses of their attempts."""
    statuses = [labels[-1] for labels in seen.points("lz.attempts")]
    return [(labels[-1], labels[6], status) for labels in seen.points(CALLS) for status in statuses]


WHOLE = json.dumps({"id": "c", "model": "m", "choices": [CHOICE]}).encode() * 3
BROKEN = [
    ("gzip", WHOLE),
    ("gzip", gzip.compress(WHOLE)[:20] + b"\xff" * 99),
    ("deflate", b"\xff" + WHOLE),
    ("br", WHOLE),
    ("gzip, br", WHOLE),
]


@pytest.mark.parametrize(("encoding", "body"), BROKEN)
@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize("waits", [False, True])
@pytest.mark.parametrize("module", [httpx, httpx2])
def test_a_body_that_cannot_be_decoded(
    server: Server, module: Any, waits: bool, stream: bool, encoding: str, body: bytes
) -> None:
    """The host gets an exception and no answer: the call ends as an error, and its attempt is told apart."""
    server.kind = "text/event-stream" if stream else "application/json"
    server.encoding, server.body = encoding, body
    with capture() as seen:
        # TypeError: httpx2 with the oldest brotli that it takes
        assert ask(server, module, waits=waits, stream=stream) in ("DecodingError", "TypeError")
        assert [("error", "DecodingError", "decode_error")] == endings(seen)
        assert 1.0 == seen.value("lz.call.usage_missing", reason="compressed")


@pytest.mark.parametrize("stream", [False, True])
def test_a_body_whose_encoding_is_cut(server: Server, stream: bool) -> None:
    """The end of a zstd frame is missing: the client says so after the last byte."""
    server.kind = "text/event-stream" if stream else "application/json"
    server.encoding, server.body = "zstd", zstandard.compress(WHOLE * 50)[:-4]
    with capture() as seen:
        assert "DecodingError" == ask(server, httpx, waits=False, stream=stream)
        assert [("error", "DecodingError", "decode_error")] == endings(seen)
    server.body = zstandard.compress(WHOLE)
    with capture() as seen:
        assert "" == ask(server, httpx, waits=False, stream=False)
        assert ["200"] == [status for _, _, status in endings(seen)]


def test_an_encoding_that_grows_is_no_error(server: Server) -> None:
    """What is given up here for its size is read by the client all the same."""
    server.kind, server.encoding = "application/json", "deflate"
    server.body = zlib.compress(b'{"id": "' + b"a" * (40 << 20) + b'"}', 9)
    with capture() as seen:
        assert "" == ask(server, httpx, waits=False, stream=False)
        assert [("ok", "", "200")] == endings(seen)


@pytest.mark.parametrize(
    ("said", "kind"),
    [
        ({"error": DIED}, "502"),
        ({"error": "upstream died"}, "_OTHER"),
        ({"error": {"why": "x"}}, "_OTHER"),
        ({"object": "error", "message": "m", "type": "BadRequestError"}, "BadRequestError"),
        ({"choices": [CHOICE | {"finish_reason": "error", "error": DIED}]}, "502"),
        ({"choices": [CHOICE | {"finish_reason": None, "error": DIED}]}, "502"),
        ({"choices": [CHOICE | {"finish_reason": "error"}]}, "error"),
        ({"choices": [CHOICE], "error": None}, ""),
        ({"choices": [CHOICE], "error": {}}, ""),
    ],
)
@pytest.mark.parametrize("stream", [False, True])
def test_an_error_inside_a_200(server: Server, said: dict[str, Any], kind: str, stream: bool) -> None:
    """An error object, or a finish reason that says so: at the top or in a choice, plain or streamed."""
    server.encoding = ""
    first = {"id": "c", "model": "m", "choices": [{"index": 0, "delta": {"content": "par"}}]}
    events = b"".join(b"data: " + json.dumps(event).encode() + b"\n\n" for event in (first, first, said))
    server.kind = "text/event-stream" if stream else "application/json"
    server.body = events + b"data: [DONE]\n\n" if stream else json.dumps({"id": "c"} | said).encode()
    with capture() as seen:
        assert "" == ask(server, httpx2, waits=False, stream=stream)
        assert [("error" if kind else "ok", kind, "200")] == endings(seen)


@pytest.mark.parametrize("module", [httpx, httpx2])
def test_a_fault_of_tls_is_no_refused_connection(module: Any) -> None:
    """TLS with a server that has none, and a port that nobody listens at."""
    plain = socket.create_server(("127.0.0.1", 0))

    def serve() -> None:
        connection, _ = plain.accept()
        with connection:
            connection.recv(65_536)
            connection.sendall(b"HTTP/1.1 400 X\r\ncontent-length: 0\r\n\r\n")
            connection.recv(1)

    threading.Thread(target=serve, daemon=True).start()
    with socket.create_server(("127.0.0.1", 0)) as free:
        refused = free.getsockname()[1]
    found = []
    with plain:
        for port in (plain.getsockname()[1], refused):
            with capture() as seen:
                with pytest.raises(module.ConnectError):
                    module.post(f"https://127.0.0.1:{port}/v1/chat/completions", json=ASKED, timeout=5)
                found += endings(seen)
    assert [("error", "SSLError", "tls_error"), ("error", "ConnectError", "connect_error")] == found
