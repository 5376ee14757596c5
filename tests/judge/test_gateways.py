"""What gateways and HTTP caches state in response headers: words, lists, and the order of trust."""

from __future__ import annotations

import pytest

from lz_otel._ground.headers import head_of
from lz_otel._judge.gateways import _QUOTED, CACHE_HEADERS, cache_reading, gateway_detours, has_statement
from lz_otel._judge.signals import TABLE


def decision_of(headers: dict[str, str]) -> str | None:
    reading = cache_reading(head_of(headers))
    return None if reading is None else reading.decision


@pytest.mark.parametrize(
    ("value", "decision"),
    [
        ("ExampleCache; hit", "hit"),
        ("Origin; fwd=uri-miss; stored, Edge; hit; ttl=30", "hit"),
        ("ExampleCache;hit;ttl=-412", "hit"),
        ("A; fwd=miss, B; fwd=vary-miss", "miss"),
        ("A; fwd=uri-miss; collapsed", "miss"),
        ("A; fwd=stale; fwd-status=200", "miss"),
        ("A; fwd=stale; fwd-status=304", "hit"),
        ("A; fwd=partial", "miss"),
        ("A; fwd=request", "bypass"),
        ("A; fwd=request, B; fwd=miss", "miss"),
        ("A; fwd=bypass", None),
        ("A; fwd=method", None),
        ("A; hit=?0", None),
        ("A", None),
        ('A; key="x; hit"', None),
        ('A; key="a\\"; hit"; fwd=miss', "miss"),
        ('A; detail="hit, B; hit"; fwd=miss', "miss"),
        ("hit", None),
        ("", None),
    ],
)
def test_cache_status(value: str, decision: str | None) -> None:
    """RFC 9211: one member with ``hit`` is enough; ``method`` and ``bypass`` say nothing."""
    assert decision_of({"cache-status": value}) == decision


@pytest.mark.parametrize(
    ("text", "parts"),
    [
        ("a;b", ["a", "b"]),
        ('a="x;y";b', ['a=""', "b"]),
        ('a="x";b="y;z";c', ['a=""', 'b=""', "c"]),
        (r'a="x\";y";b', ['a=""', "b"]),
        ('a;b="open;c', ["a", 'b=""']),
        ('"a";;b', ['""', "", "b"]),
        (";", ["", ""]),
    ],
)
def test_lists_are_split_outside_quotes(text: str, parts: list[str]) -> None:
    """A quoted string goes, with the separators in it, after an escaped quote as well."""
    assert _QUOTED.sub('""', text).split(";") == parts


ORDER = [
    ("helicone-cache", "HIT", "MISS"),
    ("cache-status", "A; hit", "A; fwd=miss"),
    ("x-cache-status", "Hit", "Miss"),
    ("x-cache", "HIT", "MISS"),
]


@pytest.mark.parametrize("first", range(3))
def test_order_of_trust(first: int) -> None:
    """The gateway's own header wins over Cache-Status, that over X-Cache-Status, that over X-Cache."""
    name, hit, miss = ORDER[first]
    below = ORDER[first + 1 :]
    assert decision_of({name: miss, **{n: h for n, h, _ in below}}) == "miss"
    assert decision_of({name: hit, **{n: m for n, _, m in below}}) == "hit"


def test_every_header_is_a_marker() -> None:
    """What is read of a store's answer is in the table of markers, so it wakes the mechanism."""
    assert {row.name for row in TABLE if row.mechanism == "response_cache"} >= CACHE_HEADERS


def test_x_cache_alone_is_marked() -> None:
    """A decision that rests on ``X-Cache`` only says so; beside a better header it does not count."""
    assert cache_reading(head_of({"x-cache": "MISS"})) == ("miss", True)
    assert cache_reading(head_of({"x-cache": "MISS", "x-cache-status": "Miss"})) == ("miss", False)


@pytest.mark.parametrize(
    ("headers", "stated"),
    [
        ({}, False),
        ({"x-cache": "MISS"}, False),
        ({"x-cache": "HIT"}, True),
        ({"helicone-cache": "MISS"}, True),
        ({"cf-aig-step": "0"}, False),
        ({"cf-aig-step": "1"}, True),
    ],
)
def test_what_counts_as_a_statement(headers: dict[str, str], stated: bool) -> None:
    """A content delivery network's ``X-Cache: MISS`` and a count of 0 state nothing."""
    assert has_statement(head_of(headers)) is stated


def test_a_reason_is_given_once() -> None:
    """Two headers that state the same detour are one reason, and a count that is none is malformed."""
    malformed: list[str] = []
    headers = {"cf-aig-step": "1", "helicone-fallback-index": "2", "ngrok-aig-attempts": "x"}
    assert (gateway_detours(head_of(headers), malformed), malformed) == (("gateway_fallback",), ["header"])
