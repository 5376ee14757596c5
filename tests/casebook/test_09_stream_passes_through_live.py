"""Case 09: each piece reaches the consumer before the next is asked for, unchanged."""

from __future__ import annotations

import asyncio
import threading
from typing import Any

import httpx2
import pytest

import lz_otel
from tests.casebook.bodies import ASK, MESSAGES_URL, SSE
from tests.casebook.helpers import FIRST_TOKEN, claude, observed
from tests.wire_doubles import Pieces, a_full, transport


def joined() -> list[bytes]:
    """Event 1; events 2 and 3; events 4 to 7."""
    e = a_full()
    return [e[0], b"".join(e[1:3]), b"".join(e[3:])]


def cut_anywhere() -> list[bytes]:
    """The same bytes in pieces of 7, which end in the middle of names and numbers."""
    whole = b"".join(a_full())
    return [whole[i : i + 7] for i in range(0, len(whole), 7)]


VARIANTS = {
    "events": joined,
    "cut": cut_anywhere,
    "one piece": lambda: [b"".join(a_full())],
    "an empty piece": lambda: [a_full()[0], b"", *a_full()[1:]],
}


class Shown(httpx2.SyncByteStream, httpx2.AsyncByteStream):
    """A body that gives its next piece only after the consumer has shown that it got the one before."""

    def __init__(self, pieces: list[bytes]) -> None:
        self.pieces = pieces
        self.got = threading.Event()
        self.closed = 0
        self.late = 0

    def __iter__(self) -> Any:
        for i, piece in enumerate(self.pieces):
            if i and not self.got.wait(5):
                self.late += 1
            self.got.clear()
            yield piece

    async def __aiter__(self) -> Any:
        for i, piece in enumerate(self.pieces):
            for _ in range(500):
                if not i or self.got.is_set():
                    break
                await asyncio.sleep(0.01)
            else:
                self.late += 1
            self.got.clear()
            yield piece

    def close(self) -> None:
        self.closed += 1

    async def aclose(self) -> None:
        self.closed += 1


def with_body(body: Any) -> Any:
    return transport(httpx2, lambda r: httpx2.Response(200, headers=SSE, stream=body))


def others() -> set[str]:
    """Names of all threads but the loop's own workers (the asynchronous SDK asks one for the platform)."""
    return {t.name for t in threading.enumerate() if not t.name.startswith("asyncio_")}


def seen_whole(found: Any) -> None:
    """Tokens and calls as in case 02."""
    assert ((1, 2104), (1, 20)) == found.tokens()
    assert ({"ok": 1}, 1, 0) == (found.outcomes(), found.samples(FIRST_TOKEN), found.inflight)


@pytest.mark.parametrize("asynchronous", [False, True])
def test_09_the_sdk_gets_each_piece_before_the_next_is_asked_for(asynchronous: bool) -> None:
    """No piece is read ahead, no thread or task is ours, and the body is closed exactly once."""
    body = Shown(joined())
    threads: set[str] = set()

    def got(event: Any) -> None:
        threads.update(others())
        if event.type in ("message_start", "content_block_delta"):
            body.got.set()

    async def run() -> None:
        client = claude(None, asynchronous=True, http_client=httpx2.AsyncClient(transport=with_body(body)))
        async for event in await client.messages.create(**ASK, stream=True):
            got(event)
            assert len(asyncio.all_tasks()) == 1

    before = others()
    with observed() as found:
        if asynchronous:
            asyncio.run(run())
        else:
            client = claude(None, http_client=httpx2.Client(transport=with_body(body)))
            for event in client.messages.create(**ASK, stream=True):
                got(event)
        seen_whole(found)
    # One of an earlier test's servers may end meanwhile: what matters is that none has come
    assert (0, 1, set()) == (body.late, body.closed, threads - before)


def plain(method: str, body: Any) -> list[Any]:
    """A plain client that reads in one of the ways of a response."""
    client = httpx2.Client(transport=with_body(body))
    lz_otel.instrument_client(client)
    with client.stream("POST", MESSAGES_URL, json={**ASK, "stream": True}) as response:
        consumed = [response.is_stream_consumed]
        if method == "read":
            return [
                *consumed,
                response.read(),
                response.is_stream_consumed,
                response.read(),
                response.content,
            ]
        items = list(getattr(response, method)())
        return [*consumed, items, response.is_stream_consumed]


async def plain_async(method: str, body: Any) -> list[Any]:
    """The same, asynchronous."""
    client = httpx2.AsyncClient(transport=with_body(body))
    lz_otel.instrument_client(client)
    async with client.stream("POST", MESSAGES_URL, json={**ASK, "stream": True}) as response:
        consumed = [response.is_stream_consumed]
        if method == "aread":
            return [
                *consumed,
                await response.aread(),
                response.is_stream_consumed,
                await response.aread(),
                response.content,
            ]
        return [*consumed, [i async for i in getattr(response, method)()], response.is_stream_consumed]


@pytest.mark.parametrize("method", ["iter_raw", "iter_bytes", "iter_lines", "read"])
@pytest.mark.parametrize("name", VARIANTS)
def test_09_every_way_of_reading_gives_the_bytes_sent(name: str, method: str) -> None:
    """The same bytes in the same pieces as without the library, and the numbers of case 02."""
    bare = plain(method, Pieces(VARIANTS[name]()))
    body = Pieces(VARIANTS[name]())
    with observed() as found:
        assert bare == plain(method, body)
        seen_whole(found)
    assert (1, len(VARIANTS[name]())) == (body.closed, body.asked)
    with observed() as found:
        other = Pieces(VARIANTS[name]())
        assert bare == asyncio.run(plain_async("a" + method, other))
        seen_whole(found)
    assert 1 == other.closed
    if method == "iter_raw":
        assert bare[1] == [p for p in VARIANTS[name]() if p]  # the package itself passes no empty piece on


def test_09_a_consumed_stream_says_so_itself() -> None:
    """Reading twice raises what the package raises."""
    client = httpx2.Client(transport=with_body(Pieces(joined())))
    with observed() as found:
        lz_otel.instrument_client(client)
        with client.stream("POST", MESSAGES_URL, json={**ASK, "stream": True}) as response:
            with pytest.raises(httpx2.ResponseNotRead):
                _ = response.content
            list(response.iter_raw())
            with pytest.raises(httpx2.StreamConsumed):
                list(response.iter_raw())
        seen_whole(found)
