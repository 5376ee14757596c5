"""Every recorded exchange through the real clients: httpx and httpx2, sync and async, in every chunking.

The bytes come from a loopback server through the ordinary transports, so that what is tested is
what a service has: connection, chunked framing, content-encoding and our hooks. What is observed is
compared field by field with the truth that was computed by somebody else's parser.
"""

from __future__ import annotations

import asyncio
import os
import socket
import threading
from collections import Counter, defaultdict
from typing import TYPE_CHECKING, Any

import httpx
import httpx2
import pytest

from lz_otel import _runtime
from lz_otel.testing import capture
from tests.corpus.recorded import Recorded, load
from tests.extract import corpus as split
from tests.extract.test_corpus import differences

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

CLIENTS = [("httpx", False), ("httpx", True), ("httpx2", False), ("httpx2", True)]
SPLITS = {"whole": split.whole, "events": split.events, "7 bytes": split.pieces(7), "1 byte": split.pieces(1)}
# Bytes: longer bodies come in tiny pieces in `make corpus` only; the readers get them so in every run
# (tests/extract)
LARGE = 1 << 30 if os.environ.get("LZ_CORPUS") == "all" else 12_000


class Server:
    """Answers each connection's request with the recorded response that its path names."""

    def __init__(self, cases: list[Recorded]) -> None:
        self.cases = cases
        self.cut: Any = split.whole
        self._socket = socket.create_server(("127.0.0.1", 0), backlog=64)
        self.port = self._socket.getsockname()[1]
        threading.Thread(target=self._accept, daemon=True).start()

    def close(self) -> None:
        self._socket.close()

    def _accept(self) -> None:
        while True:
            try:
                connection, _ = self._socket.accept()
            except OSError:
                return
            threading.Thread(target=self._serve, args=(connection,), daemon=True).start()

    def _serve(self, connection: socket.socket) -> None:
        with connection, connection.makefile("rb") as lines:
            while True:
                first = lines.readline()
                if not first:
                    return
                headers: dict[str, str] = {}
                while (line := lines.readline().strip()) != b"":
                    name, _, value = line.decode("latin-1").partition(":")
                    headers[name.lower()] = value.strip()
                lines.read(int(headers.get("content-length", "0")))
                self._answer(connection, self.cases[int(headers["x-case"])])

    def _answer(self, connection: socket.socket, case: Recorded) -> None:
        keep = [
            (n, v)
            for n, vs in case.response_headers.items()
            for v in vs
            if n not in ("content-length", "transfer-encoding", "connection", "keep-alive")
        ]
        empty = case.status in (204, 304)
        head = [f"HTTP/1.1 {case.status} X", *(f"{n}: {v}" for n, v in keep)]
        if not empty:
            head.append("transfer-encoding: chunked")
        out = ["\r\n".join(head).encode("latin-1") + b"\r\n\r\n"]
        if not empty:
            # bodies without readable borders (encoded, sound) are cut anywhere
            borders = self.cut is not split.events or b"".join(split.events(case.wire)) == case.wire
            pieces = self.cut(case.wire) if borders else split.pieces(97)(case.wire)
            out += [b"%x\r\n%s\r\n" % (len(p), p) for p in pieces if p] + [b"0\r\n\r\n"]
        connection.sendall(b"".join(out))


@pytest.fixture(scope="module")
def recorded(request: pytest.FixtureRequest) -> list[Recorded]:
    """All recorded exchanges."""
    shared: Path = request.getfixturevalue("shared")
    return load(shared)


@pytest.fixture(scope="module")
def server(recorded: list[Recorded]) -> Iterator[Server]:
    """The loopback server."""
    made = Server(recorded)
    yield made
    made.close()


class _Backend:
    """Connects every host to the loopback server, without TLS: the URL stays the recorded one."""

    def __init__(self, core: Any, port: int, asynchronous: bool) -> None:
        self._inner = core.AnyIOBackend() if asynchronous else core.SyncBackend()
        self._port = port
        if asynchronous:
            self.connect_tcp = self._connect_async

    def connect_tcp(self, host: str, port: int, **_: Any) -> Any:
        return _Plain(self._inner.connect_tcp("127.0.0.1", self._port))

    async def _connect_async(self, host: str, port: int, **_: Any) -> Any:
        return _PlainAsync(await self._inner.connect_tcp("127.0.0.1", self._port))


