"""Why a request misses the symbolic engine: the four conditions of article 000, as local estimates.

The thresholds are **A** (article 000, 2.3); how each value is estimated is **C**, since the article gives no
formula but for the structure.
"""

from __future__ import annotations

import hashlib
import re
from collections import deque
from typing import TYPE_CHECKING, Any, NamedTuple

from lz_otel._judge.simhash import Shape, cosine, shape
from lz_otel.explain.causes import Cause, causes
from lz_otel.explain.prompt_parts import PromptParts, words_of

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = [
    "DETERMINISM", "ENTROPY", "SIMILARITY", "STRUCTURE", "ConditionEstimate", "Conditions",
    "RequestHistory", "determinism", "entropy", "explain", "structure",
]  # fmt: skip

STRUCTURE, DETERMINISM, ENTROPY, SIMILARITY = 0.82, 0.94, 2.1, 0.88
"""Thresholds (A, article 000, 2.3): the entropy must be at most, the others at least this."""

_WINDOW, _STEP, _GAIN = 100, 10, 0.15
_MARKS = re.compile(r'[{}:"]')
_PAIR = re.compile(r"[A-Za-z]+:\s*[^\n]+")


class ConditionEstimate(NamedTuple):
    """One condition, estimated.

    Attributes:
        value: the estimate (C).
        threshold: what the article wants (A), in the same unit.
        met: whether the value is on the right side of it.
    """

    value: float
    threshold: float
    met: bool


class Conditions(NamedTuple):
    """Estimates for one request. The article wants all four conditions met.

    Attributes:
        structure: share of structure, 0 to 1; at least 0.82.
        determinism: how surely the output has one form, 0 to 1; at least 0.94.
        entropy: bits per token; at most 2.1.
        similarity: to the nearest request of the history, 0 to 1; at least 0.88. ``None`` without a history.
        causes: what else speaks against a hit, with advice.
    """

    structure: ConditionEstimate
    determinism: ConditionEstimate
    entropy: ConditionEstimate
    similarity: ConditionEstimate | None
    causes: tuple[Cause, ...]


def structure(text: str) -> float:
    """Return the share of structure, 0 to 1 (A).

    A 100-character window slides over the text; one with at least 3 of ``{ } : "``, or at least 2 key-value
    lines, adds 0.15. It moves by 10 characters (C).
    """
    score = 0.0
    last = max(0, len(text) - _WINDOW)
    for start in (*range(0, last, _STEP), last):
        window = text[start : start + _WINDOW]
        if len(_MARKS.findall(window)) >= 3 or len(_PAIR.findall(window)) >= 2:
            score += _GAIN
            if score >= 1:
                return 1.0
    return round(score, 2)


_SCHEMA = re.compile(
    r"(?i)output_schema|json.?schema|\"type\"\s*:\s*\"object\"|\{[A-Za-z_]+\}"
    r"|\b(?:json|csv|xml|yaml)\b|(?:^|[^A-Za-z])(?:json|csv|xml|yaml)(?:$|[^A-Za-z])"
    r"|exactly (?:[0-9]+|one|two|three|four|five)\b|\btrue or false\b|\bone word\b"
    r"|\[[A-Z_]+_(?:PATTERN|REGEX)\]"
)
_ABSOLUTE = re.compile(
    r"(?i)\b(?:exactly|only|strictly|must|no explanations?|nothing else|deterministic)\b"
    r"|仅|只|必须|严格|不要解释"
)
_BOOLEAN = re.compile(r"(?i)\btrue\b.{0,12}\bfalse\b|\b1\b or \b0\b")


def determinism(prompt: PromptParts) -> float:
    """Estimate how surely the output has one form, 0 to 1 (C).

    An explicit format or schema adds 0.5, absolute words 0.3, true/false 0.2, and a schema in the
    request itself all of it; vague quantities, thinking words, contradictory demands and in-context
    examples take 0.3 each.
    """
    parts = ((_SCHEMA, 0.5), (_ABSOLUTE, 0.3), (_BOOLEAN, 0.2))
    value = 0.2 + sum(share for pattern, share in parts if pattern.search(prompt.instructions))
    if prompt.schema is not None:
        value = 1.0
    against = {"vague_quantity", "thinking_words", "contradictory_demands", "in_context_examples"}
    value = min(1.0, value) - 0.3 * len(against & {c.name for c in causes(prompt)})
    return round(max(0.0, value), 2)


