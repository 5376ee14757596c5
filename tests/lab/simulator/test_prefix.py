"""The prompt cache remembers prefixes as the vendor documents it, and knows why it missed."""

from __future__ import annotations

import json
from typing import Any

import pytest

CACHED = {"type": "ephemeral"}
HOUR = {"type": "ephemeral", "ttl": "1h"}


def system(text: str, control: dict[str, str] | None = None) -> list[dict[str, Any]]:
    """A system prompt with a breakpoint behind it."""
    return [{"type": "text", "text": text, "cache_control": control or CACHED}]


def user(*texts: str) -> list[dict[str, Any]]:
    """Messages of a user and an assistant in turn."""
    return [{"role": ("user", "assistant")[i % 2], "content": t} for i, t in enumerate(texts)]


def tokens(asked: Any) -> tuple[int, int, int]:
    """Uncached, written and read tokens of an answer."""
    u = asked.usage
    return u["input_tokens"], u["cache_creation_input_tokens"], u["cache_read_input_tokens"]


def reason(asked: Any) -> str | None:
    """Why an answer missed."""
    return asked.record.mechanisms["prompt_cache"].reason


def test_a_prefix_is_written_once_and_read_afterwards(bench: Any, long_text: str) -> None:
    """The first request writes up to its breakpoint, the second reads just that."""
    b = bench()
    first = b.ask({"system": system(long_text), "messages": user("one question")})
    second = b.ask({"system": system(long_text), "messages": user("another")})
    written = tokens(first)[1]
    assert (3, 1850, 0) == tokens(first)
    assert (2, 0, written) == tokens(second)
    assert "first_use" == reason(first)
    assert "hit" == second.record.mechanisms["prompt_cache"].verdict


def test_the_parts_of_the_input_add_up(bench: Any, long_text: str) -> None:
    """Uncached, written and read tokens are the whole prompt; the split by lifetime is the written part."""
    b = bench()
    for question in ("a", "b", "c"):
        asked = b.ask(
            {"system": system(long_text, HOUR), "messages": user(question), "cache_control": CACHED}
        )
        split = asked.usage["cache_creation"]
        assert sum(tokens(asked)) == asked.record.input_tokens
        assert sum(split.values()) == asked.usage["cache_creation_input_tokens"]


def test_each_breakpoint_pays_for_its_own_lifetime(bench: Any, long_text: str) -> None:
    """A one-hour breakpoint before a five-minute one splits what is written."""
    asked = bench().ask(
        {"system": system(long_text, HOUR), "messages": user("x" * 400), "cache_control": CACHED}
    )
    assert {"ephemeral_1h_input_tokens": 1850, "ephemeral_5m_input_tokens": 100} == asked.usage[
        "cache_creation"
    ]


@pytest.mark.parametrize(("control", "life"), [(CACHED, 300), (HOUR, 3600)])
def test_an_entry_lives_as_long_as_it_says(
    bench: Any, long_text: str, control: dict[str, str], life: int
) -> None:
    """Just before its end it is read, just after it has expired."""
    for seconds, expected in ((life - 1, None), (life + 1, "expired")):
        b = bench()
        b.ask({"system": system(long_text, control)})
        b.clock.advance(seconds)
        assert expected == reason(b.ask({"system": system(long_text, control)}))


def test_a_read_refreshes_the_entry(bench: Any, long_text: str) -> None:
    """Read every four minutes, a five-minute entry stays."""
    b = bench()
    verdicts = []
    for _ in range(4):
        verdicts.append(b.ask({"system": system(long_text)}).record.mechanisms["prompt_cache"].verdict)
        b.clock.advance(240)
    assert ["miss", "hit", "hit", "hit"] == verdicts


