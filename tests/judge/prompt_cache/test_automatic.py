"""Automatic prompt caches: why a miss."""

from __future__ import annotations

from typing import Any

import pytest

from tests.judge.prompt_cache.prompt_calls import LONG, OPENAI, chat, ended_call, make, said


@pytest.mark.parametrize(
    ("now", "gap", "reason"),
    [
        (chat("other"), 310.0, "expired"),
        (chat("other"), 10.0, "unknown"),
        (chat("q", system="Other. " + LONG), 10.0, "system_changed"),
        (chat("q", tools=[{"type": "function", "function": {"name": "f"}}]), 10.0, "tools_changed"),
        (chat("q", model="gpt-6.1-sol"), 10.0, "model_changed"),
        (chat("q", prompt_cache_key="k"), 10.0, "unknown"),
        (chat("q", previous_response_id="resp_1"), 10.0, "unknown"),
    ],
)
def test_reason_of_a_miss_of_openai(now: dict[str, Any], gap: float, reason: str) -> None:
    """The same reasons without breakpoints: prefixes of 1024 tokens and more, idle for five minutes."""
    judge = make()
    assert said(judge, ended_call(chat("q"), **OPENAI)) == ("miss", "first_use")
    assert said(judge, ended_call(now, at=1000.0 + gap, **OPENAI)) == ("miss", reason)


def test_history_of_openai() -> None:
    """With a short system prompt the first message that differs is the reason."""
    judge = make()
    said(judge, ended_call(chat(LONG, system="Short."), **OPENAI))
    assert said(judge, ended_call(chat("x" + LONG, system="Short."), at=1010.0, **OPENAI)) == (
        "miss",
        "history_changed",
    )


def test_a_stated_lifetime_of_openai() -> None:
    """With a lifetime of its own an entry is not thought expired after five minutes."""
    body = chat("q", prompt_cache_options={"ttl": "30m"})
    judge = make()
    said(judge, ended_call(body, **OPENAI))
    assert said(judge, ended_call(body, at=1400.0, **OPENAI)) == ("miss", "unknown")
    assert said(judge, ended_call(body, at=1400.0 + 1801.0, **OPENAI)) == ("miss", "expired")


def test_the_responses_api() -> None:
    """Instructions are the system section, the input is the history."""
    judge = make()
    body = {"model": "gpt-6-sol", "instructions": LONG, "input": "q"}
    known = {**OPENAI, "path": "/v1/responses"}
    said(judge, ended_call(body, **known))
    assert said(judge, ended_call({**body, "instructions": "x" + LONG}, at=1001.0, **known)) == (
        "miss",
        "system_changed",
    )


def test_other_automatic_caches_say_only_what_is_sure() -> None:
    """Lifetimes of other vendors are not documented: after a first use the reason is unknown."""
    judge = make()
    known = {**OPENAI, "provider": "deepseek"}
    found = [
        said(judge, ended_call(chat("q", model=m), **known))
        for m in ("deepseek-v4", "deepseek-v4", "deepseek-v5")
    ]
    assert found == [("miss", "first_use"), ("miss", "unknown"), ("miss", "first_use")]


def test_openais_models_behind_an_unnamed_gateway() -> None:
    """A gateway whose host nobody has named serves OpenAI's models from OpenAI's cache."""
    judge = make()
    known = {**OPENAI, "provider": "other"}
    said(judge, ended_call(chat("q", model="openai/gpt-6-sol"), **known))
    assert said(judge, ended_call(chat("q", model="openai/gpt-6-sol"), at=1400.0, **known)) == (
        "miss",
        "expired",
    )
