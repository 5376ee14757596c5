"""Article 000: the header decides; everything else is evidence."""

from __future__ import annotations

import random
from typing import Any

import pytest

from lz_otel._price.cost import Prices
from lz_otel.model import Facts
from tests.judge.ended_calls import MODEL, body, ended_call, make, rows, said

ZERO = {"x-anthropic-layer": "zero", "x-anthropic-zero-latency": "21"}
E = "lz.symbolic.evidence"


def fill(judge: Any) -> None:
    """Put in more than it may hold."""
    bits = random.Random(1).getrandbits
    for _ in range(12_000):
        judge._hits.add(bits(63))


def test_header_makes_a_hit() -> None:
    """``x-anthropic-layer: zero`` on a success is a hit, whatever else is said."""
    assert said(make("symbolic").judge(ended_call({}, ZERO, output_tokens=0))) == ("hit", None)


@pytest.mark.parametrize("value", ["one", "", "zeros"])
def test_other_values_are_no_hit(value: str) -> None:
    """Only the value ``zero`` makes a hit; another success of a Claude call is a miss."""
    assert said(make("symbolic").judge(ended_call({}, {"x-anthropic-layer": value}))) == ("miss", None)


def test_engine_time_is_milliseconds() -> None:
    """``x-anthropic-zero-latency`` is in milliseconds and reported in seconds."""
    result = make("symbolic").judge(ended_call({}, ZERO, output_tokens=0))
    assert result.verdict.engine_seconds == pytest.approx(0.021)


@pytest.mark.parametrize("text", ["fast", "nan", "inf", "-1", "1_0", "9" * 400])
def test_bad_engine_time_is_counted(text: str) -> None:
    """An engine time that is no finite non-negative number is malformed and leaves the hit standing."""
    call = ended_call({}, {**ZERO, "x-anthropic-zero-latency": text}, output_tokens=0)
    result = make("symbolic").judge(call)
    assert (result.verdict.decision, result.verdict.engine_seconds, call.facts.malformed) == (
        "hit",
        None,
        ["header"],
    )


def test_zero_output_alone_is_evidence_only() -> None:
    """No header, 0 output tokens and content: a miss, counted as evidence."""
    result = make("symbolic").judge(ended_call({}, {}, output_tokens=0))
    assert (said(result), rows(result)) == (("miss", None), {(E, "zero_output"): 1.0})


def test_pre_warm_is_no_evidence() -> None:
    """A cache pre-warm (``max_tokens: 0``, no content) never counts as evidence."""
    mechanism = make("symbolic")
    empty = ended_call({}, {}, request=body(max_tokens=0), output_tokens=0, answer="")
    odd = ended_call({}, {}, request=body(max_tokens=0), output_tokens=0)
    assert (rows(mechanism.judge(empty)), rows(mechanism.judge(odd))) == ({}, {})


def test_unfinished_usage_is_no_evidence() -> None:
    """Output tokens that the provider has not stated to the end are no evidence."""
    assert rows(make("symbolic").judge(ended_call({}, {}, ending="abandoned", output_tokens=0))) == {}


def test_hit_with_output_is_a_contradiction() -> None:
    """A header hit with billed output tokens is counted as a contradiction."""
    result = make("symbolic").judge(ended_call({}, ZERO, output_tokens=1))
    assert (said(result), rows(result)) == (("hit", None), {(E, "header"): 1.0, (E, "contradiction"): 1.0})


def test_contradiction_is_logged_once(caplog: pytest.LogCaptureFixture) -> None:
    """A contradiction is counted each time and logged once, without anything of the call."""
    mechanism = make("symbolic")
    found = [rows(mechanism.judge(ended_call({}, ZERO, output_tokens=7))) for _ in range(3)]
    assert [f[E, "contradiction"] for f in found] == [1.0, 1.0, 1.0]
    assert len(caplog.records) == 1
    assert MODEL not in caplog.text


@pytest.mark.parametrize(("off", "match"), [(0, True), (3, True), (-3, True), (4, False), (-4, False)])
def test_input_match_within_three_tokens(off: int, match: bool) -> None:
    """The client's own count of the same content corroborates when it is within 3 tokens."""
    mechanism = make("symbolic")
    counting = ended_call(request={k: v for k, v in body().items() if k != "max_tokens"})
    counting.facts.operation, counting.facts.counted_tokens = "count_tokens", 100 + off
    mechanism.counted.remember(counting)
    found = rows(mechanism.judge(ended_call({}, ZERO, output_tokens=0)))
    assert found == {(E, s): 1.0 for s in ("header", "zero_output", *(["input_match"] if match else []))}


def test_no_count_no_match() -> None:
    """Without a count of the same content nothing is guessed."""
    mechanism = make("symbolic")
    counting = ended_call(request=body("Another text."))
    counting.facts.operation, counting.facts.counted_tokens = "count_tokens", 100
    mechanism.counted.remember(counting)
    assert (E, "input_match") not in rows(mechanism.judge(ended_call({}, ZERO, output_tokens=0)))


def test_cold_is_the_first_hit_of_a_request() -> None:
    """The first hit of a fingerprint is cold, later ones are warm, another request is cold again."""
    mechanism = make("symbolic")
    same = [mechanism.judge(ended_call({}, ZERO, output_tokens=0)).verdict.cold for _ in range(3)]
    other = mechanism.judge(ended_call({}, ZERO, request=body("Other."), output_tokens=0)).verdict.cold
    assert (same, other) == ([True, False, False], True)


def test_errors_and_other_models_say_nothing() -> None:
    """No verdict on an error, nor on a model that is no Claude."""
    mechanism = make("symbolic")
    assert mechanism.judge(ended_call({}, ZERO, status=500)) is None
    assert mechanism.judge(ended_call({}, {}, provider="openai", request_model="gpt-5")) is None


def test_price_rule() -> None:
    """A hit costs 1/5 of the input price and no output (A): 4/5 of the input is saved."""
    prices = Prices.load()
    result = make("symbolic", prices=prices, now=lambda: 1796000000.0).judge(
        ended_call({}, ZERO, output_tokens=0, input_tokens=1000, response_model="claude-sonnet-4-5")
    )
    facts = Facts("anthropic", "chat", inference=True, llm_call=True)
    facts.response_model = "claude-sonnet-4-5"
    full = prices.input_price(facts, 1796000000.0, 1000)
    assert full is not None
    assert result.saved_usd == pytest.approx(full * 0.8)


def test_memory_is_bounded() -> None:
    """However many distinct requests hit, a bounded number of digests is held."""
    mechanism = make("symbolic")
    mechanism._hits.max_entries = 50
    for n in range(200):
        mechanism.judge(ended_call({}, ZERO, request=body(f"{MODEL} {n}"), output_tokens=0))
    assert len(mechanism._hits) == 50
