"""What the mechanisms need of a request's body: system prompt, text, counted tokens."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from lz_otel._extract.request import Fields
from lz_otel._ground.memory import BoundedMap, digest
from lz_otel._ground.unreadable import UNREADABLE

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from lz_otel.model import EndedCall, Facts

MAX_TEXT = 65_536
"""Most characters of a prompt or an answer that are ever looked at."""

_HEAD = 256


def request_fields(facts: Facts) -> Fields | None:
    """Return the request's top level as the reader decoded it; ``None`` without a readable JSON body."""
    top = facts.request_fields
    return top if isinstance(top, Fields) else None


def starts_with_tag(top: Fields) -> bool:
    """Return whether the system prompt seems to begin with the pruning tag; looks at its first bytes only."""
    if _begins(top.system):
        return True
    first = top.messages[0] if top.messages else None
    return first is not None and _begins(first) and _role(first) == "system"


def _begins(raw: msgspec.Raw) -> bool:
    return b"layer-zero" in bytes(memoryview(raw)[:_HEAD])


def _may_be_system(raw: msgspec.Raw) -> bool:
    """Return whether its role can be ``system``: the first or last key, so nothing long is decoded."""
    view = memoryview(raw)
    return b'"system"' in bytes(view[:64]) or b'"system"' in bytes(view[-64:])


def _role(raw: msgspec.Raw) -> str:
    message = decoded_json(raw)
    return str(message.get("role")) if isinstance(message, dict) else ""


def finite_number(value: object) -> float | None:
    """Return a finite number that is no boolean, else ``None``."""
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return None
    try:
        out = float(value)
    except OverflowError:
        return None
    return out if out - out == 0.0 else None


def header_number(headers: Mapping[str, str], name: str, malformed: list[str]) -> float | None:
    """Return the finite non-negative number in a header; anything else is noted as malformed."""
    text = headers.get(name)
    if text is None:
        return None
    try:
        value = float(text) if len(text) <= 32 and "_" not in text else -1.0
    except ValueError:
        value = -1.0
    if 0.0 <= value < float("inf"):
        return value
    malformed.append("header")
    return None


def decoded_json(raw: msgspec.Raw) -> object:
    """Decode a part left undecoded as Python objects; ``None`` when it is absent or too deep."""
    try:
        return msgspec.json.decode(raw)
    except UNREADABLE:
        return None


def system_text(top: Fields) -> str | None:
    """Return the system prompt: its text, or its text blocks joined by newlines; ``None`` without one.

    Article 001 writes it as a message of role ``system``; that form is read when the
    documented field is absent.
    """
    system = decoded_json(top.system)
    if system is None:
        first = top.messages[0] if top.messages else None
        if first is None or not _may_be_system(first):
            return None
        message = decoded_json(first)
        if isinstance(message, dict) and message.get("role") == "system":
            system = message.get("content")
    return content_text(system)


def content_text(content: object) -> str | None:
    """Return a text, or text blocks joined by newlines; ``None`` where there is neither."""
    if isinstance(content, list):
        texts = [b["text"] for b in content if isinstance(b, dict) and isinstance(b.get("text"), str)]
        return "\n".join(texts) if texts else None
    return content if isinstance(content, str) else None


# Strings under these keys are no text that a person wrote.
_SKIPPED = frozenset({"type", "role", "id", "data", "url", "signature", "media_type", "tool_use_id", "model"})


def _strings(value: object) -> Iterator[str]:
    stack = [value]
    while stack:
        item = stack.pop()
        if isinstance(item, str):
            yield item
        elif isinstance(item, list):
            stack.extend(reversed(item))
        elif isinstance(item, dict):
            stack.extend(v for k, v in reversed(item.items()) if k not in _SKIPPED)


def prompt_text(top: Fields, limit: int = MAX_TEXT) -> tuple[str, bool]:
    """Return the text of system prompt and messages, at most ``limit`` characters, and whether it was cut."""
    pieces: list[str] = []
    room = limit
    for raw in (top.system, *(top.messages or ()), top.input, top.prompt):
        for piece in _strings(decoded_json(raw)):
            if len(piece) > room:
                pieces.append(piece[:room])
                return "\n".join(pieces), True
            pieces.append(piece)
            room -= len(piece)
    return "\n".join(pieces), False


class CountedTokens:
    """Answers of token counting, remembered by the digest of what was counted.

    A request to count tokens and the call itself differ in fields that do not count
    (``max_tokens``, ``stream`` ...), so the digest covers those that do. Holds digests and numbers only.
    """

    def __init__(self) -> None:
        self._counts: BoundedMap[int, int] = BoundedMap(1024)

    @staticmethod
    def key(top: Fields) -> int:
        """Return the digest of model, system prompt, messages, tools and what else is counted."""
        parts = (top.system, *(top.messages or ()), top.tools, top.tool_choice, top.thinking)
        return digest(b"\0".join((str(top.model).encode("utf-8", "surrogatepass"), *map(bytes, parts))))

    def remember(self, call: EndedCall) -> None:
        """Take in the answer of a request that counted tokens."""
        facts = call.facts
        top = request_fields(facts)
        if facts.operation == "count_tokens" and facts.counted_tokens is not None and top is not None:
            self._counts.put(self.key(top), facts.counted_tokens)

    def of(self, top: Fields) -> int | None:
        """Return what counting the same content gave; ``None`` when it was not counted lately."""
        return self._counts.get(self.key(top)) if len(self._counts) else None
