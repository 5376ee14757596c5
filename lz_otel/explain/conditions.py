"""Why a request misses the symbolic engine: the four conditions of article 000, as local estimates.

The thresholds are **A** (article 000, 2.3); how each value is estimated is **C**, since the article gives no
formula but for the structure. Nothing here runs on the path of a request: it is for looking
at a prompt at one's desk, and it holds no text.
"""

from __future__ import annotations

import hashlib
import re
from collections import deque
from typing import TYPE_CHECKING, Any, NamedTuple

from lz_otel._judge.simhash import Shape, cosine, shape
from lz_otel.explain.causes import Cause, causes
from lz_otel.explain.prompt import Prompt, words_of

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = [
    "DETERMINISM",
    "ENTROPY",
    "SIMILARITY",
    "STRUCTURE",
    "Condition",
    "Conditions",
    "History",
    "determinism",
    "entropy",
    "explain",
    "structure",
]

STRUCTURE, DETERMINISM, ENTROPY, SIMILARITY = 0.82, 0.94, 2.1, 0.88

_WINDOW, _STEP, _GAIN = 100, 10, 0.15
_MARKS = re.compile(r'[{}:"]')
_PAIR = re.compile(r"[A-Za-z]+:\s*[^\n]+")


class Condition(NamedTuple):
    """One condition: the estimated value, its threshold, and whether it is met."""

    value: float
    threshold: float
    met: bool


class Conditions(NamedTuple):
    """Estimates for one request, all four of which the article wants met.

    Attributes:
        structure: 0 to 1, at least 0.82.
        determinism: 0 to 1, at least 0.94.
        entropy: bits per token, at most 2.1.
        similarity: 0 to 1 to the nearest remembered request, at least 0.88; ``None`` without a history.
        causes: what speaks against it, besides.
    """

    structure: Condition
    determinism: Condition
    entropy: Condition
    similarity: Condition | None
    causes: tuple[Cause, ...]


def structure(text: str) -> float:
    """Share of structure, 0 to 1 (A): a 100-character window slides over the text; one with at least 3 of
    ``{ } : "``, or at least 2 key-value lines, adds 0.15. It moves by 10 characters (C).
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
    r"output_schema|json.?schema|\"type\"\s*:\s*\"object\"|\{[A-Za-z_]+\}"
    r"|\b(?:json|csv|xml|yaml)\b|(?:^|[^A-Za-z])(?:json|csv|xml|yaml)(?:$|[^A-Za-z])"
    r"|exactly (?:[0-9]+|one|two|three|four|five)\b|\btrue or false\b|\bone word\b|\[[A-Z_]+_(?:PATTERN|REGEX)\]",
    re.IGNORECASE,
)
_ABSOLUTE = re.compile(
    r"\b(?:exactly|only|strictly|must|no explanations?|nothing else|deterministic)\b|仅|只|必须|严格|不要解释",
    re.IGNORECASE,
)
_BOOLEAN = re.compile(r"\btrue\b.{0,12}\bfalse\b|\b1\b or \b0\b", re.IGNORECASE)


def determinism(prompt: Prompt) -> float:
    """How surely the output has one form, 0 to 1 (C).

    An explicit format or schema adds 0.5, absolute words 0.3, true/false 0.2, and a schema in the
    request itself all of it; vague quantities, thinking words, contradictory demands and in-context
    examples take 0.3 each.
    """
    text = prompt.instructions
    value = 0.2
    if prompt.schema is not None:
        value = 1.0
    else:
        value += (
            0.5 * bool(_SCHEMA.search(text))
            + 0.3 * bool(_ABSOLUTE.search(text))
            + 0.2 * bool(_BOOLEAN.search(text))
        )
    against = {"vague_quantity", "thinking_words", "contradictory_demands", "in_context_examples"}
    value = min(1.0, value) - 0.3 * len(against & {c.name for c in causes(prompt)})
    return round(max(0.0, value), 2)


# Bits per token by what kind of token it is. Chosen so that the article's two examples fall on their own sides.
_BITS = {
    "mark": 0.6,
    "field": 1.2,
    "number": 1.2,
    "format": 1.2,
    "directive": 2.0,
    "repeat": 3.0,
    "prose": 5.6,
}
_FORMATS = frozenset(
    [
        "csv",
        "json",
        "xml",
        "yaml",
        "sql",
        "html",
        "schema",
        "true",
        "false",
        "null",
        "array",
        "object",
        "string",
        "integer",
    ]
)
_DIRECTIVES = frozenset(
    [
        "convert",
        "extract",
        "parse",
        "return",
        "output",
        "list",
        "classify",
        "validate",
        "match",
        "format",
        "map",
        "split",
        "into",
        "to",
        "from",
        "the",
        "following",
        "of",
        "as",
        "and",
        "将",
        "以",
        "下",
        "转",
        "为",
        "把",
        "成",
        "提",
        "取",
        "输",
        "出",
        "返",
        "回",
    ]
)


def entropy(text: str) -> float:
    """Bits per token, estimated from the kinds of tokens (C).

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
    """A line of a table, or of key-value pairs: many separators for its words, and no sentence."""
    tokens = words_of(line)
    words = [t for t in tokens if t[0].isalnum()]
    separators = sum(1 for t in tokens if t in ',;|\t{}[]:"=<>')
    return bool(words) and separators >= 2 and separators * 2 >= len(words)


class History:
    """The last 1,000 requests, by digest: 16 bytes of SHA-256 and the shape of the text."""

    def __init__(self, size: int = 1000) -> None:
        self._prefixes: deque[int] = deque(maxlen=size)
        self._shapes: deque[Shape] = deque(maxlen=size)

    def similarity(self, text: str) -> float:
        """Similarity to the nearest remembered request, 0 to 1.

        1 when the SHA-256 prefix differs in at most 3 bits (A, which means the same text), else
        the cosine of word counts (C).
        """
        prefix = _prefix(text)
        if any((prefix ^ other).bit_count() <= 3 for other in self._prefixes):
            return 1.0
        own = shape(text)
        if own is None:
            return 0.0
        return round(max((cosine(own, other) for other in self._shapes), default=0.0), 4)

    def add(self, text: str) -> None:
        """Remember a request that succeeded."""
        self._prefixes.append(_prefix(text))
        own = shape(text)
        if own is not None:
            self._shapes.append(own)


def _prefix(text: str) -> int:
    return int.from_bytes(hashlib.sha256(text.encode("utf-8", "surrogatepass")).digest()[:16], "big")


def explain(
    request: bytes | str | Mapping[str, Any],
    headers: Mapping[str, str] | None = None,
    history: History | None = None,
) -> Conditions:
    """Estimate the four conditions for a request, and name what speaks against a hit.

    Args:
        request: body of a Messages request as bytes or mapping, or the text of a prompt.
        headers: request headers, for the region.
        history: earlier requests, for the similarity; it is not changed.
    """
    prompt = Prompt.of(request, headers)
    values = structure(prompt.text), determinism(prompt), entropy(prompt.text)
    similar = None
    found = list(causes(prompt))
    if history is not None:
        value = history.similarity(prompt.text)
        similar = Condition(value, SIMILARITY, value >= SIMILARITY)
        if SIMILARITY <= value < 1.0:
            found.append(Cause("several_templates", "a nearly identical template is in use beside this one"))
    return Conditions(
        Condition(values[0], STRUCTURE, values[0] >= STRUCTURE),
        Condition(values[1], DETERMINISM, values[1] >= DETERMINISM),
        Condition(values[2], ENTROPY, values[2] <= ENTROPY),
        similar,
        tuple(found),
    )
