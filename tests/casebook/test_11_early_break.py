"""Case 11: a stop button is no error, and what was known when it was pressed is counted."""

from __future__ import annotations

import asyncio
import gc
import logging
from typing import TYPE_CHECKING, Any

import httpx2
import pytest

from tests.casebook.bodies import ASK, CHAT, SSE
from tests.casebook.helpers import FIRST_TOKEN, SAMPLES, USAGE_MISSING, claude, gpt, observed
from tests.wire_doubles import Pieces, a_full, o_full

if TYPE_CHECKING:
    from collections.abc import Callable

WAIT = 0.01  # before each event; the case has 0.05


class Mine(Exception):  # noqa: N818 - an exception of somebody who has not read our rules
    """An exception of the application's own."""


def body(vendor: str) -> Pieces:
    """A_FULL or O_FULL, with a wait before each event."""
    events = a_full() if vendor == "anthropic" else o_full()
    return Pieces([item for event in events for item in (WAIT, event)])


def first_text(vendor: str, event: Any) -> bool:
    """Whether an event is the first with text."""
    if vendor == "anthropic":
        return bool(event.type == "content_block_delta")
    return bool(event.choices and event.choices[0].delta.content)


def opened(vendor: str, double: Pieces, asynchronous: bool) -> Any:
    """A stream of the official client (a coroutine for one, if asynchronous)."""

    def answer(request: Any) -> Any:
        return httpx2.Response(200, headers=SSE, stream=double)

    if vendor == "anthropic":
        return claude(answer, asynchronous).messages.create(**ASK, stream=True)
    return gpt(answer, asynchronous).chat.completions.create(
        **CHAT, stream=True, stream_options={"include_usage": True}
    )


def stop(vendor: str, double: Pieces, way: str, told: Callable[[], None]) -> None:
    """Stop a stream at its first text, in one of the ways of the case."""
    stream = opened(vendor, double, asynchronous=False)
    if way == "exception":
        with pytest.raises(Mine), stream:  # noqa: PT012 - the loop is what is left
            for event in stream:
                if first_text(vendor, event):
                    raise Mine
        return told()
    if way == "unread":
        stream.close()
        return told()
    for event in stream:
        if first_text(vendor, event):
            break
    if way == "drop":
        del stream, event
        gc.collect()
        return told()
    stream.close()
    told()
    if way == "twice":
        stream.close()
    return None


async def stop_async(vendor: str, double: Pieces, way: str, told: Callable[[], None]) -> None:
    """The same, asynchronous."""
    stream = await opened(vendor, double, asynchronous=True)
    if way == "exception":
        with pytest.raises(Mine):  # noqa: PT012 - the loop is what is left
            async with stream:
                async for event in stream:
                    if first_text(vendor, event):
                        raise Mine
        return told()
    if way == "unread":
        await stream.close()
        return told()
    async for event in stream:
        if first_text(vendor, event):
            break
    if way == "drop":
        del stream, event
        for _ in range(
            20
        ):  # the loop closes generators it finds unreachable, a layer of the SDK's at each turn
            gc.collect()
            await asyncio.sleep(0)
        return told()
    await stream.close()
    told()
    if way == "twice":
        await stream.close()
    return None


@pytest.mark.parametrize("asynchronous", [False, True])
@pytest.mark.parametrize("vendor", ["anthropic", "openai"])
@pytest.mark.parametrize("way", ["close", "drop", "exception", "unread", "twice"])
def test_11_a_stopped_stream_is_abandoned(
    way: str, vendor: str, asynchronous: bool, caplog: pytest.LogCaptureFixture
) -> None:
    """One abandoned call, at once no longer in flight, with the input that the first event told,
    and no output.
    """
    double = body(vendor)
    inflight: list[float] = []
    caplog.set_level(logging.WARNING)
    with observed() as found:
        if asynchronous:
            asyncio.run(stop_async(vendor, double, way, lambda: inflight.append(found.inflight)))
        else:
            stop(vendor, double, way, lambda: inflight.append(found.inflight))
        assert {"abandoned": 1} == found.outcomes()
        assert ([0], 0) == (inflight, found.inflight)
        assert {"ended_early": 1} == found.by(USAGE_MISSING)
        read = way != "unread"
        assert int(read) == found.samples(FIRST_TOKEN)
        if vendor == "anthropic" and read:
            assert (1, 2104) == found.tokens()[0]
            assert (0, 0) == found.tokens()[1]
            assert (4, 2000, 100) == found.parts()
            assert 3 * WAIT <= found.calls().sum
        else:
            assert {} == found.seen.points(SAMPLES)
    if way != "drop":  # nobody but the collector closes what was dropped, with or without us
        assert 1 <= double.closed
    assert double.asked <= 3  # nothing was read on
    assert [] == caplog.records
