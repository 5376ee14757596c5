"""Case 07: cached tokens and cache writes have prices of their own."""

from __future__ import annotations

import socket
from typing import TYPE_CHECKING, Any

import pytest

from tests.casebook.bodies import ASK, CHAT
from tests.casebook.helpers import COST, UNPRICED, claude, gpt, json_body, observed, settle, stream
from tests.wire_doubles import A_JSON, O_JSON, U, a_full

if TYPE_CHECKING:
    from pathlib import Path

PRICES = """
[[model]]
ids = ["claude-opus-5"]
input = 10
output = 50
cache_read = 1
cache_write_5m = 12.5
cache_write_1h = 20

[[model]]
ids = ["gpt-5"]
input = 2
output = 16
cache_read = 0.2
"""


@pytest.fixture
def prices(tmp_path: Path) -> str:
    """The prices of the case."""
    path = tmp_path / "prices.toml"
    path.write_text(PRICES)
    return str(path)


BY_LIFETIME = {**U(20), "cache_creation": {"ephemeral_5m_input_tokens": 60, "ephemeral_1h_input_tokens": 40}}
CASES = {
    "a": (
        lambda: claude(json_body(A_JSON)).messages.create(**ASK),
        4 * 10e-6 + 2000 * 1e-6 + 100 * 12.5e-6 + 20 * 50e-6,
    ),
    "b": (
        lambda: claude(json_body({**A_JSON, "usage": BY_LIFETIME})).messages.create(**ASK),
        0.00004 + 0.002 + 60 * 12.5e-6 + 40 * 20e-6 + 0.001,
    ),
    "c": (
        lambda: gpt(json_body(O_JSON)).chat.completions.create(**CHAT),
        20 * 2e-6 + 80 * 0.2e-6 + 30 * 16e-6,
    ),
    "d": (lambda: settle(claude(stream(a_full())).messages.create(**ASK, stream=True)), 0.00429),
}


@pytest.mark.parametrize("name", CASES)
def test_07_each_part_at_its_own_price(name: str, prices: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Uncached, read, written for five minutes or an hour, and output: each once;
    no network is asked for prices.
    """
    call, usd = CASES[name]

    def refused(*arguments: Any) -> None:
        raise AssertionError(arguments)

    monkeypatch.setattr(socket.socket, "connect", refused)
    with observed(prices=prices) as found:
        call()
        assert found.seen.value(COST) == pytest.approx(usd, rel=0, abs=1e-12)
        assert 0 == found.seen.value(UNPRICED)


def test_07_the_sum_over_labels_is_the_bill(prices: str) -> None:
    """Calls of several models add up."""
    with observed(prices=prices) as found:
        for call, _ in CASES.values():
            call()
        assert found.seen.value(COST) == pytest.approx(
            sum(usd for _, usd in CASES.values()), rel=0, abs=1e-12
        )
        assert {"claude-opus-5", "gpt-5"} == set(found.by(COST, 2))


def test_07_a_model_without_a_price_is_said(prices: str) -> None:
    """Nothing is invented: the call counts as unpriced, and no money of 0 is recorded."""
    body = {**A_JSON, "model": "nobody-knows-1"}
    with observed(prices=prices) as found:
        claude(json_body(body)).messages.create(**{**ASK, "model": "nobody-knows-1"})
        assert (1, {}) == (found.seen.value(UNPRICED), found.seen.points(COST))