def test_an_entry_can_be_read_only_after_the_first_answer_has_begun(bench: Any, long_text: str) -> None:
    """A request beside the first one misses."""
    b = bench()
    provider = b.provider
    headers = {b"x-api-key": b"k"}

    body = json.dumps(
        {"model": "claude-sonnet-5-5", "max_tokens": 9, "system": system(long_text), "messages": user("a")}
    )
    records = [provider.begin(headers, "messages") for _ in range(3)]
    first = provider.messages(headers, body.encode(), records[0])
    provider.messages(headers, body.encode(), records[1])
    first.on_begin()
    provider.messages(headers, body.encode(), records[2])
    assert [0, 0, 1850] == [r.cache_read_tokens for r in records]
    assert "first_use" == records[1].mechanisms["prompt_cache"].reason


def test_a_too_short_prefix_is_silently_not_cached(bench: Any) -> None:
    """Both counters stay 0, there is no error, and the reason is known."""
    asked = bench().ask({"system": system("short")})
    assert (200, 0, 0) == (asked.status, *tokens(asked)[1:])
    assert "below_minimum" == reason(asked)


def test_without_a_breakpoint_nothing_is_said(bench: Any, long_text: str) -> None:
    """Nobody asked for the cache, so there is no verdict and nothing is written."""
    asked = bench().ask({"system": long_text})
    assert "prompt_cache" not in asked.record.mechanisms
    assert (0, 0) == tokens(asked)[1:]


def test_a_change_is_found_where_it_is(bench: Any, long_text: str) -> None:
    """Tools, system, history and model are told apart."""
    tool = {"name": "a", "input_schema": {"type": "object"}}
    base = {
        "system": long_text,
        "tools": [tool],
        "messages": user("first", "reply", "x" * 40),
        "cache_control": CACHED,
    }
    for change, expected in (
        ({"tools": [{**tool, "name": "b"}]}, "tools_changed"),
        ({"system": "Other. " + long_text}, "system_changed"),
        ({"messages": user("edited", "reply", "x" * 40)}, "history_changed"),
        ({"model": "claude-opus-5"}, "model_changed"),
    ):
        b = bench()
        b.ask(base)
        assert expected == reason(b.ask({**base, **change}))


def test_the_order_of_keys_in_a_tool_matters(bench: Any, long_text: str) -> None:
    """The prefix is compared byte for byte."""
    b = bench()
    b.ask(
        {
            "system": system(long_text),
            "tools": [{"name": "a", "input_schema": {"type": "object", "title": "t"}}],
        }
    )
    other = b.ask(
        {
            "system": system(long_text),
            "tools": [{"name": "a", "input_schema": {"title": "t", "type": "object"}}],
        }
    )
    assert "tools_changed" == reason(other)


def test_tool_choice_costs_the_messages_only(bench: Any, long_text: str) -> None:
    """Tools and system stay cached, the messages behind them do not."""
    tool = {"name": "a", "input_schema": {"type": "object"}}
    base = {
        "system": system(long_text),
        "tools": [tool],
        "messages": user("x" * 4000),
        "cache_control": CACHED,
    }
    b = bench()
    written = tokens(b.ask(base))[1]
    again = b.ask({**base, "tool_choice": {"type": "none"}})
    assert (1000, written - 1000) == tokens(again)[1:]


def test_a_growing_dialogue_reads_what_it_wrote(bench: Any, long_text: str) -> None:
    """Each turn reads up to the breakpoint of the turn before and writes the rest."""
    b = bench()
    texts = ["x" * 400]
    for turn in range(5):
        asked = b.ask({"system": long_text, "messages": user(*texts), "cache_control": CACHED})
        assert (turn > 0) == (tokens(asked)[2] > 0)
        assert 0 == tokens(asked)[0]
        texts += ["y" * 400, "z" * 400]


