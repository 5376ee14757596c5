"""Case 14: the calls that fail in transport are counted, by kinds from a closed list."""

from __future__ import annotations

from typing import Any

import anthropic
import httpx
import httpx2
import openai
import pytest

import lz_otel
from lz_otel import catalogue
from tests.casebook.bodies import ASK, CHAT, CHAT_URL
from tests.casebook.helpers import (
    ATTEMPTS,
    CALLS,
    FIRST_CHUNK,
    RETRIES,
    claude,
    good,
    gpt,
    observed,
    settle,
    stream,
)
from tests.wire_doubles import a_full, transport

SECRET = "10.1.2.3:4567 refused"


@pytest.fixture(autouse=True)
def _short_back_off(monkeypatch: pytest.MonkeyPatch) -> None:
    """The SDKs wait half a second and more before they try again; here a tenth of it."""
    for module in (anthropic, openai):
        monkeypatch.setattr(module._base_client, "INITIAL_RETRY_DELAY", 0.05)


def failing(error: str, wait: float = 0.0) -> Any:
    """A transport that raises on each attempt, in the package of the request."""

    def answer(request: Any) -> Any:
        import importlib
        import time

        time.sleep(wait)
        module = importlib.import_module(type(request).__module__.partition(".")[0])
        return getattr(module, error)(SECRET, request=request)

    return answer


@pytest.mark.parametrize("asynchronous", [False, True])
@pytest.mark.parametrize(
    ("error", "status"),
    [("ConnectError", "connect_error"), ("ReadTimeout", "read_timeout"), ("PoolTimeout", "pool_timeout")],
)
def test_14_three_failed_attempts_are_one_failed_call(error: str, status: str, asynchronous: bool) -> None:
    """Connection, provider's timeout and our own pool are told apart;
    the back-off is part of the duration.
    """
    with observed() as found:
        with pytest.raises(anthropic.APIConnectionError):
            settle(claude(failing(error, 0.02), asynchronous).messages.create(**ASK))
        assert ({"error": 1}, {error: 1}) == (found.outcomes(), found.errors())
        assert ({status: 3}, {status: 2}) == (found.by(ATTEMPTS), found.by(RETRIES))
        assert found.calls().sum >= 3 * 0.02 + 2 * 0.05 * 0.75  # the SDK takes up to a quarter off as jitter
        assert 0 == found.inflight
        assert status in catalogue.STATUSES
        assert not any("10.1.2.3" in str(found.seen.points(m.name)) for m in found.seen.store.metrics)


def test_14_a_timeout_and_then_an_answer() -> None:
    """The call is good, and the timeout is seen among its attempts."""
    answers = [failing("ReadTimeout"), good]

    def answer(request: Any) -> Any:
        return (answers.pop(0) if len(answers) > 1 else answers[0])(request)

    with observed() as found:
        claude(answer).messages.create(**ASK)
        assert {"ok": 1} == found.outcomes()
        assert ({"read_timeout": 1, "200": 1}, {"read_timeout": 1}) == (found.by(ATTEMPTS), found.by(RETRIES))


def test_14_a_stream_cut_by_the_transport() -> None:
    """A protocol error after three events is an error; the input told by the first event counts."""
    error = httpx2.RemoteProtocolError(SECRET)
    with observed() as found:
        with pytest.raises(httpx2.RemoteProtocolError):
            settle(claude(stream([*a_full()[:3], error])).messages.create(**ASK, stream=True))
        assert ({"error": 1}, {"RemoteProtocolError": 1}) == (found.outcomes(), found.errors())
        assert ((1, 2104), (0, 0)) == found.tokens()
        assert (4, 2000, 100) == found.parts()
        assert 1 == found.samples(FIRST_CHUNK)


@pytest.mark.parametrize(
    "error", ["ReadTimeout", "ConnectTimeout", "WriteError", "RemoteProtocolError", "ProxyError"]
)
def test_14_both_packages_give_the_same_labels(error: str) -> None:
    """The same failure has the same labels through httpx and httpx2."""
    sets = []
    for module in (httpx, httpx2):
        with observed() as found:
            client = module.Client(transport=transport(module, failing(error)))
            lz_otel.instrument_client(client)
            with pytest.raises(getattr(module, error)):
                client.post(CHAT_URL, json=CHAT)
            sets.append((list(found.seen.points(CALLS)), found.seen.points(ATTEMPTS)))
    assert sets[0] == sets[1]


@pytest.mark.parametrize("module", [httpx2, httpx], ids=lambda m: m.__name__)
def test_14_the_same_through_openai(module: Any) -> None:
    """(f): OpenAI's SDK on either package: the same failure, the same labels."""
    with observed() as found:
        http = module.Client(transport=transport(module, failing("ReadTimeout", 0.02)))
        with pytest.raises(openai.APIConnectionError):
            gpt(None, http_client=http).chat.completions.create(**CHAT)
        assert ({"error": 1}, {"ReadTimeout": 1}) == (found.outcomes(), found.errors())
        assert ({"read_timeout": 3}, {"read_timeout": 2}) == (found.by(ATTEMPTS), found.by(RETRIES))
