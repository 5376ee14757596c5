"""Article 004: who was served by the zero layer, and who is at risk of sharing."""

from __future__ import annotations

import random
from typing import Any

import pytest

from lz_otel._judge.scheduling import Budget
from lz_otel._judge.simhash import MAX_WORDS, shape
from lz_otel._price.cost import Prices
from tests.judge.ended_calls import body, ended_call, make, rows, said

ASKED = {"x-anthropic-layer-hint": "zero-latency", "anthropic-version": "2024-10-22"}
ZERO, STANDARD = {"x-anthropic-layer-served": "zero"}, {"x-anthropic-layer-served": "standard"}
SIMILAR, GHOST = ("lz.scheduling.similar_calls",), ("lz.scheduling.ghost_entities",)
WORDS = (
    "please check the status of my order and tell me when it will arrive at my address in berlin thanks a lot"
)


def fill(judge: Any) -> None:
    """Put in more than it may hold."""
    bits = random.Random(1).getrandbits
    for _ in range(12_000):
        judge._entities.add(bits(63))
    for n in range(120):
        judge._recent.append(shape(" ".join(f"w{n}x{k}" for k in range(MAX_WORDS))))


@pytest.mark.parametrize(
    ("hint", "served", "expected"),
    [
        ("zero-latency", ZERO, ("hit", None)),
        ("zero-latency;priority=high", ZERO, ("hit", None)),
        ("zero-latency", STANDARD, ("fallback", "served_standard")),
        ("Zero-Latency ; priority=high", {}, ("fallback", "not_served")),
        ("zero-latency", {"x-anthropic-layer-served": "what"}, ("fallback", "not_served")),
        ("legacy", {}, ("bypass", None)),
        ("legacy", STANDARD, ("bypass", None)),
        ("legacy", ZERO, ("hit", None)),
        (None, ZERO, ("hit", None)),
        (None, STANDARD, ("miss", None)),
        (None, {}, (None, None)),
        ("other", {}, (None, None)),
    ],
)
def test_verdicts(hint: str | None, served: dict[str, str], expected: tuple[str | None, str | None]) -> None:
    """The served header decides; without it, what was asked for was not got."""
    headers = {} if hint is None else {**ASKED, "x-anthropic-layer-hint": hint}
    assert said(make("scheduling").judge(ended_call(headers, served))) == expected


def test_errors_say_nothing() -> None:
    """A call that failed gives no verdict."""
    assert said(make("scheduling").judge(ended_call(ASKED, {}, status=529))) == (None, None)


def test_served_header_can_be_renamed(tmp_path: Any) -> None:
    """The served header is chosen by us and can be overridden."""
    from lz_otel._judge import signals

    path = tmp_path / "signals.toml"
    path.write_text('[scheduling.served]\nname = "x-layer"\n')
    mechanism = make("scheduling", signals=signals.load(str(path)))
    assert said(mechanism.judge(ended_call(ASKED, {"x-layer": "zero"}))) == ("hit", None)


@pytest.mark.parametrize(
    ("policy", "bad"),
    [
        ('{"anchor_blocks": ["a"], "drift_blocks": [], "transient_blocks": ["b"]}', False),
        ('{"anchor_blocks": ["a"]}', False),
        ("{", True),
        ("[]", True),
        ('{"anchor_blocks": "a"}', True),
        ('{"drift_blocks": [1]}', True),
    ],
)
def test_cache_policy(policy: str, bad: bool) -> None:
    """A cache policy that is no JSON object of lists of names is malformed."""
    call = ended_call({"x-anthropic-cache-policy": policy})
    make("scheduling").judge(call)
    assert call.facts.malformed == (["header"] if bad else [])


@pytest.mark.parametrize(
    ("headers", "looked_at"),
    [
        ({}, False),
        ({"anthropic-version": "2024-10-22"}, False),
        ({"x-anthropic-cache-policy": "{}"}, True),
        (ASKED, True),
    ],
)
def test_only_scheduled_calls_are_looked_at(headers: dict[str, str], looked_at: bool) -> None:
    """A call that neither asks nor was served is not looked at, and is not malformed."""
    mechanism = make("scheduling")
    call = ended_call(headers, {}, mechanism=mechanism)
    mechanism.judge(call)
    assert (call.facts.text_sink is not None, len(mechanism._recent) == 1) == (looked_at, looked_at)
    assert call.facts.malformed == []


@pytest.mark.parametrize(
    ("times", "rate"),
    [([], 0.0), ([1.0], 0.0), ([1.0, 1.02, 1.04], 50.0), ([1.0, 3.0], 0.5), ([1.0, 1.0], 1000.0)],
)
def test_rate_of_similar_calls(times: list[float], rate: float) -> None:
    """Similar calls per second: intervals by the time from the first to the last."""
    mechanism = make("scheduling")
    mechanism._similar_at.extend(times)
    assert mechanism._similar_rate() == pytest.approx(rate)


def test_trace_id_is_never_measured() -> None:
    """The vendor's trace id is for spans and logs (`_measure.spans`): no measurement holds it."""
    result = make("scheduling").judge(ended_call(ASKED, {**ZERO, "x-anthropic-trace-id": "t" * 30}))
    assert "ttt" not in repr(result)


def ask(
    mechanism: Any, text: str, answer: str = "Done.", headers: dict[str, str] | None = None, **more: Any
) -> dict[Any, float]:
    request = more.pop("request", None) or body(text)
    return rows(
        mechanism.judge(
            ended_call(headers or ASKED, ZERO, request=request, answer=answer, mechanism=mechanism, **more)
        )
    )


