"""Streams that end by the thousand at one moment, for `test_floods`.

``python floods.py WAY NUMBER`` prints calls, attempts, calls in flight and faults. The ways that end with the
process (`AT_EXIT`) print nothing: what they counted is pushed.
"""

from __future__ import annotations

import asyncio
import gc
import os
import signal
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
    def __init__(self, endless: type[AsyncStream] = AsyncStream) -> None:
        self._endless = endless

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        return httpx.Response(200, headers={"content-type": "text/event-stream"}, stream=Stream())

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        return httpx.Response(200, headers={"content-type": "text/event-stream"}, stream=self._endless())


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


def trio_cancelled(number: int) -> None:
    """A scope with as many tasks of trio is cancelled, after all of them have begun."""
    import trio

    class Endless(AsyncStream):
        async def __aiter__(self) -> AsyncIterator[bytes]:
            yield b"data: {}\n\n"
            await trio.sleep_forever()

    async def main() -> None:
        client, reached = httpx.AsyncClient(transport=Transport(Endless)), [0]
        lz_otel.instrument_client(client)
        async with trio.open_nursery() as nursery:
            for _ in range(number):
                nursery.start_soon(_read, client, reached)
            while reached[0] < number:
                await trio.sleep(0)
            nursery.cancel_scope.cancel()

    trio.run(main)


def dropped_at_exit(number: int) -> None:
    """They are dropped, and the interpreter ends before anything else is called."""
    held = begun(number)
    held.clear()


def dropped_after_sigterm(number: int) -> None:
    """A handler drops them, and raises SystemExit, while the main thread does something else."""
    held = begun(number)

    def leave(*_: object) -> None:
        held.clear()
        sys.exit(0)

    signal.signal(signal.SIGTERM, leave)
    os.kill(os.getpid(), signal.SIGTERM)
    while True:
        signal.pause()


def held_at_exit(number: int) -> None:
    """They are held by a module as the interpreter ends."""
    sys.modules[__name__].held = begun(number)  # type: ignore[attr-defined]


AT_EXIT = ("dropped_at_exit", "dropped_after_sigterm", "held_at_exit")

if __name__ == "__main__":
    if sys.argv[1] in AT_EXIT:
        lz_otel.instrument()
        globals()[sys.argv[1]](int(sys.argv[2]))
        sys.exit()
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
