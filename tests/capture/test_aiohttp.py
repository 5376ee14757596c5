"""aiohttp's client against a real server."""

from __future__ import annotations

import asyncio
import gc
from typing import TYPE_CHECKING, Any

import aiohttp
import pytest

import lz_otel
from lz_otel.testing import Capture, capture
from tests.capture.serving import ASK, EVENTS
from tests.wire_doubles import O_JSON

if TYPE_CHECKING:
    from tests.capture.serving import Server

pytestmark = pytest.mark.asyncio
DURATION = "gen_ai.client.inference.duration"
INPUT = "gen_ai.client.inference.usage.input_tokens"
STREAM = {**ASK, "stream": True}


async def post(url: str, **options: Any) -> Any:
    async with aiohttp.ClientSession() as session, session.post(url, json=ASK, **options) as response:
        return await response.json()


@pytest.mark.parametrize("way", ["plain", "chunked", "gzip", "bare"])
async def test_an_answer(way: str, server: Server, seen: Capture) -> None:
    """However the body is framed and coded: the host has it, and it is counted once."""
    assert O_JSON == await post(server.url(way))
    assert 1 == seen.value(DURATION, lz_ending="ok") == seen.value("lz.attempts", status="200")
    assert O_JSON["usage"]["prompt_tokens"] == seen.value(INPUT)


async def test_an_answer_that_aiohttp_does_not_decode(server: Server, seen: Capture) -> None:
    """Where the host wants it as it was sent, we decode it for ourselves."""
    async with (
        aiohttp.ClientSession(auto_decompress=False) as session,
        session.post(server.url("gzip"), json=ASK) as response,
    ):
        assert b"\x1f\x8b" == (await response.read())[:2]
    assert O_JSON["usage"]["prompt_tokens"] == seen.value(INPUT)


async def test_events(server: Server, seen: Capture) -> None:
    """A stream is read as it arrives, by whichever of the reader's ways the host takes."""
    async with aiohttp.ClientSession() as session:
        async with session.post(server.url("stream"), json=STREAM) as response:
            assert b"".join(EVENTS) == b"".join([piece async for piece in response.content.iter_any()])
        async with session.post(server.url("stream"), json=STREAM) as response:
            assert len(b"".join(EVENTS).splitlines()) == len([line async for line in response.content])
    assert 2 == seen.value(DURATION, lz_stream="true", lz_ending="ok")
    assert 2 == seen.value("lz.call.time_to_first_token")


async def test_a_stream_that_is_left(server: Server, seen: Capture) -> None:
    """Closed, or dropped with its session: abandoned. Cancelled: cancelled. Nothing stays active."""
    async with aiohttp.ClientSession() as session, session.post(server.url("slow"), json=STREAM) as response:
        assert await response.content.readany()
    assert 1 == seen.value(DURATION, lz_ending="abandoned")
    async with aiohttp.ClientSession() as session:
        response = await session.post(server.url("slow"), json=STREAM)
        reading = asyncio.create_task(response.read())
        await asyncio.sleep(0.05)
        reading.cancel()
        with pytest.raises(asyncio.CancelledError):
            await reading
    assert 1 == seen.value(DURATION, lz_ending="cancelled")
    session = aiohttp.ClientSession()
    response = await session.post(server.url("slow"), json=STREAM)
    await session.close()
    del response, session
    gc.collect()
    assert 3 == seen.value(DURATION)
    assert 0 == seen.value("lz.call.active")


@pytest.mark.parametrize("way", ["broken", "cut", "gone"])
async def test_a_connection_that_breaks(way: str, server: Server, seen: Capture) -> None:
    """The host gets its exception, and the call is an error."""
    with pytest.raises(aiohttp.ClientError):
        await post(server.url(way))
    assert 1 == seen.value(DURATION, lz_ending="error") == seen.value("lz.attempts", status="protocol_error")


async def test_no_connection_and_no_answer(server: Server, seen: Capture) -> None:
    """A refused connection, and an answer that takes too long."""
    with pytest.raises(aiohttp.ClientConnectorError):
        await post("http://127.0.0.1:1/v1/chat/completions")
    with pytest.raises(TimeoutError):
        await post(server.url("slow"), timeout=aiohttp.ClientTimeout(total=0.2))
    assert 1 == seen.value("lz.attempts", status="connect_error")
    assert 1 == seen.value("lz.attempts", status="read_timeout")
    assert 2 == seen.value(DURATION, lz_ending="error")


async def test_a_redirect_is_one_call(server: Server, seen: Capture) -> None:
    """Both exchanges belong to it."""
    assert O_JSON == await post(server.url("moved"))
    assert 1 == seen.value(DURATION, lz_ending="ok")
    assert (1, 1) == (seen.value("lz.attempts", status="3xx"), seen.value("lz.attempts", status="200"))


async def test_other_traffic_is_left_alone(server: Server, seen: Capture) -> None:
    """The reader of another response is the one that it was, and nothing is counted."""
    async with aiohttp.ClientSession() as session, session.get(server.url("plain")) as response:
        assert type(response.content) is aiohttp.StreamReader or not response.ok
    assert 0 == seen.value("lz.attempts")


async def test_a_reader_is_what_it_was(server: Server, seen: Capture) -> None:
    """Its class is a StreamReader by name while a body arrives, and in truth when it is over."""
    async with aiohttp.ClientSession() as session, session.post(server.url("slow"), json=STREAM) as response:
        reader = response.content
        assert isinstance(reader, aiohttp.StreamReader)
        assert "StreamReader" == type(reader).__qualname__
    assert type(reader) is aiohttp.StreamReader
    assert 1 == seen.value(DURATION)


async def test_hooks_come_off(server: Server) -> None:
    """After `uninstrument` aiohttp's functions have their own code."""
    send: Any = aiohttp.ClientRequest.send
    before = send.__code__
    with capture():
        assert send.__code__ is not before
        assert "aiohttp" in lz_otel.status().hooked
    assert send.__code__ is before
    assert O_JSON == await post(server.url("plain"))