def test_similar_calls() -> None:
    """A prompt that shares nearly all its words with one of the last 100 counts, another does not."""
    mechanism = make("scheduling")
    found = [
        SIMILAR in ask(mechanism, text)
        for text in (WORDS, WORDS.replace("berlin", "paris"), "write a poem on autumn leaves", WORDS.upper())
    ]
    assert found == [False, True, False, False]


def test_only_the_last_hundred() -> None:
    """A prompt is compared with the last 100 and none before."""
    mechanism = make("scheduling")
    ask(mechanism, WORDS)
    for n in range(99):
        ask(mechanism, " ".join(f"{chr(97 + n % 26)}{chr(97 + n // 26)}{k}" for k in "abcdefgh"))
    assert SIMILAR in ask(mechanism, WORDS)
    for n in range(101):
        ask(mechanism, " ".join(f"{chr(97 + n % 26)}{chr(97 + n // 26)}{k}" for k in "ijklmnop"))
    assert SIMILAR not in ask(mechanism, WORDS)


@pytest.mark.parametrize("headers", [{"x-anthropic-layer-hint": "legacy"}])
def test_legacy_calls_share_nothing(headers: dict[str, str]) -> None:
    """Calls that opted out are not compared."""
    mechanism = make("scheduling")
    ask(mechanism, WORDS)
    assert ask(mechanism, WORDS, headers=headers) == {}


def test_ghost_entities() -> None:
    """Entities of an answer that another request named and this one did not are counted, each once."""
    mechanism = make("scheduling")
    ask(mechanism, "Where is order 12345? Mail Ann@example.com or call +49 30 1234567")
    found = ask(
        mechanism,
        "And order 77777?",
        "Ann: ann@example.com, ANN@EXAMPLE.COM, +49-30-1234567, order #12345, order 77777",
    )
    assert found[GHOST] == 3.0


def test_no_ghosts() -> None:
    """What the own request names, in whatever spelling, and what nobody named, are no ghosts."""
    mechanism = make("scheduling")
    ask(mechanism, "Mail ann@example.com about order 12345")
    assert GHOST not in ask(mechanism, "Mail Ann@Example.com", "To ann@example.com")
    assert GHOST not in ask(mechanism, "the number is 12345", "order 12345 is on its way")
    assert GHOST not in ask(mechanism, "Hello", "Write to bob@example.com")
    assert GHOST not in ask(mechanism, "Hello", "Write to bob@example.com")


def test_system_prompt_and_history_are_the_own_request() -> None:
    """All of a request counts as its own: system prompt, history and tool results."""
    mechanism = make("scheduling")
    ask(mechanism, "Mail ann@example.com and bob@example.com and cid@example.com")
    request = body(
        system=[{"type": "text", "text": "Support: ann@example.com"}],
        messages=[
            {"role": "user", "content": "Hi bob@example.com"},
            {
                "role": "user",
                "content": [{"type": "tool_result", "tool_use_id": "t", "content": "cid@example.com"}],
            },
        ],
    )
    assert GHOST not in ask(mechanism, "", "ann@example.com bob@example.com cid@example.com", request=request)


def test_long_prompt_finds_no_ghosts() -> None:
    """Where the prompt is longer than what is looked at, its answer is not searched."""
    mechanism = make("scheduling")
    ask(mechanism, "Mail ann@example.com")
    assert GHOST not in ask(mechanism, "x " * 40_000, "ann@example.com")


def test_only_digests_are_held() -> None:
    """Neither prompt nor entity stays in memory, and what stays is bounded."""
    mechanism = make("scheduling")
    mechanism._entities.max_entries = 20
    for n in range(300):
        ask(mechanism, f"secretword order 1{n:05d}")
    held = [list(mechanism._recent), mechanism._entities.items(), list(mechanism._similar_at)]
    assert "secret" not in repr(vars(mechanism))
    assert [len(h) <= limit for h, limit in zip(held, (100, 20, 64), strict=True)] == [True] * 3


def test_budget_samples_above_a_rate() -> None:
    """Looking takes a bounded share of time: the savings are spent, then only that share is left."""
    now = [0.0]
    budget = Budget(share=0.1, limit=1.0, clock=lambda: now[0])
    looked = 0
    for _ in range(1000):
        now[0] += 0.01
        if budget.left():
            looked += 1
            budget.spend(0.01)
    assert 190 <= looked <= 215


def test_without_budget_nothing_is_looked_at() -> None:
    """Above the rate a call is neither compared nor remembered, and its verdict stands."""
    mechanism = make("scheduling")
    mechanism.budget = Budget(share=0.0, limit=0.0, clock=lambda: 0.0)
    result = mechanism.judge(ended_call(ASKED, ZERO, request=body(WORDS)))
    assert (said(result), rows(result), len(mechanism._recent)) == (("hit", None), {}, 0)


@pytest.mark.parametrize(("tokens", "similar", "share"), [(100, 0, 0.28), (2001, 0, 0.625), (100, 64, 0.68)])
def test_price_rules(tokens: int, similar: int, share: float) -> None:
    """A hit saves 28 %, above 2,000 input tokens 62.5 %, above 50 similar calls per second 68 %."""
    prices, when = Prices.load(), 1796000000.0
    mechanism = make("scheduling", prices=prices, now=lambda: when)
    mechanism._similar_at.extend(n / 60 for n in range(similar))
    call = ended_call(ASKED, ZERO, response_model="claude-sonnet-4-5", input_tokens=tokens)
    cost = prices.price(call.facts, when)
    assert cost is not None
    assert mechanism.judge(call).saved_usd == pytest.approx(cost.usd * share)
