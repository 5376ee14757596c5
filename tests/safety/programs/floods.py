"""Streams that end by the thousand at one moment, for `test_floods`.

``python floods.py WAY NUMBER`` prints calls, attempts, calls in flight and faults.
"""

from __future__ import annotations

import asyncio
import gc
import sys
import threading
from typing import TYPE_CHECKING, Any

import httpx

import lz_otel
from lz_otel import _runtime, catalogue

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator

BODY = {"model": "claude-haiku-4-5", "max_tokens": 5, "stream": True, "messages": []}
URL = "http://api.test/v1/messages"


class Stream(httpx.SyncByteStream):
    def __iter__(self) -> Iterator[bytes]:
        yield b"data: {}\n\n"


class AsyncStream(httpx.AsyncByteStream):
    async def __aiter__(self) -> AsyncIterator[bytes]:
        yield b"data: {}\n\n"
        await asyncio.sleep(3600)


class Transport(httpx.BaseTransport, httpx.AsyncBaseTransport):
    def handle_request(self, request: httpx.Request) -> httpx.Response:
        return httpx.Response(200, headers={"content-type": "text/event-stream"}, stream=Stream())

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        return httpx.Response(200, headers={"content-type": "text/event-stream"}, stream=AsyncStream())


def begun(number: int) -> list[Any]:
    """So many streams in flight."""
    client = httpx.Client(transport=Transport())
    lz_otel.instrument_client(client)
    return [client.send(client.build_request("POST", URL, json=BODY), stream=True) for _ in range(number)]


def dropped(number: int) -> None:
    """The last reference to all of them goes at once."""
    held = begun(number)
    held.clear()


def collected(number: int) -> None:
    """They are in cycles, which one collection finds."""
    gc.disable()
    for response in begun(number):
        response.cycle = [response]
    del response
    gc.collect()
    gc.enable()


def threads(number: int) -> None:
    """Four threads drop theirs side by side."""
    parts = [begun(number // 4) for _ in range(4)]
    workers = [threading.Thread(target=part.clear) for part in parts]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()


async def _read(client: httpx.AsyncClient, reached: list[int]) -> None:
    async with client.stream("POST", URL, json=BODY) as response:
        async for _ in response.aiter_bytes():
            reached[0] += 1


async def _reading(number: int) -> list[asyncio.Task[None]]:
    client, reached = httpx.AsyncClient(transport=Transport()), [0]
    lz_otel.instrument_client(client)
    tasks = [asyncio.create_task(_read(client, reached)) for _ in range(number)]
    while reached[0] < number:
        await asyncio.sleep(0)
    return tasks


def cancelled(number: int) -> None:
    """As many tasks are cancelled together."""

    async def main() -> None:
        tasks = await _reading(number)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    asyncio.run(main())


def loop_closed(number: int) -> None:
    """The loop ends while all tasks are still reading."""
    asyncio.run(_reading(number))


if __name__ == "__main__":
    lz_otel.instrument(exporters=())
    globals()[sys.argv[1]](int(sys.argv[2]))
    gc.collect()
    store = _runtime.current().store  # type: ignore[union-attr]
    store.snapshot()
    calls = store.value(catalogue.INFERENCE_DURATION).count
    print(
        calls,
        *(
            int(store.value(m))
            for m in (catalogue.ATTEMPTS, catalogue.CALL_ACTIVE, catalogue.INTERNAL_ERRORS)
        ),
    )
