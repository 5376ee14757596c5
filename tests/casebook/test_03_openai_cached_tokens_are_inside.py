"""Case 03: OpenAI counts cached tokens inside the prompt, where Anthropic counts them beside it."""

from __future__ import annotations

from typing import Any

import pytest

from tests.casebook.bodies import CHAT
from tests.casebook.helpers import MALFORMED, claude, gpt, json_body, observed
from tests.wire_doubles import O_JSON, V

RESPONSE: dict[str, Any] = {
    "id": "resp_1",
    "object": "response",
    "created_at": 1,
    "status": "completed",
    "model": "gpt-5",
    "output": [],
    "parallel_tool_calls": False,
    "tool_choice": "auto",
    "tools": [],
    "usage": {
        "input_tokens": 100,
        "output_tokens": 30,
        "total_tokens": 130,
        "input_tokens_details": {"cached_tokens": 60, "cache_write_tokens": 25},
        "output_tokens_details": {"reasoning_tokens": 10},
    },
}


def test_03_cached_tokens_are_part_of_the_prompt() -> None:
    """Chat: 80 of 100 prompt tokens were cached; reasoning is inside the 30 of the answer."""
    with observed() as found:
        gpt(json_body(O_JSON)).chat.completions.create(**CHAT)
        assert ((1, 100), (1, 30)) == found.tokens()
        assert (20, 80, 0) == found.parts()


def test_03_responses_api_writes_are_part_of_the_prompt() -> None:
    """Responses: 60 read and 25 written tokens are inside the 100."""
    with observed() as found:
        gpt(json_body(RESPONSE)).responses.create(model="gpt-5", input="x")
        assert ((1, 100), (1, 30)) == found.tokens()
        assert (15, 60, 25) == found.parts()


def test_03_details_of_null_are_no_cache() -> None:
    """Without details the whole prompt is uncached."""
    with observed() as found:
        gpt(json_body({**O_JSON, "usage": {**V, "prompt_tokens_details": None}})).chat.completions.create(
            **CHAT
        )
        assert ((1, 100), (1, 30)) == found.tokens()
        assert (100, 0, 0) == found.parts()


def test_03_more_cached_than_asked_is_a_contradiction() -> None:
    """A server that claims more cached tokens than prompt tokens:
    no negative part, and the contradiction counts.
    """
    broken = {**O_JSON, "usage": {**V, "prompt_tokens_details": {"cached_tokens": 120}}}
    with observed() as found:
        gpt(json_body(broken)).chat.completions.create(**CHAT)
        assert (1, 100) == found.tokens()[0]
        parts = found.parts()
        assert sum(parts) == 100
        assert min(parts) >= 0
        assert {"usage": 1} == found.by(MALFORMED)


@pytest.mark.parametrize("read", [0, 80])
def test_03_one_rule_per_vendor(read: int) -> None:
    """The same three numbers mean another prompt at each vendor."""
    from tests.wire_doubles import A_JSON

    usage = {"input_tokens": 100, "cache_read_input_tokens": read, "output_tokens": 1}
    with observed() as found:
        claude(json_body({**A_JSON, "usage": usage})).messages.create(
            model="claude-opus-5", max_tokens=1, messages=[{"role": "user", "content": "x"}]
        )
        assert (1, 100 + read) == found.tokens()[0]
        assert (100, read, 0) == found.parts()
