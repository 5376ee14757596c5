"""Case 06: when the application's own cache answers, no provider was called."""

from __future__ import annotations

import threading
from typing import Any

import lz_otel
from tests.casebook.bodies import ASK
from tests.casebook.helpers import ATTEMPTS, CALLS, COST, FAST_PATH, FIRST_TOKEN, claude, good, observed


class Cached:
    """An application with a dictionary as its cache."""

    def __init__(self, client: Any) -> None:
        self.client = client
        self.kept: dict[str, Any] = {}

    def ask(self, prompt: str) -> Any:
        """The kept answer, or a new one."""
        hit = prompt in self.kept
        lz_otel.record_response_cache(hit=hit)
        if not hit:
            self.kept[prompt] = self.client.messages.create(
                model="claude-opus-5", max_tokens=10, messages=[{"role": "user", "content": prompt}]
            )
        return self.kept[prompt]


def test_06_hits_cost_nothing_and_move_no_other_rate() -> None:
    """One miss that calls, four hits (one from a thread, one while a call is in flight):
    one call, billed once.
    """
    with observed() as found:
        application = Cached(claude(good))
        first = application.ask("x")
        assert [first] * 2 == [application.ask("x") for _ in range(2)]
        thread = threading.Thread(target=application.ask, args=("x",))
        thread.start()
        thread.join()
        cost = found.seen.value(COST)
        assert 1 == found.calls().count
        assert {"200": 1} == found.by(ATTEMPTS)
        assert ((1, 2104), (1, 20)) == found.tokens()
        assert cost > 0
        flight = claude(good).messages.create(**ASK, stream=True)
        next(flight)
        application.ask("x")
        assert 1 == found.inflight
        assert (1, cost) == (found.calls().count, found.seen.value(COST))
        list(flight)
        verdicts = {k[5:]: v for k, v in found.seen.points(FAST_PATH).items()}
        assert (1, 4) == (verdicts["response_cache", "miss"], verdicts["response_cache", "hit"])
        assert ((2, 4208), (2, 40)) == found.tokens()
        assert 1 == found.samples(FIRST_TOKEN)  # of the stream
        assert (8, 4000, 200) == found.parts()  # the prompt cache's rate is that of the two real calls


def test_06_hits_alone_are_no_calls() -> None:
    """A hit makes no sample of a duration, no attempt, no token, no money."""
    with observed() as found:
        lz_otel.record_response_cache(hit=True, model="claude-opus-5", provider="anthropic")
        assert 1 == found.seen.value(FAST_PATH, mechanism="response_cache", verdict="hit")
        assert ({}, {}, {}) == tuple(found.seen.points(m) for m in (CALLS, ATTEMPTS, COST))


def test_06_reporting_before_instrument_is_a_no_op() -> None:
    """An application may report whether it is observed or not."""
    lz_otel.uninstrument()
    assert [None, None] == [lz_otel.record_response_cache(hit=h) for h in (True, False)]
