"""Gateways answer from their own cache, with the headers that their documentation names."""

from __future__ import annotations

import json
from typing import Any

import pytest

from lz_otel.lab.simulator._gateway import zero_usage

ASKING = {
    "helicone": {"helicone_cache_enabled": "true"},
    "openrouter": {"x_openrouter_cache": "true"},
    "portkey": {"x_portkey_config": '{"cache": {"mode": "simple"}}'},
}
# Gateway, header, value of a miss, values of a hit.
TABLE = [
    ("cloudflare", "cf-aig-cache-status", "MISS", {"HIT"}),
    ("helicone", "helicone-cache", "MISS", {"HIT"}),
    ("portkey", "x-portkey-cache-status", "MISS", {"HIT"}),
    ("kong", "x-cache-status", "Miss", {"Hit"}),
    ("openrouter", "x-openrouter-cache-status", "MISS", {"HIT"}),
    ("fastly", "x-cache", "MISS", {"HIT", "MISS, HIT", "HIT, HIT"}),
    (
        "rfc9211",
        "cache-status",
        "Edge; fwd=uri-miss; stored",
        {"Edge; hit; ttl=300", "Origin; fwd=uri-miss; stored, Edge; hit; ttl=300"},
    ),
    ("own", "x-my-cache", "MISS", {"HIT"}),
]


def gateway(name: str, more: str = "") -> str:
    """TOML of a gateway."""
    return f'[gateway]\nname = "{name}"\n{more}'


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize(("name", "header", "miss", "hits"), TABLE)
def test_the_second_call_is_a_hit(
    bench: Any, name: str, header: str, miss: str, hits: set[str], stream: bool
) -> None:
    """The same body again is answered from the store, with the gateway's header."""
    b = bench(gateway(name))
    first, second = (b.ask({"stream": stream}, **ASKING.get(name, {})) for _ in range(2))
    assert miss == first.headers[header]
    assert second.headers[header] in hits
    assert "miss" == first.record.mechanisms["response_cache"].verdict
    assert ("hit", "fast", "response_cache") == (
        second.record.mechanisms["response_cache"].verdict,
        second.record.path,
        second.record.served_by,
    )
    if name != "openrouter":
        assert first.body == second.body


def test_litellm_tells_hits_only(bench: Any) -> None:
    """Its key is there or it is not; the truth says that a miss cannot be seen."""
    b = bench(gateway("litellm"))
    first, second = b.ask(), b.ask()
    assert [False, True] == ["x-litellm-cache-key" in a.headers for a in (first, second)]
    assert not first.record.mechanisms["response_cache"].visible
    assert "x-litellm-response-cost" in second.headers


@pytest.mark.parametrize("stream", [False, True])
def test_openrouter_bills_a_hit_with_nothing(bench: Any, stream: bool) -> None:
    """All counters are 0, the content is the same."""
    b = bench(gateway("openrouter"))
    b.ask({"stream": stream}, **ASKING["openrouter"])
    hit = b.ask({"stream": stream}, **ASKING["openrouter"])
    usages = [e["usage"] for e in hit.events if "usage" in e] + [
        e["message"]["usage"] for e in hit.events if "message" in e
    ]
    for usage in usages if stream else [hit.usage]:
        assert (0, 0) == (usage.get("input_tokens"), usage.get("output_tokens"))
    assert hit.record.mechanisms["response_cache"].facts["output_tokens"] > 0


def test_helicone_replays_the_old_headers(bench: Any) -> None:
    """The request id and the rate limits of a hit are those of the stored answer."""
    b = bench(gateway("helicone"))
    first, second = (b.ask(**ASKING["helicone"]) for _ in range(2))
    name = "anthropic-ratelimit-requests-remaining"
    assert (first.headers["request-id"], first.headers[name]) == (
        second.headers["request-id"],
        second.headers[name],
    )
    assert "request-id" not in [b2 := bench(gateway("kong")), b2.ask(), b2.ask()][2].headers


@pytest.mark.parametrize("name", ["helicone", "openrouter", "portkey"])
def test_some_gateways_want_to_be_asked(bench: Any, name: str) -> None:
    """Without the request header nothing is stored and nothing is said."""
    b = bench(gateway(name))
    asked = [b.ask() for _ in range(2)][1]
    assert "response_cache" not in asked.record.mechanisms
    assert asked.headers.get("x-portkey-cache-status", "DISABLED") == "DISABLED"


def test_stored_answers_expire(bench: Any) -> None:
    """After their time to live the provider is asked again."""
    b = bench(gateway("kong", "ttl = 60"))
    b.ask()
    b.clock.advance(59)
    assert "Hit" == b.ask().headers["x-cache-status"]
    b.clock.advance(2)
    assert "Miss" == b.ask().headers["x-cache-status"]


def test_errors_are_not_stored(bench: Any) -> None:
    """A 529 is asked again."""
    b = bench(gateway("own"))
    assert 529 == b.ask(x_sim_force="fault=529").status
    assert "MISS" == b.ask().headers["x-my-cache"]


def test_other_bodies_and_keys_miss(bench: Any) -> None:
    """Only the same body of the same client is the same request."""
    b = bench(gateway("own"))
    b.ask()
    assert "MISS" == b.ask({"max_tokens": 201}).headers["x-my-cache"]
    assert "MISS" == b.ask(authorization="other").headers["x-my-cache"]


@pytest.mark.parametrize(
    ("name", "rate", "header", "value", "reason"),
    [
        ("cloudflare", "fallback_rate", "cf-aig-step", "1", "gateway_fallback"),
        ("litellm", "fallback_rate", "x-litellm-attempted-fallbacks", "1", "gateway_fallback"),
        ("litellm", "retry_rate", "x-litellm-attempted-retries", "1", "gateway_retry"),
        ("portkey", "retry_rate", "x-portkey-retry-attempt-count", "2", "gateway_retry"),
    ],
)
def test_detours_are_told(bench: Any, name: str, rate: str, header: str, value: str, reason: str) -> None:
    """Fallbacks and retries inside the gateway."""
    asked = bench(gateway(name, f"{rate} = 1.0")).ask(**ASKING.get(name, {}))
    found = asked.record.mechanisms["response_cache"]
    assert (value, "fallback", reason) == (asked.headers[header], found.verdict, found.reason)


@pytest.mark.parametrize(
    ("name", "header", "value"), [("kong", "x-cache-status", "Bypass"), ("own", "x-my-cache", "BYPASS")]
)
def test_bypass(bench: Any, name: str, header: str, value: str) -> None:
    """Going past the cache is told apart from a miss."""
    asked = bench(gateway(name, "bypass_rate = 1.0")).ask()
    assert (value, "bypass") == (asked.headers[header], asked.record.mechanisms["response_cache"].verdict)


def test_usage_is_zeroed_at_any_depth() -> None:
    """Numbers inside ``usage`` become 0; all else stays."""
    body = {"n": 1, "message": {"usage": {"a": 2, "b": {"c": 3}, "t": "x", "ok": True}}}
    zeroed = {"n": 1, "message": {"usage": {"a": 0, "b": {"c": 0}, "t": "x", "ok": True}}}
    assert zeroed == json.loads(zero_usage(json.dumps(body).encode(), False))
    line = zero_usage(b"event: e\ndata: " + json.dumps(body).encode() + b"\n\n", True).split(b"\n")[1]
    assert zeroed == json.loads(line[6:])
