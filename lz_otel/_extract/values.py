"""Reading values that strangers sent: counts, names, JSON. Nothing here raises on bad input."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any

import msgspec

from lz_otel._ground.unreadable import UNREADABLE

if TYPE_CHECKING:
    from lz_otel.model import Facts

MAX_COUNT = 1 << 53
"""Counts above this are no counts (C): JSON numbers are exact only so far."""
MAX_NAME = 128
_MAX_FEES = 16
_LENIENT_BYTES = 1 << 20  # no second, slower attempt on anything larger

_WORD = re.compile(r"[A-Za-z0-9_.\-:/]{1,64}").fullmatch


def token_count(value: Any) -> int | None:
    """Return a count of tokens: a whole number of sane size, else ``None``.

    A float without a fraction is one too: Cohere documents its counts as doubles (D), and gateways written
    in languages with one kind of number send ``12.0``.
    """
    if type(value) is int:
        return value if 0 <= value <= MAX_COUNT else None
    if type(value) is float and 0.0 <= value <= MAX_COUNT and value.is_integer():
        return int(value)
    return None


def nonempty_text(value: Any) -> str | None:
    """Return a non-empty string, else ``None``."""
    return value if type(value) is str and value else None


def label_name(value: Any) -> str | None:
    """Return a name as sent, when it is printable and of at most 128 characters, else ``None``."""
    if type(value) is str and 0 < len(value) <= MAX_NAME and value.isprintable():
        return value
    return None


def model_name(value: Any) -> str | None:
    """Return a model's name as sent; ``other`` for what no label can hold; ``None`` when absent."""
    if type(value) is not str or not value:
        return None
    return value if len(value) <= MAX_NAME and value.isprintable() else "other"


def error_word(value: Any) -> str | None:
    """Return a word of an error taxonomy; ``other`` for anything that could hold free text."""
    if type(value) is not str or not value:
        return None
    return value if _WORD(value) else "other"


def json_object(value: Any) -> dict[str, Any]:
    """Return ``value`` if it is a JSON object, else an empty one."""
    return value if type(value) is dict else {}


def json_objects(value: Any, most: int) -> list[dict[str, Any]]:
    """Return the members of a JSON list, at most so many, each as `json_object`; none of what is no list."""
    return [json_object(member) for member in value[:most]] if type(value) is list else []


def add_fee(facts: Facts, name: str, number: Any) -> None:
    """Note how much of something the provider bills beside tokens; what is said again replaces it.

    Args:
        facts: of the exchange.
        name: as in ``fees`` of ``prices.toml``; one that has no price there makes the call unpriced.
        number: as stated; anything but a number above 0 says nothing.
    """
    if type(number) in (int, float) and 0 < number <= MAX_COUNT:
        if facts.fees is None:
            facts.fees = {}
        if name in facts.fees or len(facts.fees) < _MAX_FEES:
            facts.fees[name] = number


def _digits(digits: str) -> int:
    return int(digits) if len(digits) <= 20 else -1


def loads(data: bytes | str) -> Any:
    """JSON as lenient as Python's own: NaN, lone surrogates, bad UTF-8, numbers of any length.

    Returns ``None`` for what is no JSON, too deep or above 1 MiB.
    """
    if len(data) > _LENIENT_BYTES:
        return None
    try:
        if isinstance(data, bytes):
            data = data.decode("utf-8", "replace")
        return json.loads(data, parse_int=_digits)
    except (ValueError, RecursionError):
        return None


# Strings as a whole, what structures a document, and the quote of a string that never ends.
_TOKENS = re.compile(rb'"[^"\\]*(?:\\.[^"\\]*)*"|[{}\[\],"]', re.DOTALL).finditer
_SALVAGE_BYTES = 1 << 18


def whole_members(body: bytes) -> bytes | None:
    """Return a JSON object that was cut short or goes on with junk, up to its last whole member."""
    if not body[:64].lstrip().startswith(b"{"):
        return None
    depth = 0
    cut = 0
    for token in _TOKENS(body[:_SALVAGE_BYTES]):
        mark = token[0]
        if mark in (b"{", b"["):
            depth += 1
        elif mark in (b"}", b"]"):
            depth -= 1
            if depth <= 0:
                return body[: token.end()]
        elif mark == b"," and depth == 1:
            cut = token.start()
        elif mark == b'"':
            break
    return body[:cut] + b"}" if cut else None


_SLICES = list[msgspec.Raw] | None


def _slice(value: Any) -> msgspec.Raw:
    return msgspec.Raw(json.dumps(value).encode())


def lenient(cls: Any, data: bytes) -> Any:
    """Decode a struct that could not be decoded at once: fields that fit, one by one."""
    raw = loads(data)
    if type(raw) is not dict:
        return None
    fields: dict[str, Any] = {}
    for field in msgspec.structs.fields(cls):
        if field.encode_name in raw:
            value = raw[field.encode_name]
            try:
                if field.type is msgspec.Raw:
                    fields[field.name] = _slice(value)
                elif field.type == _SLICES:
                    fields[field.name] = [_slice(one) for one in value] if type(value) is list else None
                else:
                    fields[field.name] = msgspec.convert(value, field.type)
            except UNREADABLE:
                continue
    return cls(**fields)