@pytest.mark.parametrize(("steps", "expected"), [(19, None), (20, "no_breakpoint")])
def test_a_breakpoint_looks_back_over_twenty_blocks(
    bench: Any, long_text: str, steps: int, expected: str | None
) -> None:
    """An entry 19 positions back is found, one 20 back is not."""
    b = bench()
    b.ask({"system": long_text, "messages": user("a"), "cache_control": CACHED})
    blocks = [{"type": "text", "text": f"block {i}"} for i in range(steps)]
    messages = [*user("a"), {"role": "assistant", "content": blocks}]
    assert expected == reason(b.ask({"system": long_text, "messages": messages, "cache_control": CACHED}))


def test_five_breakpoints_are_refused(bench: Any) -> None:
    """Four are allowed, the automatic one included; the fifth is an error in the vendor's shape."""
    blocks = [{"type": "text", "text": f"t{i}", "cache_control": CACHED} for i in range(4)]
    tail = {"type": "text", "text": "end"}
    messages = [{"role": "user", "content": [*blocks, tail]}]
    assert 200 == bench().ask({"messages": messages}).status
    refused = bench().ask({"messages": messages, "cache_control": CACHED})
    assert (400, "invalid_request_error") == (refused.status, refused.json["error"]["type"])


def test_one_hour_comes_before_five_minutes(bench: Any) -> None:
    """The other order is refused."""
    blocks = [
        {"type": "text", "text": "a", "cache_control": CACHED},
        {"type": "text", "text": "b", "cache_control": HOUR},
    ]
    assert 400 == bench().ask({"messages": [{"role": "user", "content": blocks}]}).status


def test_workspaces_do_not_share(bench: Any, long_text: str) -> None:
    """Another key, another cache."""
    b = bench()
    b.ask({"system": system(long_text)})
    assert "first_use" == reason(b.ask({"system": system(long_text)}, x_api_key="other"))


def test_a_miss_is_explained_within_its_route(bench: Any, long_text: str) -> None:
    """A new route with another prompt is a first use, not a change."""
    b = bench()
    b.ask({"system": system(long_text)}, x_sim_route="a")
    assert "first_use" == reason(b.ask({"system": system("B " + long_text)}, x_sim_route="b"))
    assert "system_changed" == reason(b.ask({"system": system("C " + long_text)}, x_sim_route="a"))


def test_a_failed_request_leaves_nothing(bench: Any, long_text: str) -> None:
    """What was answered 529 is not in the cache."""
    b = bench()
    b.ask({"system": system(long_text)}, x_sim_force="fault=529")
    assert "first_use" == reason(b.ask({"system": system(long_text)}))


def test_prewarming_writes_and_answers_nothing(bench: Any, long_text: str) -> None:
    """``max_tokens: 0`` has no content, yet the prefix is there afterwards."""
    b = bench()
    warm = b.ask({"system": system(long_text), "max_tokens": 0})
    assert ([], "max_tokens", 0) == (
        warm.json["content"],
        warm.json["stop_reason"],
        warm.usage["output_tokens"],
    )
    assert 1850 == tokens(b.ask({"system": system(long_text)}))[2]
    assert 400 == b.ask({"max_tokens": 0, "stream": True}).status


def test_the_vendors_own_diagnosis_agrees(bench: Any, long_text: str) -> None:
    """Asked for, it names the section that changed; after a hit it is null."""
    b = bench()
    first = b.ask({"system": system(long_text), "diagnostics": {"previous_message_id": None}})
    wish = {"previous_message_id": first.json["id"]}
    same = b.ask({"system": system(long_text), "diagnostics": wish})
    changed = b.ask({"system": system("X " + long_text), "diagnostics": wish})
    unknown = b.ask({"system": system("Y " + long_text), "diagnostics": {"previous_message_id": "msg_0"}})
    assert (None, None) == (first.json["diagnostics"], same.json["diagnostics"])
    assert "system_changed" == changed.json["diagnostics"]["cache_miss_reason"]["type"]
    assert "previous_message_not_found" == unknown.json["diagnostics"]["cache_miss_reason"]["type"]
