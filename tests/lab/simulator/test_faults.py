"""Faults come at their rate and in the shapes of the vendors."""

from __future__ import annotations

from typing import Any

import pytest


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
