"""How long answers take: the two modes, first tokens, and their scale."""

from __future__ import annotations

from typing import Any

import pytest

from lz_otel.lab.simulator import parse
from lz_otel.lab.simulator._provider import Provider


def waits(scenario: str, bench: Any, body: dict[str, Any] | None = None, **headers: str) -> list[float]:
    """Planned waiting times of 100 calls, ms."""
    b = bench()
    b.provider = Provider(parse(scenario), 0, b.clock)
    return [b.ask(body, x_sim_call=f"c{i}", **headers).record.waited_ms for i in range(100)]


def test_the_two_modes_of_latency(bench: Any) -> None:
    """800 to 1200 ms in full, 19 to 38 ms for a warm hit, and nothing between."""
    full = waits("", bench)
    fast = waits("[symbolic]\nenabled = true\nhit_rate = 1.0", bench)[1:]
    assert 800 <= min(full) < 840 < 1160 < max(full) <= 1200
    assert 19 <= min(fast) < 20 < 37 < max(fast) <= 38


def test_latency_is_scaled(bench: Any) -> None:
    """By one factor."""
    whole, tenth = waits("", bench), waits("[latency]\nscale = 0.1", bench)
    assert whole == pytest.approx([10 * t for t in tenth], abs=0.01)


@pytest.mark.parametrize("stream", [False, True])
def test_an_answer_takes_the_time_that_was_planned(bench: Any, stream: bool) -> None:
    """The waits of its pieces add up, and the first token of a stream comes after its share."""
    b = bench()
    b.provider = Provider(parse("[latency]\nfirst_token_share = 0.3"), 0, b.clock)
    asked = b.ask({"stream": stream})
    total = asked.answer.wait + sum(wait for wait, _ in asked.answer.pieces)
    assert total == pytest.approx(asked.record.waited_ms / 1000, rel=1e-3)
    if stream:
        first = next(i for i, (_, data) in enumerate(asked.answer.pieces) if b"content_block_delta" in data)
        reached = asked.answer.wait + sum(wait for wait, _ in asked.answer.pieces[: first + 1])
        assert reached == pytest.approx(0.3 * total, rel=1e-3)


def test_intents_have_their_own_first_token(bench: Any) -> None:
    """389 to 412 ms, as the article measures."""
    b = bench()
    b.provider = Provider(parse("[intent]\nenabled = true"), 0, b.clock)
    asked = b.ask({"stream": True}, anthropic_sampling_intent="balanced", anthropic_beta="tools-2024-08-06")
    first = asked.answer.wait + asked.answer.pieces[0][0] + asked.answer.pieces[1][0]
    assert 0.389 <= first <= 0.412
