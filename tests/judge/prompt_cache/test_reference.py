"""prompt_cache: reasons against a cache that remembers everything: never a wrong one."""

from __future__ import annotations

import random
from collections import Counter
from typing import TYPE_CHECKING, Any

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from lz_otel.catalogue import MISS_REASONS
from tests.judge.prompt_cache.prompt_calls import ended_call, make, said
from tests.judge.prompt_cache.reference_cache import Ask, ReferenceCache, Told

if TYPE_CHECKING:
    from lz_otel._judge.prompt_cache import PromptCacheJudge


def judged(judge: PromptCacheJudge, ask: Ask, told: Told, now: float) -> Any:
    """What we say about a request of the reference cache."""
    return said(
        judge,
        ended_call(
            ask.body(),
            at=now,
            first=now + 0.05,
            last=now + 0.1,
            route=ask.route,
            input_tokens=told.total,
            cache_read_tokens=told.read,
            cache_write_tokens=told.written_5m + told.written_1h,
            cache_write_5m_tokens=told.written_5m,
            cache_write_1h_tokens=told.written_1h,
        ),
    )


def text(number: int, size: int) -> str:
    """A text of its own of so many bytes."""
    return f"{number}:" + f"word{number} " * (size // 7)


_ASK = st.builds(
    lambda model, tools, system, history, marks, ttl, route, choice, reach: (
        model,
        tools,
        system,
        history,
        marks,
        ttl,
        route,
        choice,
        reach,
    ),
    st.sampled_from(["claude-opus-5", "claude-sonnet-4-5", "claude-haiku-4-5"]),
    st.integers(0, 2),
    st.integers(0, 3),
    st.lists(st.integers(0, 2), min_size=1, max_size=4),
    st.sets(st.sampled_from(["tools", "system", "last"])),
    st.sampled_from(["5m", "5m", "1h"]),
    st.sampled_from(["", "r"]),
    st.sampled_from(["", "", "any"]),
    st.sampled_from([0, 0, 0, 25]),
)


def ask_of(drawn: Any) -> Ask:
    """A request out of a few drawn numbers, so that prefixes are often shared."""
    model, tools, system, history, marks, ttl, route, choice, reach = drawn
    tool_names = tuple(f"tool_{tools}_{i}" for i in range(tools))
    systems = (text(system, (60, 1300, 5000, 30_000)[system]),)
    said_ = [text(10 * place + n, (40, 900, 4000)[n]) for place, n in enumerate(history)]
    said_ += [text(1000 + i, 30) for i in range(reach)]
    at = {"tools": len(tool_names) - 1, "system": len(tool_names), "last": len(tool_names) + len(said_)}
    positions = sorted({at[m] for m in marks if at[m] >= 0}) or [at["last"]]
    return Ask(model, tool_names, systems, tuple(said_), tuple((p, ttl) for p in positions), route, choice)


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(
    st.lists(
        st.tuples(_ASK, st.sampled_from([1.0, 1.0, 40.0, 290.0, 310.0, 3700.0])), min_size=2, max_size=14
    )
)
def test_never_a_wrong_reason(steps: list[tuple[Any, float]]) -> None:
    """Against a cache that remembers whole prefixes: its reason, or unknown; the verdict always."""
    cache, judge, now = ReferenceCache(), make(), 1000.0
    for drawn, wait in steps:
        now += wait
        ask = ask_of(drawn)
        told = cache.ask(ask, now)
        found = judged(judge, ask, told, now)
        assert found in ([("hit", None)] if told.read else [("miss", told.reason), ("miss", "unknown")])


def dialogues(calls: int, seed: int) -> list[tuple[Ask, float]]:
    """Mixed traffic: dialogues that grow, with edits, new tools, other models, pauses."""
    rng = random.Random(seed)
    out: list[tuple[Ask, float]] = []
    open_: list[dict[str, Any]] = []
    for number in range(calls):
        if not open_ or rng.random() < 0.15:
            open_.append(
                {
                    "model": rng.choice(["claude-opus-5", "claude-sonnet-4-5"]),
                    "tools": rng.randint(0, 2),
                    "system": rng.randint(0, 3),
                    "said": [],
                    "route": rng.choice("abc"),
                }
            )
            del open_[:-12]
        talk = rng.choice(open_)
        change = rng.random()
        if change < 0.03:
            talk["model"] = rng.choice(["claude-opus-5", "claude-sonnet-4-5"])
        elif change < 0.06:
            talk["tools"] = rng.randint(0, 2)
        elif change < 0.09:
            talk["system"] = rng.randint(0, 3)
        elif change < 0.12 and talk["said"]:
            talk["said"][0] = text(50_000 + number, 200)
        for _ in range(24 if change > 0.98 else 1):
            talk["said"].append(text(number, rng.choice([60, 400, 2500])))
        names = tuple(f"tool_{talk['tools']}_{i}" for i in range(talk["tools"]))
        systems = (text(talk["system"], (60, 1500, 9000, 30_000)[talk["system"]]),)
        last = len(names) + len(talk["said"])
        marks = ((len(names), "1h"), (last, "5m")) if rng.random() < 0.7 else ((last, "5m"),)
        ask = Ask(talk["model"], names, systems, tuple(talk["said"]), marks, talk["route"])
        out.append(
            (ask, rng.choice([0.2, 0.5, 1, 2, 5, 20]) if rng.random() < 0.98 else rng.choice([301, 3601]))
        )
    return out


def test_five_thousand_mixed_calls() -> None:
    """At least 99 % of the reasons equal the truth, and the rest are unknown."""
    found: Counter[str] = Counter()
    reasons: Counter[str | None] = Counter()
    for seed in range(10):
        cache, judge, now = ReferenceCache(), make(), 1000.0
        for ask, wait in dialogues(500, seed):
            now += wait
            told = cache.ask(ask, now)
            truth = ("hit", None) if told.read else ("miss", told.reason)
            said_ = judged(judge, ask, told, now)
            found["same" if said_ == truth else "unknown" if said_ == ("miss", "unknown") else "wrong"] += 1
            reasons[told.reason] += 1
    assert found["wrong"] == 0
    assert found["same"] >= 0.99 * sum(found.values())
    assert set(reasons) >= set(MISS_REASONS) - {"unknown"}
