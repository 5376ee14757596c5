"""A request taken apart: texts, schema, and the fields that matter."""

from __future__ import annotations

import json
from typing import Any

import pytest

from lz_otel.explain.prompt_parts import PromptParts, words_of

SCHEMA = {"type": "object"}


def test_the_words_of_a_text() -> None:
    """Words, numbers and single signs are tokens, and so is each character of Chinese."""
    assert words_of("a_1 = 3,5; 你好") == ["a_1", "=", "3,5", ";", "你", "好"]


def test_the_texts_of_a_request() -> None:
    """Instructions are the system prompt and the last user message; answers are text only."""
    block = [{"type": "text", "text": "two"}, {"type": "image"}]
    messages = [
        {"role": "user", "content": "one"},
        {"role": "assistant", "content": "answer"},
        {"role": "user", "content": block},
        "no message",
    ]
    parts = PromptParts.of(
        json.dumps({"system": "Be short.", "messages": messages, "temperature": 0}),
        {"Anthropic-Region": "us-east-1"},
    )
    assert parts == (
        "Be short.", ("one", "two"), "Be short.\none\nanswer\ntwo", "Be short.\ntwo", None, True, "us-east-1"
    )  # fmt: skip


def test_a_system_message_is_the_system_prompt() -> None:
    """A message of role ``system`` stands for the field that is missing."""
    messages = [{"role": "system", "content": "Be short."}, {"role": "user", "content": "one"}]
    parts = PromptParts.of({"messages": messages})
    assert (parts.system, parts.user, parts.text) == ("Be short.", ("one",), "Be short.\none")


@pytest.mark.parametrize(
    ("fields", "schema"),
    [
        ({"output_format": {"schema": SCHEMA}}, SCHEMA),
        ({"output_config": {"format": {"schema": SCHEMA}}}, SCHEMA),
        ({"tool_choice": {"type": "any"}, "tools": [{"input_schema": SCHEMA}]}, [SCHEMA]),
        ({"tool_choice": {"type": "auto"}, "tools": [{"input_schema": SCHEMA}]}, None),
        ({"output_format": {}}, None),
    ],
)
def test_the_schema(fields: dict[str, Any], schema: object) -> None:
    """A schema is that of the output, or that of tools which must be used."""
    assert PromptParts.of({"messages": [], **fields}).schema == schema


@pytest.mark.parametrize("prompt", ["Write a poem.", "[1, 2]", '{"other": 1}'])
def test_what_is_no_request_is_a_text(prompt: str) -> None:
    """Anything that is not the body of a request is the text of a prompt."""
    for given in (prompt, prompt.encode()):
        parts = PromptParts.of(given)
        assert (parts.system, parts.user, parts.text) == ("", (prompt,), prompt)
