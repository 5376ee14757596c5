"""What speaks against a fast path in a request, by name: a closed list.

**A**: each cause is stated by article 000 or 001; how it is recognised is **C**.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from typing import TYPE_CHECKING, NamedTuple

from lz_otel.explain.prompt_parts import words_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from lz_otel.explain.prompt_parts import PromptParts

__all__ = ["CAUSES", "Cause", "causes", "courtesy_phrases"]


class Cause(NamedTuple):
    """What speaks against a fast path in a request.

    Attributes:
        name: one of a closed list, such as ``thinking_words``.
        advice: what to do about it, with the place in the articles; never a piece of the prompt.
    """

    name: str
    advice: str


CAUSES = {
    "thinking_words": "ask for the result only; no 'think', 'consider', 'step by step' (000 5.1)",
    "vague_quantity": "give a number in place of 'some', 'several', 'a few', 'approximately' (000 5.1)",
    "unclosed_structure": "close every { [ < (000 5.1)",
    "contradictory_demands": "do not ask for short and detailed at once (000 5.1)",
    "other_region": "only us-east-1 is fully enabled: send anthropic-region: us-east-1 (000 5.1)",
    "in_context_examples": "describe the output by a schema, not by examples (000 5.2)",
    "any_of": "replace anyOf by oneOf or by listing the types (000 5.3)",
    "full_width_punctuation": "use ASCII punctuation (000 5.3)",
    "base64_payload": "decode base64 payloads, or use base64url (000 5.3)",
    "temperature_set": "leave temperature out (000 5.3)",
    "tag_not_first": "put the <layer-zero> tag alone on the first line of the system prompt (001 3.2)",
    "rules_outside_context": "move business rules into <context> (001 3.1)",
    "dates_outside_context": "put absolute dates into <context> (001 3.3)",
    "numbers_unprotected": "declare numbers that must survive in <protected_tokens> (001 5.2)",
    "several_templates": "use one template per route (000 5.3)",
}
"""Advice by name of the cause (A: articles 000 and 001)."""

_THINKING = re.compile(
    r"(?i)\b(?:think|thinking|consider|let'?s analy[sz]e|step by step|reason through)\b|思考|一步一步|逐步"
)
_VAGUE = re.compile(r"(?i)\b(?:some|several|a few|approximately|roughly|about [0-9]+)\b|大约|一些|若干")
_SHORT = re.compile(r"(?i)\b(?:concise|concisely|brief|briefly|short)\b|简洁|简短")
_LONG = re.compile(r"(?i)\b(?:in detail|detailed|explain each|thorough|thoroughly|comprehensive)\b|详细")
_EXAMPLES = re.compile(
    r"(?i)\bexamples? ?[0-9]?\s*[:：]|\bfor example,? [^.\n]{0,200}(?:→|->|=>)|示例\s*[0-9]?\s*[:：]"
)
_FULL_WIDTH = re.compile(r"[\u3002\uff0c\uff1a\uff1b\uff01\uff1f\uff08\uff09\u3001\u201c\u201d]")
_BASE64 = re.compile(r"(?<![A-Za-z0-9+/=])[A-Za-z0-9+/]{120,}={0,2}")
_TAG = re.compile(r"<layer-zero\b")
_FIRST_TAG = re.compile(r"<layer-zero\b[^<>\n]*>[ \t\r]*(?:\n|$)")
_CONTEXT = re.compile(r"<context>.*?(?:</context>|$)", re.DOTALL)
_RULE = re.compile(
    r"(?i)\bif (?:the )?(?:user|customer|client)s? [^.\n]{1,200}\b(?:must|always|never|should)\b"
    r"|如果(?:用户|客户)[^。\n]{1,200}(?:必须|应当|不得)"
)
_DATE = re.compile(r"\b(?:19|20)[0-9]{2}-[01]?[0-9]-[0-3]?[0-9]\b|(?:19|20)[0-9]{2}年[0-9]{1,2}月")
_NUMBERS = re.compile(r"[0-9]+(?:\.[0-9]+)?\s?%|[¥$€]\s?[0-9]|[0-9]+\s?年|七日|年化")
_OPENERS, _CLOSERS = "{[<", "}]>"


def causes(prompt: PromptParts) -> tuple[Cause, ...]:
    """Return the causes that apply to a request, in the order of `CAUSES`."""
    names = set(_names(prompt))
    return tuple(Cause(name, advice) for name, advice in CAUSES.items() if name in names)


def _names(prompt: PromptParts) -> Iterator[str]:
    instructions, system = prompt.instructions, prompt.system
    for name, pattern, text in (
        ("thinking_words", _THINKING, instructions),
        ("vague_quantity", _VAGUE, instructions),
        ("in_context_examples", _EXAMPLES, instructions),
        ("full_width_punctuation", _FULL_WIDTH, prompt.text),
        ("base64_payload", _BASE64, prompt.text),
    ):
        if pattern.search(text):
            yield name
    if _SHORT.search(instructions) and _LONG.search(instructions):
        yield "contradictory_demands"
    if _unclosed(prompt.text):
        yield "unclosed_structure"
    if prompt.region is not None and prompt.region.strip().lower() != "us-east-1":
        yield "other_region"
    if prompt.temperature:
        yield "temperature_set"
    if _has_key(prompt.schema, "anyOf") or '"anyOf"' in instructions:
        yield "any_of"
    tagged = _TAG.search(prompt.text) is not None
    first = _FIRST_TAG.match(system) is not None
    if tagged and not first:
        yield "tag_not_first"
    if tagged:
        bare = _CONTEXT.sub("", system)
        if _RULE.search(bare):
            yield "rules_outside_context"
        if _DATE.search(bare):
            yield "dates_outside_context"
        if _NUMBERS.search("\n".join(prompt.user)) and "<protected_tokens>" not in system:
            yield "numbers_unprotected"


def _unclosed(text: str) -> bool:
    """Return whether a bracket stays open. ``<`` counts only where it begins a tag (``a < b`` does not)."""
    depth = {"{": 0, "[": 0}
    openers = {"}": "{", "]": "["}
    for char in text:
        if char in depth:
            depth[char] += 1
        elif char in openers and depth[openers[char]]:
            depth[openers[char]] -= 1
    return any(depth.values()) or re.search(r"</?[A-Za-z][^<>]*(?:<|$)", text) is not None


def _has_key(value: object, key: str) -> bool:
    stack = [value]
    while stack:
        item = stack.pop()
        if isinstance(item, dict):
            if key in item:
                return True
            stack.extend(item.values())
        elif isinstance(item, list):
            stack.extend(item)
    return False


_COURTESY = frozenset((
    "please", "kindly", "could", "would", "can", "you", "thanks", "thank", "hello", "hi", "dear", "sorry",
    "appreciate", "regards", "grateful", "welcome", "请", "请问", "能不能", "麻烦", "谢谢", "您好", "你好",
    "劳驾", "感谢", "非常感谢", "请务必",
))  # fmt: skip
_CJK_PHRASE = re.compile("|".join(sorted((w for w in _COURTESY if not w.isascii()), key=len, reverse=True)))


def courtesy_phrases(messages: Iterable[str], top: int = 50) -> list[tuple[str, float]]:
    """Return the courtesy phrases of user messages with their weights (TF-IDF; A, 001 6), the heaviest first.

    Single words and pairs of words that hold a word of courtesy, and Chinese set phrases. The weight is the
    number of occurrences times ``1 + log((1 + messages) / (1 + messages that hold it))``.

    Args:
        messages: texts of user messages.
        top: most phrases returned.
    """
    totals: Counter[str] = Counter()
    holders: Counter[str] = Counter()
    count = 0
    for message in messages:
        count += 1
        occurrences = Counter(_phrases(message))
        totals.update(occurrences)
        holders.update(occurrences.keys())
    weights = {p: n * (1 + math.log((1 + count) / (1 + holders[p]))) for p, n in totals.items()}
    return sorted(weights.items(), key=lambda item: (-item[1], item[0]))[:top]


def _phrases(message: str) -> Iterator[str]:
    yield from _CJK_PHRASE.findall(message)
    words = [w.lower() for w in words_of(message)]
    for n, word in enumerate(words):
        if word in _COURTESY and word.isascii():
            yield word
            if n + 1 < len(words) and words[n + 1] in _COURTESY:
                yield f"{word} {words[n + 1]}"
