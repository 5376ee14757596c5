"""Draws, faults, latencies and rate limits."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lz_otel.lab.simulator import _limits, parse
from lz_otel.lab.simulator._draw import Draw
from lz_otel.lab.simulator._limits import RateLimits, _go_duration
from lz_otel.lab.simulator._provider import Provider


@given(st.integers(), st.text(max_size=20), st.text(max_size=20))
def test_a_draw_is_a_function_of_seed_key_and_name(seed: int, key: str, name: str) -> None:
    """Drawn twice, in any order, it is the same, and within [0, 1)."""
    one, two = Draw(seed, key), Draw(seed, key)
    two.unit("something else")
    assert one.unit(name) == two.unit(name)
    assert 0.0 <= one.unit(name) < 1.0


def test_draws_are_spread_evenly() -> None:
    """A tenth of them falls into each tenth."""
    counts = [0] * 10
    for i in range(5000):
        counts[int(Draw(1, f"c{i}").unit("x") * 10)] += 1
    assert all(400 < c < 600 for c in counts)


@given(st.lists(st.floats(0, 10), min_size=1, max_size=6).filter(lambda w: sum(w) > 0))
def test_weights(weights: list[float]) -> None:
    """A choice is always one that has a weight."""
    index = Draw(0, str(weights)).weighted("w", weights)
    assert weights[index] > 0


@pytest.mark.parametrize(
    ("kind", "status"),
    [
        ("overloaded", 529),
        ("rate_limited", 429),
        ("server_error", 500),
        ("unavailable", 503),
        ("bad_gateway", 502),
    ],
)
def test_faults_come_at_their_rate(bench: Any, kind: str, status: int) -> None:
    """About a fifth of the attempts, when told so; the rest is answered."""
    b = bench(f"[faults]\n{kind} = 0.2")
    seen = [b.ask(x_sim_call=f"c{i}").status for i in range(500)]
    assert {200, status} == set(seen)
    assert 0.14 <= seen.count(status) / 500 <= 0.26


def test_kinds_of_faults_do_not_overlap(bench: Any) -> None:
    """Each attempt has at most one, and the shares add up."""
    b = bench("[faults]\noverloaded = 0.5\nrate_limited = 0.5")
    assert {529, 429} == {b.ask(x_sim_call=f"c{i}").status for i in range(100)}


@pytest.mark.parametrize(
    ("form", "headers"),
    [
        ("ms", {"retry-after-ms": "1500"}),
        ("seconds", {"retry-after": "1.5"}),
        ("both", {"retry-after-ms": "1500", "retry-after": "1.5"}),
        ("none", {}),
    ],
)
def test_retry_after_in_each_form(bench: Any, form: str, headers: dict[str, str]) -> None:
    """Milliseconds, seconds, both or neither."""
    asked = bench(f"[faults]\nretry_after = '{form}'\nretry_after_ms = 1500").ask(x_sim_force="fault=529")
    assert headers == {k: v for k, v in asked.headers.items() if k.startswith("retry-after")}


def test_stream_faults_spare_plain_answers(bench: Any) -> None:
    """There is nothing to break in them."""
    asked = bench().ask(x_sim_force="fault=stream_error")
    assert (200, "") == (asked.status, asked.record.fault)


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


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(0, b"0ms"), (0.0123, b"12ms"), (1, b"1s"), (2.5, b"2.5s"), (360, b"6m0s"), (3723.5, b"62m3.5s")],
)
def test_durations_in_gos_form(seconds: float, text: bytes) -> None:
    """As OpenAI writes them."""
    assert text == _go_duration(seconds)


def test_windows_fill_up_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """Half a minute gives half of the limit back, never more than all."""
    now = 1000.0
    monkeypatch.setattr(_limits.time, "time", lambda: now)
    limits = parse("[limits]\nrequests = 100\ninput_tokens = 60000").at(0).limits
    windows = RateLimits()

    def left(tokens: int) -> tuple[int, int]:
        headers = dict(windows.anthropic(limits, "k", tokens, 0))
        return (
            int(headers[b"anthropic-ratelimit-requests-remaining"]),
            int(headers[b"anthropic-ratelimit-input-tokens-remaining"]),
        )

    assert (99, 10_000) == left(50_000)
    now += 30
    assert (99, 40_000) == left(0)
    now += 600
    assert (99, 60_000) == left(0)


def test_limits_can_be_enforced(bench: Any) -> None:
    """The request too many is refused, with the time until the next is allowed."""
    b = bench("[limits]\nrequests = 2\nenforce = true")
    seen = [b.ask() for _ in range(3)]
    assert [200, 200, 429] == [a.status for a in seen]
    assert 0 < int(seen[2].headers["retry-after-ms"]) <= 30_001


def test_cache_reads_do_not_count(bench: Any, long_text: str) -> None:
    """Against the limit of input tokens, as documented."""
    system = [{"type": "text", "text": long_text, "cache_control": {"type": "ephemeral"}}]
    b = bench("[limits]\ninput_tokens = 100000")
    left = [
        int(b.ask({"system": system}).headers["anthropic-ratelimit-input-tokens-remaining"]) for _ in range(4)
    ]
    assert left[0] <= 98_000
    assert left[3] >= left[0] - 1000