class _Plain:
    def __init__(self, inner: Any) -> None:
        self._inner = inner

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)

    def start_tls(self, *_: Any, **__: Any) -> Any:
        return self

    def get_extra_info(self, info: str) -> Any:
        return None if info == "ssl_object" else self._inner.get_extra_info(info)


class _PlainAsync(_Plain):
    async def start_tls(self, *_: Any, **__: Any) -> Any:
        return self


def transport(module: Any, port: int, asynchronous: bool) -> Any:
    """The module's own transport class, connected to the loopback server."""
    import importlib

    core = importlib.import_module({"httpx": "httpcore", "httpx2": "httpcore2"}[module.__name__])
    made = module.AsyncHTTPTransport() if asynchronous else module.HTTPTransport()
    pool = core.AsyncConnectionPool if asynchronous else core.ConnectionPool
    made._pool = pool(network_backend=_Backend(core, port, asynchronous))  # no public way to redirect
    return made


def replay(server: Server, name: str, asynchronous: bool, numbers: list[int]) -> dict[int, Any]:
    """Make these requests; what was observed of each (``None``: no call), and the bytes the host got."""
    module = {"httpx": httpx, "httpx2": httpx2}[name]
    runtime = _runtime.current()
    assert runtime is not None
    seen: dict[int, Any] = {}

    def listen(ended: Any) -> None:
        seen[int(ended.request.headers["x-case"])] = ended.facts

    runtime.later.listeners.append(listen)
    got: dict[int, bytes] = {}

    def request_of(client: Any, number: int) -> Any:
        case = server.cases[number]
        headers = [
            (n, v)
            for n, vs in case.request_headers.items()
            for v in vs
            if n not in ("host", "content-length", "transfer-encoding", "connection")
        ]
        return client.build_request(
            case.method, case.url, headers=[*headers, ("x-case", str(number))], content=case.request_body
        )

    async def run() -> None:
        async with module.AsyncClient(transport=transport(module, server.port, True)) as client:
            for number in numbers:
                response = await client.send(request_of(client, number), stream=True)
                got[number] = b"".join([piece async for piece in response.aiter_raw()])
                await response.aclose()

    if asynchronous:
        asyncio.run(run())
    else:
        with module.Client(transport=transport(module, server.port, False)) as client:
            for number in numbers:
                response = client.send(request_of(client, number), stream=True)
                got[number] = b"".join(response.iter_raw())
                response.close()
    runtime.store.snapshot()
    for number in numbers:
        assert got[number] == (b"" if server.cases[number].status == 204 else server.cases[number].wire)
    return seen


@pytest.mark.parametrize(
    ("name", "asynchronous"), CLIENTS, ids=[f"{n}-{'async' if a else 'sync'}" for n, a in CLIENTS]
)
def test_every_exchange_is_exactly_its_truth(
    server: Server, recorded: list[Recorded], name: str, asynchronous: bool
) -> None:
    """Whole, at event borders, in 7-byte and 1-byte pieces: every field of the truth, for every exchange."""
    right: dict[str, Counter[str]] = defaultdict(Counter)
    wrong: list[str] = []
    for how, cut in SPLITS.items():
        server.cut = cut
        tiny = how in ("7 bytes", "1 byte")
        numbers = [i for i, case in enumerate(recorded) if not (tiny and len(case.wire) > LARGE)]
        with capture(mechanisms="none"):
            seen = replay(server, name, asynchronous, numbers)
        for number in numbers:
            case = recorded[number]
            found = (
                differences(case.truth, seen.get(number))
                if case.truth["is_llm_call"]
                else (["was taken for a call"] if number in seen else [])
            )
            wrong += [f"{how} {case.key}: {text}" for text in found]
            right[case.api][how] += not found
    print(f"\n{name}, {'async' if asynchronous else 'sync'}: exchanges that are exactly right")
    print(f"{'api':22}" + "".join(f"{how:>10}" for how in SPLITS))
    for api, counts in sorted(right.items()):
        print(f"{api:22}" + "".join(f"{counts[how]:>10}" for how in SPLITS))
    totals = {how: sum(c[how] for c in right.values()) for how in SPLITS}
    print(f"{'all':22}" + "".join(f"{totals[how]:>10}" for how in SPLITS))
    assert wrong == []
    assert totals["whole"] == totals["events"] == len(recorded)
