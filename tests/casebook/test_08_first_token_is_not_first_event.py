"""Case 08: the first event comes when the request is accepted,
the first token when there is something to read.
"""

from __future__ import annotations

import time
from typing import Any

import pytest

from tests.casebook.bodies import ASK, CHAT
from tests.casebook.helpers import (
    FIRST_CHUNK,
    FIRST_TOKEN,
    claude,
    gpt,
    module_response,
    observed,
    settle,
    stream,
)
from tests.wire_doubles import A_JSON, a_full, o_full

# The waits of the case, a fifth of them: before the first event, the first token, the rest
W1, W2, W3 = 0.01, 0.12, 0.06


def anthropic_pieces() -> list[Any]:
    """Event 1; events 2 and 3; the rest."""
    e = a_full()
    return [W1, e[0], W2, e[1] + e[2], W3, b"".join(e[3:])]


def openai_pieces() -> list[Any]:
    """The role chunk; ``a``; the rest."""
    e = o_full()
    return [W1, e[0], W2, e[1], W3, b"".join(e[2:])]


def the_three(found: Any) -> tuple[float, float, float]:
    """Sums of first chunk, first token and duration, of which there is one sample each."""
    histograms = [found.seen.histogram(FIRST_CHUNK), found.seen.histogram(FIRST_TOKEN), found.calls()]
    assert [1, 1, 1] == [h.count for h in histograms]
    return histograms[0].sum, histograms[1].sum, histograms[2].sum


@pytest.mark.parametrize("asynchronous", [False, True])
@pytest.mark.parametrize("vendor", ["anthropic", "openai"])
def test_08_three_times_of_a_stream(vendor: str, asynchronous: bool) -> None:
    """First chunk, first token and duration lie where the waits put them, never before."""
    with observed() as found:
        if vendor == "anthropic":
            settle(claude(stream(anthropic_pieces()), asynchronous).messages.create(**ASK, stream=True))
        else:
            client = gpt(stream(openai_pieces()), asynchronous)
            settle(client.chat.completions.create(**CHAT, stream=True))
        chunk, token, whole = the_three(found)
        assert W1 <= chunk <= token - W2
        assert token <= whole - W3


def test_08_a_plain_call_has_no_first_token() -> None:
    """What is not streamed has a duration, and neither first chunk nor first token."""

    def answer(request: Any) -> Any:
        time.sleep(0.1)
        return module_response(request, 200, A_JSON)

    with observed() as found:
        claude(answer).messages.create(**ASK)
        assert found.calls().sum >= 0.1
        assert (0, 0) == (found.samples(FIRST_CHUNK), found.samples(FIRST_TOKEN))


def test_08_the_readers_own_time_after_the_end_is_not_the_providers() -> None:
    """A consumer that sleeps after the last event adds nothing to the duration."""
    with observed() as found:
        for event in claude(stream(anthropic_pieces())).messages.create(**ASK, stream=True):
            if event.type == "message_stop":
                time.sleep(1)
        _, _, whole = the_three(found)
        assert whole >= W1 + W2 + W3
        assert whole < 1
