"""Digests of a request's blocks: positions, breakpoints, and what makes two prefixes the same."""

from __future__ import annotations

import json
from typing import Any

from lz_otel._extract.request import Fields, decode_request
from lz_otel._judge.prompt_cache.digest import Digester, PromptDigests, decode
from lz_otel.model import Request
from tests.judge.prompt_cache.prompt_calls import WROTE, ended_call, make, messages, said

AUTOMATIC = {"type": "ephemeral"}
THINKING = {"type": "thinking", "thinking": "hm", "signature": "s"}


def prompt(body: dict[str, Any], digester: Digester | None = None) -> PromptDigests:
    """A request body's prompt."""
    top = decode(json.dumps(body).encode())
    assert top is not None
    found = (digester or Digester()).prompt(top)
    assert found is not None
    return found


def talk(*contents: Any, **more: Any) -> dict[str, Any]:
    """A request with one tool, a system prompt of two blocks and these messages."""
    system = [{"type": "text", "text": "one"}, {"type": "text", "text": "three"}]
    sent = [
        {"role": ("user", "assistant")[at % 2], "content": content} for at, content in enumerate(contents)
    ]
    return {"tools": [{"name": "t"}], "system": system, "messages": sent, **more}


def text(words: str, **more: Any) -> dict[str, Any]:
    """A text block."""
    return {"type": "text", "text": words, **more}


def test_a_breakpoint_is_at_the_position_of_its_block() -> None:
    """Positions count tools, system blocks and content blocks, in the order in which they are rendered."""
    body = talk(
        [text("a"), text("b", cache_control=AUTOMATIC)],
        "c",
        [text("d", cache_control={**AUTOMATIC, "ttl": "1h"})],
    )
    body["system"][1]["cache_control"] = AUTOMATIC
    found = prompt(body)
    assert ([(2, 300.0), (4, 300.0), (6, 3600.0)], 7) == (found.marks, len(found.chain))


def test_an_automatic_breakpoint_is_behind_the_last_block_that_may_have_one() -> None:
    """Thinking cannot have a breakpoint, wherever its message ends."""
    body = talk("q", [text("a"), text("b"), THINKING], [THINKING, THINKING], cache_control=AUTOMATIC)
    assert [(5, 300.0)] == prompt(body).marks


def test_an_automatic_breakpoint_may_be_behind_the_system_prompt() -> None:
    """Where no message has a block for it, the system prompt has."""
    assert [(2, 300.0)] == prompt(talk([THINKING], cache_control=AUTOMATIC)).marks


def test_an_automatic_breakpoint_is_no_second_one() -> None:
    """A block that has a breakpoint already keeps its own lifetime."""
    body = talk([text("a", cache_control={**AUTOMATIC, "ttl": "1h"})], cache_control=AUTOMATIC)
    assert [(3, 3600.0)] == prompt(body).marks


def test_bytes_of_a_prefix() -> None:
    """A text counts as it stands in the body, its quotes included; a tool counts as a whole."""
    found = prompt(talk("12", [text("3456"), text("7")]))
    tool = len(json.dumps({"name": "t"}))
    up_to = [tool, tool + 5, tool + 12, tool + 16, tool + 22, tool + 25]
    assert (up_to, tool + 25) == ([found.bytes_up_to(at) for at in range(6)], found.bytes_up_to(-1))


def test_the_extract_stages_fields_give_the_same() -> None:
    """What is decoded already and what is decoded for this have the same positions."""
    body = talk(
        "a",
        [text("b", cache_control=AUTOMATIC)],
        speed="fast",
        cache_control=AUTOMATIC,
        tool_choice={"type": "any"},
    )
    fields = decode_request(Request("POST", "h", "/v1/messages", "", {}, json.dumps(body).encode()))
    assert isinstance(fields, Fields)
    mine, theirs = prompt(body), Digester().prompt(fields)
    assert theirs is not None
    assert (mine.chain, mine.marks, mine.head.sections) == (theirs.chain, theirs.marks, theirs.head.sections)


def test_a_longer_conversation_shares_the_prefix() -> None:
    """What was seen before has the same digests, remembered or not; what follows a change has none."""
    digester = Digester()
    short, long = prompt(talk("a", "b"), digester), prompt(talk("a", "b", "c", "d"), digester)
    changed = prompt(talk("x", "b", "c", "d"), digester)
    assert short.chain == long.chain[:5] == prompt(talk("a", "b", "c", "d")).chain[:5]
    assert (long.chain[:3], set()) == (changed.chain[:3], set(long.chain[3:]) & set(changed.chain[3:]))


def test_sections_differ_where_their_content_does() -> None:
    """Tools, system prompt and speed each have a digest of their own, and change what comes behind them."""
    base, fast = prompt(talk("a")), prompt(talk("a", speed="fast"))
    tools, system = prompt({**talk("a"), "tools": [{"name": "u"}]}), prompt({**talk("a"), "system": "other"})
    differ = [
        [a != b for a, b in zip(base.head.sections, other.head.sections, strict=True)]
        for other in (fast, tools, system)
    ]
    assert [[True, False, False], [False, True, False], [False, False, True]] == differ
    assert (base.chain[0], set()) == (fast.chain[0], set(base.chain[1:]) & set(fast.chain[1:]))
    assert set() == set(base.chain) & set(tools.chain)


def test_bedrocks_tools_are_tools() -> None:
    """Converse has its tools in ``toolConfig``, where a cache point may stand behind them."""
    given = [{"toolSpec": {"name": "t"}}, {"cachePoint": {"type": "default"}}]
    said_ = {"system": "s", "messages": [{"role": "user", "content": "a"}]}
    with_tools, without = prompt({**said_, "toolConfig": {"tools": given}}), prompt(said_)
    assert ([(0, 300.0)], 3) == (with_tools.marks, len(with_tools.chain))
    assert with_tools.head.sections.tools != without.head.sections.tools


def test_each_key_has_a_cache_of_its_own() -> None:
    """What one key has written says nothing about the prompts of another."""
    judge = make()
    said(judge, ended_call(messages("q"), key="one", **WROTE))
    assert ("miss", "first_use") == said(judge, ended_call(messages("q"), at=1010.0, key="two", **WROTE))


def test_another_speed_has_a_cache_of_its_own() -> None:
    """What expired at another speed was not missed: the list has no word for what changed."""
    judge = make()
    said(judge, ended_call(messages("q"), **WROTE))
    assert ("miss", "unknown") == said(judge, ended_call(messages("q", speed="fast"), at=1400.0, **WROTE))
    assert ("miss", "expired") == said(judge, ended_call(messages("q"), at=1800.0, **WROTE))
