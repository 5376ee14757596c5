"""Case 10: helpers and raw responses of the SDKs are what they are, and each is one call."""

from __future__ import annotations

import asyncio
import inspect
import pickle
from typing import TYPE_CHECKING, Any

import anthropic
import openai
import pytest

from tests.casebook.bodies import ASK, CHAT
from tests.casebook.helpers import FIRST_TOKEN, claude, good, gpt, observed

if TYPE_CHECKING:
    from collections.abc import Callable

WITH_USAGE = {**CHAT, "stream_options": {"include_usage": True}}


def text_helper() -> Any:
    """1: the text stream, then what was gathered."""
    with claude(good).messages.stream(**ASK) as s:
        pieces = list(s.text_stream)
        return type(s), pieces, s.get_final_message(), s.get_final_text()


def text_helper_async() -> Any:
    """2: the same, asynchronous."""

    async def run() -> Any:
        async with claude(good, asynchronous=True).messages.stream(**ASK) as s:
            pieces = [t async for t in s.text_stream]
            return type(s), pieces, await s.get_final_message(), await s.get_final_text()

    return asyncio.run(run())


def raw_messages() -> Any:
    """3: the raw response, parsed."""
    r = claude(good).messages.with_raw_response.create(**ASK)
    return type(r), r.parse(), dict(r.headers), r.status_code, r.retries_taken


def streaming_messages() -> Any:
    """4: lines of the raw stream."""
    with claude(good).messages.with_streaming_response.create(**ASK, stream=True) as r:
        return type(r), list(r.iter_lines()), dict(r.headers)


def raw_chat() -> Any:
    """5: the raw response of a chat completion, parsed."""
    r = gpt(good).chat.completions.with_raw_response.create(**CHAT)
    return type(r), r.parse(), dict(r.headers)


def streaming_chat() -> Any:
    """6: lines of the raw stream of a chat completion."""
    with gpt(good).chat.completions.with_streaming_response.create(**WITH_USAGE, stream=True) as r:
        return type(r), list(r.iter_lines())


def chat_helper() -> Any:
    """7: the stream helper of chat completions."""
    with gpt(good).chat.completions.stream(**WITH_USAGE) as s:
        kinds = [(type(e).__name__, e.type) for e in s]
        return type(s), kinds, s.get_final_completion().model_dump()


def raw_async() -> Any:
    """3 again, asynchronous."""

    async def run() -> Any:
        r = await claude(good, asynchronous=True).messages.with_raw_response.create(**ASK)
        return type(r), await r.parse(), dict(r.headers)

    return asyncio.run(run())


ANTHROPIC = ((1, 2104), (1, 20)), (4, 2000, 100)
OPENAI = ((1, 100), (1, 30)), (20, 80, 0)
WAYS: list[tuple[Callable[[], Any], Any, int]] = [
    (text_helper, ANTHROPIC, 1),
    (text_helper_async, ANTHROPIC, 1),
    (raw_messages, ANTHROPIC, 0),
    (raw_async, ANTHROPIC, 0),
    (streaming_messages, ANTHROPIC, 1),
    (raw_chat, OPENAI, 0),
    (streaming_chat, OPENAI, 1),
    (chat_helper, OPENAI, 1),
]


@pytest.mark.parametrize(("way", "numbers", "first_tokens"), WAYS, ids=[w[0].__name__ for w in WAYS])
def test_10_every_way_is_one_call_and_unchanged(
    way: Callable[[], Any], numbers: Any, first_tokens: int
) -> None:
    """Types, values and headers are those of a run without the library;
    the call counts once, with its tokens.
    """
    bare = way()
    with observed() as found:
        assert bare == way()
        assert numbers == (found.tokens(), found.parts())
        assert {"ok": 1} == found.outcomes()
        assert first_tokens == found.samples(FIRST_TOKEN)


@pytest.mark.parametrize("asynchronous", [False, True])
def test_10_a_stream_left_without_reading_is_abandoned(asynchronous: bool) -> None:
    """8: entered as a context manager and left at once: one call, abandoned."""

    async def run() -> None:
        async with await claude(good, asynchronous=True).messages.create(**ASK, stream=True):
            pass

    with observed() as found:
        if asynchronous:
            asyncio.run(run())
        else:
            with claude(good).messages.create(**ASK, stream=True):
                pass
        assert {"abandoned": 1} == found.outcomes()
        assert 0 == found.inflight


def shapes() -> list[Any]:
    """What reflection says of the SDKs' classes."""
    out: list[Any] = []
    for module, name in ((anthropic, "Anthropic"), (openai, "OpenAI")):
        for prefix in ("", "Async"):
            cls = getattr(module, prefix + name)
            base = cls.__mro__
            out += [base, inspect.signature(cls), pickle.dumps(cls)]
            for method in ("request", "post", "get"):
                function = getattr(cls, method)
                out += [
                    inspect.signature(function),
                    inspect.iscoroutinefunction(function),
                    function.__name__,
                    function.__qualname__,
                    function.__module__,
                    function.__doc__,
                ]
    return out


def test_10_classes_look_the_same() -> None:
    """Types, signatures, names and pickles of the SDKs' classes do not change; clients are the SDK's own."""
    before = shapes()
    with observed():
        assert before == shapes()
        assert type(claude(good)) is anthropic.Anthropic
        assert type(gpt(good, asynchronous=True)) is openai.AsyncOpenAI
