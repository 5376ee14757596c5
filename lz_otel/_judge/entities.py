"""Entities in a text – e-mail addresses, phone and order numbers ... – as digests.

Used to notice an answer that names something of another request (article 004, "ghost context").
All patterns are linear in the text: each may start only where a run of its characters starts,
and every repetition is bounded.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterator

MAX_ENTITIES = 128

_EXPRESSIONS = {
    "email": r"(?<![A-Za-z0-9._%+-])[A-Za-z0-9._%+-]{1,64}@[A-Za-z0-9-]{1,63}(?:\.[A-Za-z0-9-]{2,63}){1,4}",
    "uuid": r"(?<![0-9A-Za-z-])[0-9a-fA-F]{8}(?:-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}(?![0-9A-Za-z-])",
    "iban": r"(?<![0-9A-Za-z])[A-Z]{2}[0-9]{2}(?: ?[A-Z0-9]{4}){3,7}(?: ?[A-Z0-9]{1,3})?(?![0-9A-Za-z])",
    # A named number: "order 12345", "Order-No. AB-123", "订单号：12345"; and "#12345"
    "order": r"(?i)(?:(?<![A-Za-z])(?:order|invoice|ticket|case|booking|tracking|customer|account)"
    r"(?:[ -]?(?:number|no\.?|id))?|订单号?|单号|发票号?|工单号?|#)"
    r"[ ]{0,2}[#:：]?[ ]{0,2}([A-Z0-9][A-Z0-9-]{3,23})(?![A-Za-z0-9@])",
    "phone": r"(?<![\w.+/-])\+?\(?[0-9](?:[ ().-]{0,2}[0-9]){8,14}(?![\w/-])",
}
_PATTERNS = {kind: re.compile(expression) for kind, expression in _EXPRESSIONS.items()}
_WITH_DIGITS = ("uuid", "iban", "order", "phone")
_DATE = re.compile(
    r"(?:19|20)[0-9]{2}[-./ ](?:0?[1-9]|1[0-2])[-./ ]|(?:19|20)[0-9]{2}(?:0[1-9]|1[0-2])(?:[0-2][0-9]|3[01])"
)
_DIGIT_RUN = re.compile(r"[0-9]+")
_BEFORE, _AFTER = 64, 64  # longer than what any pattern needs before its first or after its last digit
_DIGITS = re.compile(r"[^0-9]")
_NOT_PLAIN = re.compile(r"[^0-9a-z]")


class Entity(NamedTuple):
    """One entity: digest of kind and plain form, and the text as found (held for the call only)."""

    digest: int
    text: str


def entities(text: str, limit: int = MAX_ENTITIES) -> list[Entity]:
    """Return the first ``limit`` entities of a text, each once.

    The plain form has no case, blanks or punctuation, so that "+1 (555) 010-9999" and
    "15550109999" are one. Dates, versions and amounts are none.
    """
    collected: dict[int, Entity] = {}
    for kind, raw in _matches(text):
        plain = _plain(kind, raw)
        if plain is not None:
            key = hash((kind, plain))
            collected.setdefault(key, Entity(key, raw))
            if len(collected) >= limit:
                break
    return list(collected.values())


def _matches(text: str) -> Iterator[tuple[str, str]]:
    """Yield kind and text of all that looks like an entity."""
    if "@" in text:
        yield from (("email", match[0]) for match in _PATTERNS["email"].finditer(text))
    # All other kinds hold a digit: only what stands around digits is looked at.
    for start, end in _around_digits(text):
        for kind in _WITH_DIGITS:
            for match in _PATTERNS[kind].finditer(text, start, end):
                yield kind, match[1] if kind == "order" else match[0]


def _around_digits(text: str) -> list[tuple[int, int]]:
    spans: list[tuple[int, int]] = []
    start = end = -1
    for match in _DIGIT_RUN.finditer(text):
        at = match.start()
        if start < 0:
            start = max(0, at - _BEFORE)
        elif at - _BEFORE > end:
            spans.append((start, end))
            start = at - _BEFORE
        end = match.end() + _AFTER
    if start >= 0:
        spans.append((start, end))
    return spans


def _plain(kind: str, raw: str) -> str | None:
    if kind == "email":
        return raw.lower()
    if kind == "phone":
        return None if _DATE.match(raw) else _DIGITS.sub("", raw)
    plain = _NOT_PLAIN.sub("", raw.lower())
    if kind == "order" and not any(char.isdigit() for char in plain):
        return None
    return plain
