"""Prompt caches with breakpoints: why a miss, one test per reason and condition."""

from __future__ import annotations

from typing import Any

import pytest

from lz_otel._judge.prompt_cache.explicit import minimum_tokens
from tests.judge.prompt_cache.prompt_calls import (
    LONG,
    NOTHING,
    READ,
    SYSTEM,
    WROTE,
    after,
    ended_call,
    make,
    messages,
    said,
)

TOOL = {"name": "look_up", "input_schema": {"type": "object"}}


@pytest.mark.parametrize(
    ("now", "reason"),
    [
        (messages("q", tools=[TOOL]), "tools_changed"),
        (messages("q", system="Other. " + SYSTEM), "system_changed"),
        (messages("other"), "history_changed"),
        (messages("q", model="claude-sonnet-5"), "model_changed"),
        (messages("q", "r", tool_choice={"type": "any"}), "history_changed"),
        (messages("q", "r", speed="fast"), "unknown"),
        (messages("q", *(f"turn {i}" for i in range(20))), "no_breakpoint"),
        (messages("q", *(f"turn {i}" for i in range(19))), "unknown"),
        (messages("q"), "unknown"),
    ],
)
def test_reason_of_a_miss(now: dict[str, Any], reason: str) -> None:
    """The first section that changed; a prefix out of reach; what should have hit is unknown."""
    assert after(messages("q"), now) == ("miss", reason)


@pytest.mark.parametrize(
    ("gap", "ttl", "reason"),
    [
        (299.0, "5m", "unknown"),
        (300.2, "5m", "expired"),
        (3599.0, "1h", "unknown"),
        (3600.2, "1h", "expired"),
    ],
)
def test_lifetime_counts_from_the_start_of_the_writing_request(gap: float, ttl: str, reason: str) -> None:
    """An entry is gone five minutes (or an hour) after the start of the request that wrote it, not before."""
    body = messages("q")
    body["messages"][0]["content"][0]["cache_control"]["ttl"] = ttl
    judge = make()
    said(judge, ended_call(body, at=1000.0, first=1000.1, last=1290.0, **WROTE))
    assert said(judge, ended_call(body, at=1000.0 + gap, **WROTE)) == ("miss", reason)


def test_a_hit_refreshes_the_lifetime() -> None:
    """A read after 200 s makes the entry live until 500 s: a miss at 400 s is no expiry, at 501 s it is."""
    for gap, reason in ((400.0, "unknown"), (501.0, "expired")):
        judge = make()
        said(judge, ended_call(messages("q"), **WROTE))
        said(judge, ended_call(messages("q"), at=1200.0, **READ))
        assert said(judge, ended_call(messages("q"), at=1000.0 + gap, **WROTE)) == ("miss", reason)


def test_a_moving_breakpoint_changes_nothing() -> None:
    """A dialogue that moves its breakpoint on, and writes texts in either form, is the same prefix."""
    judge = make()
    said(judge, ended_call(messages("q"), **WROTE))
    plain = messages("q", "r")
    plain["messages"][0]["content"] = "q"
    assert said(judge, ended_call(plain, at=1400.0, **WROTE)) == ("miss", "expired")


@pytest.mark.parametrize(
    ("known", "reason"),
    [
        ({"input_tokens": 100}, "below_minimum"),
        ({"input_tokens": 600}, "unknown"),
        ({"input_tokens": 100, "cache_read_tokens": None, "cache_write_tokens": None}, "below_minimum"),
        ({"input_tokens": 600, "cache_read_tokens": None, "cache_write_tokens": None}, "unknown"),
    ],
)
def test_nothing_read_and_nothing_written(known: dict[str, Any], reason: str) -> None:
    """Too short for its model: below the minimum; long enough and yet nothing: unknown."""
    assert said(make(), ended_call(messages("q"), **{**NOTHING, **known})) == ("miss", reason)


def test_a_short_prefix_of_a_long_prompt() -> None:
    """The breakpoint's prefix counts, not the whole prompt."""
    body = messages(
        "q" * 40_000, mark=False, system=[{"type": "text", "text": "Short.", "cache_control": {}}]
    )
    assert said(make(), ended_call(body, input_tokens=10_000, **NOTHING)) == ("miss", "below_minimum")


def test_what_came_before_was_too_short() -> None:
    """A dialogue that grows over the minimum: nothing changed, it is the first use."""
    judge = make()
    said(judge, ended_call(messages("q"), **{**NOTHING, "input_tokens": 100}))
    assert said(judge, ended_call(messages("q", LONG), at=1010.0, **WROTE)) == ("miss", "first_use")


def test_routes_and_keys_are_told_apart() -> None:
    """Another route has its own history, another key its own cache."""
    judge = make()
    said(judge, ended_call(messages("q"), route="a", **WROTE))
    assert said(judge, ended_call(messages("x"), at=1010.0, route="b", **WROTE)) == ("miss", "first_use")
    assert said(judge, ended_call(messages("x"), at=1010.0, route="a", key="other", **WROTE)) == (
        "miss",
        "first_use",
    )
    assert said(judge, ended_call(messages("y"), at=1010.0, route="a", **WROTE)) == (
        "miss",
        "history_changed",
    )


