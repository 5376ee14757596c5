"""Gateways that answer from their own store: every header, its words, and the order of trust."""

from __future__ import annotations

import random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lz_otel._ground.headers import head_of
from lz_otel._judge import signals
from lz_otel._judge.gateways import cache_reading, has_statement
from lz_otel._price.cost import Prices
from tests.judge.ended_calls import ended_call, make, rows, said

FALLBACKS = "lz.fast_path.fallbacks"


def fill(judge: Any) -> None:
    """Put in more than it may hold."""
    bits = random.Random(1).getrandbits
    for _ in range(12_000):
        judge._hosts.add(f"host{bits(40)}.example.com")


def one(headers: dict[str, str], **more: Any) -> tuple[str | None, str | None]:
    return said(make("response_cache").judge(ended_call({}, headers, **more)))


@pytest.mark.parametrize(
    ("header", "value", "decision"),
    [
        ("cf-aig-cache-status", "HIT", "hit"),
        ("cf-aig-cache-status", "MISS", "miss"),
        ("helicone-cache", "HIT", "hit"),
        ("helicone-cache", "MISS", "miss"),
        ("x-portkey-cache-status", "HIT", "hit"),
        ("x-portkey-cache-status", "SEMANTIC HIT", "hit"),
        ("x-portkey-cache-status", "semantic  hit", "hit"),
        ("x-portkey-cache-status", "MISS", "miss"),
        ("x-portkey-cache-status", "SEMANTIC MISS", "miss"),
        ("x-portkey-cache-status", "REFRESH", "bypass"),
        ("x-portkey-cache-status", "DISABLED", None),
        ("x-litellm-cache-key", "0123abcd", "hit"),
        ("x-litellm-cache-key", "", None),
        ("x-cache-status", "Hit", "hit"),
        ("x-cache-status", "Miss", "miss"),
        ("x-cache-status", "Bypass", "bypass"),
        ("x-cache-status", "Refresh", "miss"),
        ("x-cache-status", "EXPIRED", "miss"),
        ("x-cache-status", "STALE", "hit"),
        ("x-openrouter-cache-status", "HIT", "hit"),
        ("x-openrouter-cache-status", "MISS", "miss"),
        ("x-cache", "HIT", "hit"),
        ("x-cache", "MISS, HIT", "hit"),
        ("x-cache", "Hit from cloudfront", "hit"),
        ("x-cache", "MISS", None),
        ("x-cache", "Miss from cloudfront", None),
        ("x-cache", "RefreshHit from cloudfront", None),
        ("cf-cache-status", "DYNAMIC", None),
        ("cf-cache-status", "HIT", None),
        ("age", "30", None),
        ("x-litellm-cache-hit", "True", None),
        ("cf-aig-cache-status", "PERHAPS", None),
    ],
)
def test_each_gateway(header: str, value: str, decision: str | None) -> None:
    """What each gateway's header says, compared without case; headers that say nothing give no verdict."""
    assert one({header: value}) == (decision, None)


def test_no_header_is_no_miss() -> None:
    """Without a header nothing is said: caching may not be on."""
    assert make("response_cache").judge(ended_call({}, {"content-type": "application/json"})) is None


def own(
    headers: dict[str, str], setting: tuple[str, str] = ("x-my-cache", "hit")
) -> tuple[str | None, str | None]:
    mechanism = make("response_cache", signals=signals.load(None, setting))
    return said(mechanism.judge(ended_call({}, headers)))


@pytest.mark.parametrize(
    ("value", "decision"),
    [
        ("HIT", "hit"),
        ("hit; ttl=3", "hit"),
        ("MISS, HIT", "hit"),
        ("MISS", "miss"),
        ("BYPASS", "bypass"),
        ("maybe", None),
    ],
)
def test_own_header(value: str, decision: str | None) -> None:
    """The user's header: its value is a hit, the words miss and bypass mean themselves, the rest nothing."""
    assert own({"x-my-cache": value}) == (decision, None)


def test_own_header_wins() -> None:
    """The user's own header is trusted most; where it says nothing, the others are asked."""
    assert own({"x-my-cache": "MISS", "helicone-cache": "HIT"}) == ("miss", None)
    assert own({"x-my-cache": "?", "helicone-cache": "HIT"}) == ("hit", None)


def test_own_header_with_a_value_of_its_own() -> None:
    """With the value ``stored``, the word HIT is no hit."""
    setting = ("x-my-cache", "stored")
    assert own({"x-my-cache": "Stored"}, setting) == ("hit", None)
    assert own({"x-my-cache": "HIT"}, setting) == (None, None)


