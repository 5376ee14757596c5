"""Rate limits count down, are stated, and can be enforced."""

from __future__ import annotations

from typing import Any

import pytest

from lz_otel.lab.simulator import _limits, parse
from lz_otel.lab.simulator._limits import RateLimits, _go_duration


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
