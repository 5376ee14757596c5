"""Case 13: an error event inside a 200 is the same failure as an error status."""

from __future__ import annotations

import json
from typing import Any

import anthropic
import openai
import pytest

from lz_otel import testing
from tests.casebook.bodies import ASK, CHAT
from tests.casebook.helpers import (
    ATTEMPTS,
    CALLS,
    RETRIES,
    USAGE_MISSING,
    claude,
    gpt,
    helper_events,
    observed,
    refusal,
    settle,
    stream,
)
from tests.wire_doubles import a_full, o_full, sse

ERROR = sse({"type": "error", "error": {"type": "overloaded_error", "message": "Overloaded PROMPT"}})


@pytest.mark.parametrize("asynchronous", [False, True])
@pytest.mark.parametrize("way", ["create", "stream"])
@pytest.mark.parametrize("before", [3, 0])
def test_13_an_error_event_is_the_providers_error(before: int, way: str, asynchronous: bool) -> None:
    """A 200 that turns into ``overloaded_error``, late or at once:
    an error by that name, from one attempt of 200.
    """
    with observed() as found:
        client = claude(stream([*a_full()[:before], ERROR]), asynchronous)
        with pytest.raises(anthropic.APIStatusError) as caught:
            helper_events(client, **ASK) if way == "stream" else settle(
                client.messages.create(**ASK, stream=True)
            )
        assert 200 == caught.value.status_code
        assert ({"error": 1}, {"overloaded_error": 1}) == (found.outcomes(), found.errors())
        assert ({"200": 1}, {}) == (found.by(ATTEMPTS), found.by(RETRIES))
        if before:
            assert ((1, 2104), (0, 0)) == found.tokens()
            assert (4, 2000, 100) == found.parts()
        assert {"ended_early": 1} == found.by(USAGE_MISSING)
        assert 0 == found.inflight
        assert "PROMPT" not in str([found.seen.points(m.name) for m in found.seen.store.metrics])


def test_13_the_status_of_overload() -> None:
    """529 three times: one failed call of the same error type, three attempts, two retries."""
    with observed() as found:
        with pytest.raises(anthropic.APIStatusError):
            claude(refusal(529, "overloaded_error")).messages.create(**ASK)
        assert ({"error": 1}, {"overloaded_error": 1}) == (found.outcomes(), found.errors())
        assert ({"529": 3}, {"529": 2}) == (found.by(ATTEMPTS), found.by(RETRIES))


def test_13_an_error_chunk_of_openai() -> None:
    """OpenAI's error inside a stream carries its own type."""
    error = (
        b"data: " + json.dumps({"error": {"message": "boom", "type": "server_error", "code": "x"}}).encode()
    )
    with observed() as found:
        with pytest.raises(openai.APIError):
            settle(gpt(stream([*o_full()[:2], error + b"\n\n"])).chat.completions.create(**CHAT, stream=True))
        assert ({"error": 1}, {"server_error": 1}) == (found.outcomes(), found.errors())


def test_13_one_query_counts_all_overloads() -> None:
    """Late, at once, by status: one label value finds the three."""
    answers: list[Any] = [stream([*a_full()[:3], ERROR]), stream([ERROR]), refusal(529, "overloaded_error")]
    with testing.capture(strict=True) as seen:
        for answer in answers:
            with pytest.raises(anthropic.APIStatusError):
                settle(claude(answer).messages.create(**ASK, stream=True))
        assert 3 == seen.value(CALLS, error_type="overloaded_error", lz_ending="error")
        assert 3 == seen.value(CALLS)
