"""Case 15: the attempts of a call are seen, and they are one call."""

from __future__ import annotations

import threading
from typing import Any

import anthropic
import httpx2
import pytest

import lz_otel
from tests.casebook.bodies import ASK, MESSAGES_URL
from tests.casebook.helpers import (
    ATTEMPTS,
    RETRIES,
    claude,
    good,
    in_turn,
    json_body,
    observed,
    refusal,
    settle,
)
from tests.wire_doubles import A_JSON, transport

BACK_OFF = 40  # ms; the case has 200


@pytest.mark.parametrize("asynchronous", [False, True])
def test_15_two_refusals_and_an_answer_are_one_good_call(asynchronous: bool) -> None:
    """429, 529, 200: one ``ok``, the back-off inside its duration, and what each attempt came to."""
    answer = in_turn(
        refusal(429, "rate_limit_error", BACK_OFF), refusal(529, "overloaded_error", BACK_OFF), good
    )
    with observed() as found:
        settle(claude(answer, asynchronous).messages.create(**ASK))
        assert {"ok": 1} == found.outcomes()
        assert {"429": 1, "529": 1, "200": 1} == found.by(ATTEMPTS)
        assert {"429": 1, "529": 1} == found.by(RETRIES)
        assert ((1, 2104), (1, 20)) == found.tokens()
        assert found.calls().sum >= 2 * BACK_OFF / 1000


@pytest.mark.parametrize(("options", "retries"), [({}, 2), ({"max_retries": 0}, 0)])
def test_15_refused_for_good(options: dict[str, Any], retries: int) -> None:
    """529 always: one failed call, with as many retries as the SDK made."""
    with observed() as found:
        with pytest.raises(anthropic.APIStatusError):
            claude(refusal(529, "overloaded_error"), **options).messages.create(**ASK)
        assert {"error": 1} == found.outcomes()
        assert {"529": retries + 1} == found.by(ATTEMPTS)
        assert retries == found.seen.value(RETRIES)


def test_15_a_stream_at_the_second_attempt() -> None:
    """500 and then a stream: one good call with one retry."""
    with observed() as found:
        settle(claude(in_turn(refusal(500, "api_error"), good)).messages.create(**ASK, stream=True))
        assert {"ok": 1} == found.outcomes()
        assert ({"500": 1, "200": 1}, {"500": 1}) == (found.by(ATTEMPTS), found.by(RETRIES))


def test_15_what_is_not_retried_is_no_retry() -> None:
    """A 400 is one attempt."""
    with observed() as found:
        with pytest.raises(anthropic.BadRequestError):
            claude(refusal(400, "invalid_request_error")).messages.create(**ASK)
        assert ({"400": 1}, 0) == (found.by(ATTEMPTS), found.seen.value(RETRIES))
        assert {"invalid_request_error": 1} == found.errors()


@pytest.mark.parametrize("sdk", [True, False])
def test_15_a_redirect_is_no_retry(sdk: bool) -> None:
    """A 307 to the same host is two attempts of one call, and no retry."""

    def answer(request: Any) -> Any:
        if request.url.path == "/v1/messages":
            return httpx2.Response(307, headers={"location": "/v2/messages"})
        return httpx2.Response(200, json=A_JSON)

    with observed() as found:
        http = httpx2.Client(transport=transport(httpx2, answer), follow_redirects=True)
        if sdk:
            claude(None, http_client=http).messages.create(**ASK)
        else:
            lz_otel.instrument_client(http)
            assert 200 == http.post(MESSAGES_URL, json=ASK).status_code
        assert {"ok": 1} == found.outcomes()
        assert 0 == found.seen.value(RETRIES)
        assert {"3xx": 1, "200": 1} == found.by(ATTEMPTS)


def test_15_two_calls_at_once_are_not_mixed_up() -> None:
    """Each of two threads gets a refusal and then an answer: two calls, two retries."""
    both = threading.Barrier(2, timeout=10)
    refused = threading.local()

    def answer(request: Any) -> Any:
        both.wait()
        if getattr(refused, "already", False):
            return httpx2.Response(200, json=A_JSON)
        refused.already = True
        return refusal(529, "overloaded_error")(request)

    with observed() as found:
        client = claude(answer)
        threads = [threading.Thread(target=client.messages.create, kwargs=ASK) for _ in range(2)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert {"ok": 2} == found.outcomes()
        assert ({"529": 2, "200": 2}, {"529": 2}) == (found.by(ATTEMPTS), found.by(RETRIES))


def test_15_the_same_prompt_again_is_another_call() -> None:
    """Two equal prompts in a row are two calls, not a retry."""
    with observed() as found:
        client = claude(json_body(A_JSON))
        client.messages.create(**ASK)
        client.messages.create(**ASK)
        assert ({"ok": 2}, 0) == (found.outcomes(), found.seen.value(RETRIES))
