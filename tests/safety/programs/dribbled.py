"""Reads 4 MiB that come in pieces of two bytes, and checks what is held of them.

``dribbled.py CONTENT_TYPE START UNIT sync|async [gzip]``: the body is a start and units.
"""

from __future__ import annotations

import asyncio
import gzip
import random
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import httpx2

import lz_otel

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator

KIND, START, UNIT, WAY, *ENCODING = sys.argv[1:]
HEADERS = {"content-type": KIND} | ({"content-encoding": "gzip"} if ENCODING else {})
URL = "http://test/v1/messages"
BODY = {"model": "m", "max_tokens": 5, "messages": [{"role": "user", "content": "x"}]}
LIMIT = 8 << 20  # twice the body: the allocator may move what grows
SIZE = 4 << 20


def resident() -> int:
    """Return the resident memory of this process in bytes."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * 4096


def body() -> bytes:
    """Return the whole body, as it is sent."""
    start, unit = START.encode().decode("unicode_escape").encode(), UNIT.encode().decode("unicode_escape")
    if not ENCODING:
        return (start + unit.encode() * (SIZE // len(unit)))[:SIZE]
    return gzip.compress(start + random.Random(1).randbytes(SIZE // 2 - 1000).hex().encode())


WHOLE = body()


def pieces() -> Iterator[bytes]:
    """Yield the body in pieces of two bytes."""
    for at in range(0, len(WHOLE), 2):
        yield WHOLE[at : at + 2]


class SyncStream(httpx2.SyncByteStream):
    """These pieces for a sync client."""

    def __iter__(self) -> Iterator[bytes]:
        return pieces()


class AsyncStream(httpx2.AsyncByteStream):
    """These pieces for an async client."""

    async def __aiter__(self) -> AsyncIterator[bytes]:
        for piece in pieces():
            yield piece


class Transport(httpx2.BaseTransport, httpx2.AsyncBaseTransport):
    """Answers with that stream."""

    def handle_request(self, request: httpx2.Request) -> httpx2.Response:
        return httpx2.Response(200, headers=HEADERS, stream=SyncStream())

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        return httpx2.Response(200, headers=HEADERS, stream=AsyncStream())


def sync() -> int:
    """Read all, and return what memory has grown by before the end."""
    with httpx2.Client(transport=Transport()) as client:
        lz_otel.instrument_client(client)
        with client.stream("POST", URL, json=BODY) as response:
            before, length, held = resident(), 0, 0
            for piece in response.iter_raw():
                length += len(piece)
                if length >= len(WHOLE) - 1:
                    held = resident() - before
        return held


async def read_async() -> int:
    """Do the same, in an event loop."""
    async with httpx2.AsyncClient(transport=Transport()) as client:
        lz_otel.instrument_client(client)
        async with client.stream("POST", URL, json=BODY) as response:
            before, length, held = resident(), 0, 0
            async for piece in response.aiter_raw():
                length += len(piece)
                if length >= len(WHOLE) - 1:
                    held = resident() - before
        return held


lz_otel.instrument(exporters="none")
held = sync() if WAY == "sync" else asyncio.run(read_async())
assert held < LIMIT, held
