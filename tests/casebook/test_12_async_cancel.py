"""Case 12: a cancelled task is a cancelled call, whole and quiet."""

from __future__ import annotations

import asyncio
import logging
import random
from typing import TYPE_CHECKING, Any

import httpx2
import pytest

from tests.casebook.bodies import ASK, SSE
from tests.casebook.helpers import SAMPLES, claude, observed
from tests.wire_doubles import Pieces, a_full

if TYPE_CHECKING:
    from collections.abc import Iterator

WAIT = 0.03  # before each event; the case has 0.2


def slow(wait: float = WAIT) -> Any:
    """A_FULL with a wait before each event."""
    pieces = [item for event in a_full() for item in (wait, event)]
    return lambda request: httpx2.Response(200, headers=SSE, stream=Pieces(pieces))


@pytest.fixture
def quiet(caplog: pytest.LogCaptureFixture, capfd: pytest.CaptureFixture[str]) -> Iterator[None]:
    """No line at warning or above, and nothing on stderr."""
    caplog.set_level(logging.WARNING)
    yield
    assert [] == [r.getMessage() for r in caplog.records]
    assert "" == capfd.readouterr().err


async def read(client: Any, seen: asyncio.Event | None = None) -> int:
    """Read a stream to its end; tells when the first text has come."""
    n = 0
    async for event in await client.messages.create(**ASK, stream=True):
        n += 1
        if seen is not None and event.type == "content_block_delta":
            seen.set()
    return n


async def cancel(client: Any, times: int) -> None:
    """Cancel a reading task after the first text."""
    seen = asyncio.Event()
    task = asyncio.create_task(read(client, seen))
    await seen.wait()
    for _ in range(times):
        task.cancel()
        await asyncio.sleep(0)
    with pytest.raises(asyncio.CancelledError):
        await task


async def time_out(client: Any) -> None:
    """A timeout of asyncio around the loop."""
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(5 * WAIT):
            await read(client)


@pytest.mark.usefixtures("quiet")
@pytest.mark.parametrize("way", ["cancel", "timeout", "twice"])
def test_12_a_cancelled_reader_is_a_cancelled_call(way: str) -> None:
    """The cancel arrives unchanged; the call is cancelled, with the input known from the first event."""

    async def run() -> None:
        client = claude(slow(), asynchronous=True)
        await (time_out(client) if way == "timeout" else cancel(client, 2 if way == "twice" else 1))

    with observed() as found:
        asyncio.run(run())
        assert {"cancelled": 1} == found.outcomes()
        assert ((1, 2104), (0, 0)) == found.tokens()
        assert (4, 2000, 100) == found.parts()
        assert 0 == found.inflight


@pytest.mark.usefixtures("quiet")
def test_12_cancelled_before_the_headers() -> None:
    """A task cancelled while it waits for an answer is a cancelled call without tokens."""

    class Never(httpx2.AsyncBaseTransport):
        async def handle_async_request(self, request: Any) -> Any:
            await asyncio.sleep(30)

    async def run() -> None:
        client = claude(None, asynchronous=True, http_client=httpx2.AsyncClient(transport=Never()))
        task = asyncio.create_task(client.messages.create(**ASK))
        await asyncio.sleep(0.1)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    with observed() as found:
        asyncio.run(run())
        assert {"cancelled": 1} == found.outcomes()
        assert {} == found.seen.points(SAMPLES)
        assert 0 == found.inflight


@pytest.mark.usefixtures("quiet")
def test_12_half_of_fifty_are_cancelled() -> None:
    """25 finish, 25 are cancelled at random moments: each is counted once, the right way."""
    rng = random.Random(12)

    asked: dict[str, asyncio.Event] = {}

    def answer(request: Any) -> Any:
        doomed = request.headers["x-doomed"]
        if doomed != "no":
            asked[doomed].set()
        return slow(0.5 if doomed != "no" else 0.01)(request)

    async def one(client: Any, doomed: str) -> None:
        asked[doomed] = asyncio.Event()
        task = asyncio.create_task(read(client.with_options(default_headers={"x-doomed": doomed})))
        if doomed == "no":
            assert 7 == await task
            return
        await asked[doomed].wait()  # a task cancelled before it asked has made no call
        await asyncio.sleep(rng.uniform(0, 0.7))
        assert task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    async def run() -> None:
        client = claude(answer, asynchronous=True)
        await asyncio.gather(*(one(client, str(i) if i % 2 else "no") for i in range(50)))

    with observed() as found:
        asyncio.run(run())
        assert {"ok": 25, "cancelled": 25} == found.outcomes()
        assert (25, 500) == found.tokens()[1]
        assert 0 == found.inflight


@pytest.mark.usefixtures("quiet")
def test_12_closed_by_another_task_is_abandoned() -> None:
    """One task starts the stream, another closes it: abandoned, not cancelled."""

    async def run() -> None:
        stream = await claude(slow(), asynchronous=True).messages.create(**ASK, stream=True)
        async for _ in stream:
            break
        await asyncio.create_task(stream.close())

    with observed() as found:
        asyncio.run(run())
        assert {"abandoned": 1} == found.outcomes()
        assert 0 == found.inflight
