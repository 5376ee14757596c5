"""Case 16: a second model that stepped in is counted as such, within a marked operation only."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import anthropic
import openai
import pytest

import lz_otel
from tests.casebook.bodies import ASK
from tests.casebook.helpers import (
    ATTEMPTS,
    CALLS,
    FALLBACKS,
    INPUT,
    OPERATIONS,
    claude,
    gpt,
    module_response,
    observed,
    refusal,
)
from tests.wire_doubles import A_JSON, O_JSON

OPUS, HAIKU, GPT = "claude-opus-5", "claude-haiku-5", "gpt-5"


class Chain:
    """An application that asks one model after the other until one answers.

    Args:
        down: models that are overloaded.
    """

    def __init__(self, *down: str) -> None:
        def answer(request: Any) -> Any:
            model = json.loads(request.content)["model"]
            if model in down:
                return refusal(529, "overloaded_error")(request)
            return module_response(request, 200, {**(O_JSON if model == GPT else A_JSON), "model": model})

        self.clients = {False: (claude(answer), gpt(answer)), True: (claude(answer, True), gpt(answer, True))}

    def _call(self, model: str, asynchronous: bool) -> Any:
        anthropics, openais = self.clients[asynchronous]
        if model == GPT:
            return openais.chat.completions.create(model=model, messages=[])
        return anthropics.messages.create(**{**ASK, "model": model})

    def ask(self, *models: str) -> Any:
        """The first answer; ``None`` if there is none."""
        for model in models:
            try:
                return self._call(model, asynchronous=False)
            except (anthropic.APIStatusError, openai.APIStatusError):
                continue
        raise LookupError("no model answers")

    async def ask_async(self, *models: str) -> Any:
        """The same, asynchronous."""
        for model in models:
            try:
                return await self._call(model, asynchronous=True)
            except (anthropic.APIStatusError, openai.APIStatusError):
                continue
        raise LookupError("no model answers")


def fallbacks(found: Any) -> dict[tuple[str, ...], float]:
    """FALLBACKS by from, to and reason."""
    return {labels[2:]: value for labels, value in found.seen.points(FALLBACKS).items()}


def calls(found: Any) -> dict[tuple[str, str], int]:
    """CALLS by model and ending."""
    out: dict[tuple[str, str], int] = {}
    for labels, value in found.seen.points(CALLS).items():
        key = labels[2], labels[-1]
        out[key] = out.get(key, 0) + value.count
    return out


def outcomes(found: Any) -> dict[str, int]:
    """Operations by outcome."""
    return {labels[2]: value.count for labels, value in found.seen.points(OPERATIONS).items()}


def test_16_the_second_model_answers() -> None:
    """(a): one fallback with both models and the reason;
    the failure stays with the first, tokens with the second.
    """
    with observed() as found:
        with lz_otel.operation("ticket"):
            Chain(OPUS).ask(OPUS, HAIKU)
        assert {(OPUS, HAIKU, "overloaded"): 1} == fallbacks(found)
        assert {(OPUS, "error"): 1, (HAIKU, "ok"): 1} == calls(found)
        assert {HAIKU} == set(found.by(INPUT, 2))
        assert {"fallback": 1} == outcomes(found)


def test_16_the_third_model_answers() -> None:
    """(b): each step of the chain is a fallback of its own."""
    with observed() as found:
        with lz_otel.operation("ticket"):
            Chain(OPUS, HAIKU).ask(OPUS, HAIKU, GPT)
        assert {(OPUS, HAIKU, "overloaded"): 1, (HAIKU, GPT, "overloaded"): 1} == fallbacks(found)
        assert {"fallback": 1} == outcomes(found)


@pytest.mark.parametrize("handled", [False, True])
def test_16_no_model_answers(handled: bool) -> None:
    """(c): the same steps, and the operation ended in an error,
    whether its exception is handled inside or not.
    """
    with observed() as found:
        chain = Chain(OPUS, HAIKU, GPT)
        if handled:
            with lz_otel.operation("ticket"), pytest.raises(LookupError):
                chain.ask(OPUS, HAIKU, GPT)
        else:
            with pytest.raises(LookupError), lz_otel.operation("ticket"):
                chain.ask(OPUS, HAIKU, GPT)
        assert {(OPUS, HAIKU, "overloaded"): 1, (HAIKU, GPT, "overloaded"): 1} == fallbacks(found)
        assert {"error": 1} == outcomes(found)


def test_16_the_first_model_answers() -> None:
    """(d): no fallback."""
    with observed() as found:
        with lz_otel.operation("ticket"):
            Chain().ask(OPUS, HAIKU)
        assert ({}, {"full": 1}) == (fallbacks(found), outcomes(found))


def test_16_ten_chains_at_once() -> None:
    """(e): ten tasks of one loop, five of them falling back: no pair is mixed up between them."""

    async def one(chain: Chain, first: str) -> None:
        async with lz_otel.operation("ticket"):
            await chain.ask_async(first, HAIKU)

    async def run() -> None:
        chain = Chain(OPUS)
        await asyncio.gather(*(one(chain, OPUS if i % 2 else GPT) for i in range(20)))

    with observed() as found:
        asyncio.run(run())
        assert {(OPUS, HAIKU, "overloaded"): 10} == fallbacks(found)
        assert {"fallback": 10, "full": 10} == outcomes(found)


def test_16_nothing_is_guessed_outside_an_operation() -> None:
    """(f): without marking, two calls are two calls."""
    with observed() as found:
        Chain(OPUS).ask(OPUS, HAIKU)
        assert ({}, {}) == (fallbacks(found), outcomes(found))
        assert {(OPUS, "error"): 1, (HAIKU, "ok"): 1} == calls(found)
        assert {"529": 3, "200": 1} == found.by(ATTEMPTS)


def test_16_retries_of_one_model_are_no_fallback() -> None:
    """A model that is asked again, by the SDK and by the application, has not fallen back to itself."""
    with observed() as found:
        with lz_otel.operation("ticket"), pytest.raises(LookupError):
            Chain(OPUS).ask(OPUS, OPUS)
        assert {} == fallbacks(found)


def test_16_the_share_served_by_a_fallback() -> None:
    """Operations that ended as ``fallback`` over all operations."""
    with observed() as found:
        chain = Chain(OPUS)
        for models in ((OPUS, HAIKU), (HAIKU,), (HAIKU,), (OPUS, GPT)):
            with lz_otel.operation("ticket"):
                chain.ask(*models)
        assert {"fallback": 2, "full": 2} == outcomes(found)


def test_16_counting_tokens_is_no_call_of_a_chain() -> None:
    """An operation that also counts tokens (as an application that picks a model does) is reported."""

    def answer(request: Any) -> Any:
        return module_response(request, 200, {"input_tokens": 5})

    with observed() as found:
        with lz_otel.operation("ticket"):
            claude(answer).messages.count_tokens(model=OPUS, messages=ASK["messages"])
            Chain().ask(OPUS)
        assert {"full": 1} == outcomes(found)
        assert {(OPUS, "ok"): 1} == calls(found)