def test_the_workspace_decides_where_it_is_named() -> None:
    """Two keys of one workspace share a cache."""
    judge = make()
    named = {"anthropic-workspace-id": "w"}
    said(judge, ended_call(messages("q"), key="one", headers=named, **WROTE))
    other = ended_call(messages("x"), at=1010.0, key="two", headers=named, **WROTE)
    assert said(judge, other) == ("miss", "history_changed")


def test_bedrock_marks_are_cache_points() -> None:
    """Converse marks with elements of their own, which are no content."""

    def body(*more: str) -> dict[str, Any]:
        content = [{"text": LONG}, {"cachePoint": {"type": "default"}}, *({"text": t} for t in more)]
        return {"system": [{"text": SYSTEM}], "messages": [{"role": "user", "content": content}]}

    judge = make()
    known = {"provider": "aws.bedrock", "path": "/model/anthropic.claude-opus-5/converse", **WROTE}
    assert said(judge, ended_call(body(), **known)) == ("miss", "first_use")
    assert said(judge, ended_call(body("q"), at=1400.0, **known)) == ("miss", "expired")


def test_requests_at_the_same_time() -> None:
    """A twin that was sent before the first answer began found nothing to read: a first use too."""
    judge = make()
    said(judge, ended_call(messages("q"), at=1000.0, first=1001.0, **WROTE))
    assert said(judge, ended_call(messages("q"), at=1000.5, first=1001.2, **WROTE)) == ("miss", "first_use")


def test_a_long_stream_that_ends_late_is_judged_by_its_start() -> None:
    """What later requests did while a stream went on does not explain its miss."""
    judge = make()
    said(judge, ended_call(messages("a"), at=1000.0, **WROTE))
    said(judge, ended_call(messages("b", tools=[TOOL]), at=1005.0, **WROTE))  # ended first, began later
    early = ended_call(messages("c", tools=[TOOL]), at=1001.0, first=1001.5, last=1090.0, **WROTE)
    assert said(judge, early) == ("miss", "unknown")  # tools_changed or history_changed: it depends


@pytest.mark.parametrize(
    ("model", "provider", "tokens"),
    [
        ("claude-opus-5", "anthropic", (512, 512)),
        ("claude-opus-5-5", "anthropic", (512, 512)),
        ("claude-sonnet-5", "anthropic", (1024, 1024)),
        ("claude-sonnet-5-5", "anthropic", (512, 512)),
        ("claude-sonnet-4-20250514", "anthropic", (1024, 1024)),
        ("claude-opus-4-1", "anthropic", (1024, 1024)),
        ("claude-opus-4-7", "anthropic", (2048, 4096)),
        ("claude-haiku-4-5-20251001", "anthropic", (4096, 4096)),
        ("claude-opus-5", "aws.bedrock", (512, 4096)),
        ("claude-next", "anthropic", (512, 4096)),
    ],
)
def test_minimum_by_model(model: str, provider: str, tokens: tuple[int, int]) -> None:
    """The vendor's table; where sources disagree or are silent, both ends."""
    assert minimum_tokens(model, provider) == tokens


def marked(*texts: str, system_bytes: int = 2800, system_mark: bool = True, **more: Any) -> dict[str, Any]:
    """A request with a breakpoint behind its system prompt too."""
    block: dict[str, Any] = {"type": "text", "text": LONG[:system_bytes]}
    if system_mark:
        block["cache_control"] = {"type": "ephemeral"}
    return messages(*texts, system=[block], **more)


def test_the_minimum_of_the_other_model_is_not_ours() -> None:
    """A live prefix of another model that is too short for this one does not prove the change of model."""
    turns = [f"{n}: {LONG[:900]}" for n in range(25)]
    judge = make()
    said(judge, ended_call(marked(*turns), cache_read_tokens=0, cache_write_tokens=6500))
    changed = marked("x", *turns, model="claude-sonnet-5")
    assert said(judge, ended_call(changed, at=1010.0, cache_read_tokens=0, cache_write_tokens=6500)) == (
        "miss",
        "unknown",
    )
    changed = marked("x", *turns, model="claude-opus-5-5")
    assert (
        said(judge, ended_call(changed, at=1020.0, cache_read_tokens=0, cache_write_tokens=6500))[1]
        == "model_changed"
    )


def test_a_refresh_at_the_very_end_of_a_life() -> None:
    """An entry that was refreshed or had just expired is not taken for alive."""
    judge = make()
    wrote = {"cache_read_tokens": 0, "cache_write_tokens": 6500}
    said(judge, ended_call(marked(LONG), at=1000.0, **wrote))
    said(
        judge,
        ended_call(
            marked(LONG, "r", system_mark=False), at=1200.0, cache_read_tokens=6500, cache_write_tokens=9
        ),
    )
    said(judge, ended_call(marked(LONG, "s"), at=1300.05, cache_read_tokens=6500, cache_write_tokens=9))
    assert said(judge, ended_call(marked("x" + LONG), at=1350.0, **wrote)) == ("miss", "history_changed")
