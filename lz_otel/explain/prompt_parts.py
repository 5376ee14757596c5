"""A request taken apart for `conditions`: texts, schema, and the fields that matter."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec

from lz_otel._ground.unreadable import UNREADABLE
from lz_otel._judge.request_body import content_text

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = ["PromptParts", "words_of"]

_TOKEN = re.compile(r"[A-Za-z_][A-Za-z_0-9]*|[0-9]+(?:[.,][0-9]+)*|\S")


def words_of(text: str) -> list[str]:
    """Return the tokens of a text in the rough sense: words, numbers, single signs (CJK: characters)."""
    return _TOKEN.findall(text)


class PromptParts(NamedTuple):
    """A request taken apart.

    Attributes:
        system: the system prompt, "" without one.
        user: texts of user messages.
        text: all text of system prompt and messages.
        instructions: system prompt and last user message: what says how to answer.
        schema: schema of the output or of tools, decoded, or ``None``.
        temperature: whether the request sets it.
        region: request header ``anthropic-region``, or ``None``.
    """

    system: str
    user: tuple[str, ...]
    text: str
    instructions: str
    schema: object
    temperature: bool
    region: str | None

    @classmethod
    def of(
        cls, request: bytes | str | Mapping[str, Any], headers: Mapping[str, str] | None = None
    ) -> PromptParts:
        """Take apart a request body, or a prompt's text (then everything else is empty)."""
        fields: Any = request
        if isinstance(request, (bytes, str)):
            try:
                fields = msgspec.json.decode(request)
            except UNREADABLE:
                fields = None
            if not isinstance(fields, dict) or not ({"messages", "system", "model"} & set(fields)):
                text = request if isinstance(request, str) else request.decode("utf-8", "replace")
                fields = {"messages": [{"role": "user", "content": text}]}
        system = content_text(fields.get("system")) or ""
        user: list[str] = []
        pieces = [system] if system else []
        messages = fields.get("messages")
        for message in messages if isinstance(messages, list) else ():
            if not isinstance(message, dict):
                continue
            text = content_text(message.get("content")) or ""
            if message.get("role") == "system" and not system:
                system = text
            elif message.get("role") != "assistant":
                user.append(text)
            pieces.append(text)
        lowered = {k.lower(): v for k, v in (headers or {}).items()}
        text, instructions = "\n".join(pieces), "\n".join([system, *user[-1:]])
        temperature, region = fields.get("temperature") is not None, lowered.get("anthropic-region")
        return cls(system, tuple(user), text, instructions, _schema(fields), temperature, region)


def _schema(fields: Mapping[str, Any]) -> object:
    config = fields.get("output_config")
    for holder in (fields.get("output_format"), config.get("format") if isinstance(config, dict) else None):
        if isinstance(holder, dict) and holder.get("schema") is not None:
            return holder["schema"]
    choice, tools = fields.get("tool_choice"), fields.get("tools")
    forced = isinstance(choice, dict) and choice.get("type") in ("any", "tool")
    if forced and isinstance(tools, list):
        return [t.get("input_schema") for t in tools if isinstance(t, dict)]
    return None
