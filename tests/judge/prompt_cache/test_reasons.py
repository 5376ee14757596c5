"""prompt_cache: why a miss, one test per reason and condition."""

from __future__ import annotations

import threading
from typing import Any

import pytest

from lz_otel._judge.prompt_cache.explicit import minimum_tokens
from tests.judge.prompt_cache.prompt_calls import (
    LONG,
    NOTHING,
    OPENAI,
    READ,
    SYSTEM,
    WROTE,
    chat,
    ended_call,
    make,
    messages,
    said,
)


def after(before: dict[str, Any], now: dict[str, Any], *, gap: float = 10.0, **known: Any) -> Any:
    """What is said about a miss after one request that wrote."""
    judge = make()
    said(judge, ended_call(before, **WROTE))
    return said(judge, ended_call(now, at=1000.0 + gap, **{**WROTE, **known}))


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


# --- one thing at a time ------------------------------------------------------------------------


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


def test_reasons_can_be_switched_off() -> None:
    """Without miss reasons nothing is digested; what the counts alone tell is still told."""
    judge = make(miss_reasons=False)
    said(judge, ended_call(messages("q"), **WROTE))
    assert said(judge, ended_call(messages("q"), at=1400.0, **WROTE)) == ("miss", "unknown")
    assert said(judge, ended_call(messages("q"), **{**NOTHING, "input_tokens": 100})) == (
        "miss",
        "below_minimum",
    )


@pytest.mark.parametrize(
    "raw",
    [
        b"",
        b"\xff\xfe",
        b'{"cache_control":',
        b'{"cache_control":1,"messages":{}}',
        b'["cache_control"]',
        b'{"messages":[1,"x",null,{"content":5},{"content":[1,{"type":3,"cache_control":{}}]}]}',
        b'{"system":7,"tools":"x","messages":[{"content":[' + b"[" * 3000 + b'"cache_control":1',
    ],
)
def test_odd_bodies_are_not_explained(raw: bytes) -> None:
    """Whatever the body is, the counts give the verdict and nothing fails."""
    given_ = ended_call(messages("q"), **WROTE)
    given_.facts.request_fields, given_.request.body = None, raw
    assert said(make(), given_) in (("miss", "unknown"), ("miss", "first_use"))


# --- OpenAI -------------------------------------------------------------------------------------


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


# --- bounds ---------------------------------------------------------------------------------------


def test_memory_is_bounded() -> None:
    """Any number of prompts, routes and models leaves no more than the stated numbers of entries."""
    judge = make(max_scopes=4, max_entries=64)
    for number in range(600):
        model, route = f"claude-{number % 40}", f"r{number % 30}"
        said(judge, ended_call(messages(f"q{number}", model=model), at=float(number), route=route, **WROTE))
        said(
            judge,
            ended_call(
                chat(f"q{number}", model=model[7:], system=f"{number}{LONG}"),
                at=float(number),
                route=route,
                **OPENAI,
            ),
        )
    explicit, automatic = judge._explicit, judge._automatic
    sizes = [
        len(explicit._entries),
        len(explicit._lineage._routes),
        len(explicit._models),
        len(automatic._entries),
    ]
    assert all(size <= bound for size, bound in zip(sizes, (64, 4, 4, 32), strict=True))
    assert max(len(models) for _, models in explicit._models.items()) <= 16


def test_no_text_is_kept() -> None:
    """Nothing that can be reached from the mechanism holds a piece of a prompt."""
    judge = make()
    said(
        judge, ended_call(messages("CANARY-TEXT", system="CANARY-TEXT " + SYSTEM), key="CANARY-KEY", **WROTE)
    )
    said(judge, ended_call(chat("CANARY-TEXT", system="CANARY-TEXT " + LONG), key="CANARY-KEY", **OPENAI))
    seen: set[int] = set()
    stack: list[Any] = [judge]
    while stack:
        item = stack.pop()
        if id(item) in seen or isinstance(item, (type, int, float)) or item is judge.signals:
            continue
        seen.add(id(item))
        if isinstance(item, (str, bytes)):
            assert "CANARY" not in str(item)
        elif isinstance(item, dict):
            stack += [*item.keys(), *item.values()]
        elif isinstance(item, (list, tuple, set, frozenset)) or type(item).__name__ == "deque":
            stack += list(item)
        else:
            slots = [
                n for c in type(item).__mro__ for n in getattr(c, "__slots__", ()) if not n.startswith("__")
            ]
            stack += [getattr(item, n) for n in slots if hasattr(item, n)] + list(
                getattr(item, "__dict__", {}).values()
            )
    assert len(seen) > 20


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


def test_two_threads_at_once() -> None:
    """Threads that judge at once neither fail nor lose the bounds."""
    judge = make(max_entries=32, max_scopes=2)
    failures: list[BaseException] = []

    def work(name: str) -> None:
        try:
            for number in range(150):
                body = messages(f"{name}{number % 7}", model=f"claude-{number % 3}")
                said(judge, ended_call(body, at=float(number * 100), route=f"r{number % 5}", **WROTE))
                said(judge, ended_call(chat(f"{name}{number}"), at=float(number * 100), route="r", **OPENAI))
        except BaseException as exc:
            failures.append(exc)

    threads = [threading.Thread(target=work, args=(name,)) for name in "abcd"]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failures == []
    assert len(judge._explicit._entries) <= 32


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