# Bits per token by its kind. Chosen so that the article's two examples fall on their own sides.
_BITS = {
    "mark": 0.6, "field": 1.2, "number": 1.2, "format": 1.2, "directive": 2.0, "repeat": 3.0, "prose": 5.6,
}  # fmt: skip
_FORMATS = frozenset((
    "csv", "json", "xml", "yaml", "sql", "html", "schema", "true", "false", "null", "array", "object",
    "string", "integer",
))  # fmt: skip
_DIRECTIVES = frozenset((
    "convert", "extract", "parse", "return", "output", "list", "classify", "validate", "match", "format",
    "map", "split", "into", "to", "from", "the", "following", "of", "as", "and", "将", "以", "下", "转",
    "为", "把", "成", "提", "取", "输", "出", "返", "回",
))  # fmt: skip


def entropy(text: str) -> float:
    """Estimate the bits per token from the kinds of tokens (C).

    Records, key-value pairs, code-like tokens, numbers and format words are cheap, free prose is dear, and
    words that have occurred before are in between. It is no measurement: the frequencies of the
    tokens of so short a text would make a poem's prompt *less* surprising than a table.
    """
    total, count = 0.0, 0
    seen: set[str] = set()
    for line in text.splitlines() or [""]:
        record = _is_record(line)
        for token in words_of(line):
            total += _BITS[_kind(token, record, seen)]
            count += 1
            seen.add(token)
    return round(total / count, 2) if count else 0.0


def _kind(token: str, record: bool, seen: set[str]) -> str:
    lowered = token.lower()
    if not token[0].isalnum() and token[0] != "_":
        return "mark"
    if token[0].isdigit():
        return "number"
    if lowered in _FORMATS:
        return "format"
    if record or "_" in token:
        return "field"
    if lowered in _DIRECTIVES:
        return "directive"
    return "repeat" if token in seen else "prose"


def _is_record(line: str) -> bool:
    """Return whether a line is of a table or of key-value pairs: many separators, and no sentence."""
    tokens = words_of(line)
    words = [t for t in tokens if t[0].isalnum()]
    separators = sum(1 for t in tokens if t in ',;|\t{}[]:"=<>')
    return bool(words) and separators >= 2 and separators * 2 >= len(words)


class RequestHistory:
    """The last requests by digest: 16 bytes of SHA-256 and the counts of their words, no text.

    Args:
        size: most requests remembered.
    """

    def __init__(self, size: int = 1000) -> None:
        self._prefixes: deque[int] = deque(maxlen=size)
        self._shapes: deque[Shape] = deque(maxlen=size)

    def similarity(self, text: str) -> float:
        """Return the similarity to the nearest remembered request, 0 to 1.

        1 when the SHA-256 prefix differs in at most 3 bits (A, which means the same text), else
        the cosine of word counts (C).
        """
        prefix = _prefix(text)
        if any((prefix ^ earlier).bit_count() <= 3 for earlier in self._prefixes):
            return 1.0
        words = shape(text)
        if words is None:
            return 0.0
        return round(max((cosine(words, earlier) for earlier in self._shapes), default=0.0), 4)

    def add(self, text: str) -> None:
        """Remember a request that succeeded."""
        self._prefixes.append(_prefix(text))
        words = shape(text)
        if words is not None:
            self._shapes.append(words)


def _prefix(text: str) -> int:
    return int.from_bytes(hashlib.sha256(text.encode("utf-8", "surrogatepass")).digest()[:16], "big")


def explain(
    request: bytes | str | Mapping[str, Any],
    headers: Mapping[str, str] | None = None,
    history: RequestHistory | None = None,
) -> Conditions:
    """Estimate the four conditions of article 000 for a request, and name what speaks against a hit.

    Thresholds and causes are **A** (stated only in articles 000 and 001), the estimates **C** (our choice).

    Args:
        request: body of a Messages request as bytes or mapping, or the text of a prompt. Whatever cannot be
            read as a request is taken as a text.
        headers: request headers, for the region; names in any case.
        history: earlier requests, for the similarity; it is not changed (`RequestHistory.add` adds one).

    Returns:
        Values with their thresholds, and the causes. It holds no piece of the request.
    """
    prompt = PromptParts.of(request, headers)
    bits, applying = entropy(prompt.text), causes(prompt)
    similar = None
    if history is not None:
        similar = _at_least(SIMILARITY, history.similarity(prompt.text))
        if similar.met and similar.value < 1.0:
            advice = "a nearly identical template is in use beside this one"
            applying += (Cause("several_templates", advice),)
    return Conditions(
        _at_least(STRUCTURE, structure(prompt.text)),
        _at_least(DETERMINISM, determinism(prompt)),
        ConditionEstimate(bits, ENTROPY, bits <= ENTROPY),
        similar,
        applying,
    )


def _at_least(threshold: float, value: float) -> ConditionEstimate:
    return ConditionEstimate(value, threshold, value >= threshold)