def test_x_cache_miss_counts_once_the_host_has_hit() -> None:
    """``X-Cache: MISS`` may be a pass: it is a miss only for a host that has hit before."""
    mechanism = make("response_cache")
    found = [
        said(mechanism.judge(ended_call({}, {"x-cache": value}, host=host)))[0]
        for value, host in (("MISS", "a"), ("HIT", "a"), ("MISS", "a"), ("MISS", "b"))
    ]
    assert found == [None, "hit", "miss", None]


@pytest.mark.parametrize(
    ("headers", "reasons"),
    [
        ({"cf-aig-step": "1"}, ["gateway_fallback"]),
        ({"cf-aig-step": "0"}, []),
        ({"x-litellm-attempted-fallbacks": "2"}, ["gateway_fallback"]),
        ({"x-litellm-attempted-retries": "1"}, ["gateway_retry"]),
        ({"x-litellm-attempted-retries": "0", "x-litellm-attempted-fallbacks": "0"}, []),
        ({"x-portkey-retry-attempt-count": "3"}, ["gateway_retry"]),
        ({"x-portkey-retry-attempt-count": "1"}, ["gateway_retry"]),
        ({"x-portkey-retry-attempt-count": "-1"}, ["gateway_retry"]),
        ({"x-portkey-retry-attempt-count": "0"}, []),
        ({"helicone-fallback-index": "1"}, ["gateway_fallback"]),
        ({"ngrok-aig-attempts": "2"}, ["gateway_retry"]),
        ({"ngrok-aig-attempts": "1"}, []),
        (
            {"x-litellm-attempted-retries": "1", "x-litellm-attempted-fallbacks": "1"},
            ["gateway_fallback", "gateway_retry"],
        ),
        ({"x-litellm-key-spend": "3", "x-litellm-max-fallbacks": "5"}, []),
    ],
)
def test_fallbacks_and_retries_of_the_gateway(headers: dict[str, str], reasons: list[str]) -> None:
    """The gateway's fallbacks and retries are fallbacks; the second reason is counted besides."""
    result = make("response_cache").judge(ended_call({}, headers))
    more = {(FALLBACKS, "response_cache", r): 1.0 for r in reasons[1:]}
    assert (said(result), rows(result)) == (("fallback", reasons[0]) if reasons else (None, None), more)


def test_fallback_beside_a_miss() -> None:
    """A miss that the gateway then retried is a fallback; it is told on errors as well."""
    assert one({"cf-aig-cache-status": "MISS", "cf-aig-step": "1"}) == ("fallback", "gateway_fallback")
    assert one({"x-litellm-attempted-fallbacks": "1"}, status=500) == ("fallback", "gateway_fallback")


def test_replayed_fallback_is_not_counted() -> None:
    """The stored answer of a call that had fallen back is a hit, not another fallback."""
    assert one({"helicone-cache": "HIT", "x-litellm-attempted-fallbacks": "1"}) == ("hit", None)


@pytest.mark.parametrize("value", ["x", "", "1.5", "--1", "²", "9" * 20, "-2"])
def test_bad_count_is_counted(value: str) -> None:
    """A count that is no number is malformed."""
    call = ended_call({}, {"cf-aig-step": value})
    assert (make("response_cache").judge(call), call.facts.malformed) == (None, ["header"])


def test_errors_are_no_verdict() -> None:
    """An error is neither a hit nor a miss of a store."""
    assert one({"helicone-cache": "MISS"}, status=500) == (None, None)


def test_hit_saves_what_the_stored_answer_cost() -> None:
    """The replayed usage tells what was saved; replayed zeros save nothing."""
    prices, when = Prices.load(), 1796000000.0
    call = ended_call({}, {"helicone-cache": "HIT"}, response_model="claude-sonnet-4-5")
    cost = prices.price(call.facts, when)
    mechanism = make("response_cache", prices=prices, now=lambda: when)
    assert cost is not None
    assert cost.usd > 0
    assert mechanism.judge(call).saved_usd == pytest.approx(cost.usd)
    zeros = ended_call(
        {},
        {"x-openrouter-cache-status": "HIT"},
        response_model="claude-sonnet-4-5",
        input_tokens=0,
        output_tokens=0,
    )
    assert mechanism.judge(zeros).saved_usd == 0


@given(
    st.dictionaries(
        st.sampled_from(["cache-status", "x-cache", "x-cache-status", "helicone-cache", "cf-aig-step"]),
        st.text(),
    )
)
def test_nothing_raises(headers: dict[str, str]) -> None:
    """Whatever the headers hold, nothing is raised."""
    cache_reading(head_of(headers))
    has_statement(head_of(headers))
    make("response_cache").judge(ended_call({}, headers))
