"""How much two texts resemble each other, computed from digests: the cosine of their word counts.

A text becomes a 128-bit mark, near for texts that share words, and the keyed digests of its words. The marks
find candidates among many texts in microseconds; the cosine of a candidate is then exact. Neither says
anything about the text outside the process.
"""

from __future__ import annotations

import math
import re
import secrets
from array import array
from collections import Counter
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Sequence

BITS = 128
MAX_WORDS = 1024
_WORDS = re.compile(r"[A-Za-z_]+|[0-9]+|[^\x00-\x7f]")
_END = 8192
_CANDIDATES = 3
_SLACK = 20  # bits by which a mark may be off: six standard errors at a cosine of 0.9
_SALT = secrets.randbits(60)


class Shape(NamedTuple):
    """What is kept of a text: its mark, and one 64-bit digest per word, 8 bytes each."""

    mark: int
    words: array[int]


def shape(text: str) -> Shape | None:
    """Return the shape of a text (CJK: characters are words); ``None`` without words.

    Of a long text its first and its last 512 words count: what calls share is at the front, what
    they ask is at the end.

    The bits of all digests are summed at once: the digests lie side by side in one long number,
    and a mask picks the same bit of each.
    """
    if len(text) > 2 * _END:
        text = f"{text[:_END]} {text[-_END:]}"
    words = _WORDS.findall(text)
    if not words:
        return None
    del words[MAX_WORDS // 2 : -MAX_WORDS // 2]
    first = array("q", map(hash, words))
    second = array("q", map(hash, [(word, _SALT) for word in words]))
    ones = int.from_bytes(b"\x01" * len(words), "little")
    half = len(words) / 2
    mark, at = 0, 0
    for data in (first.tobytes(), second.tobytes()):
        for lane in range(8):
            column = int.from_bytes(data[lane::8], "little")
            for bit in range(8):
                if ((column >> bit) & ones).bit_count() > half:
                    mark |= 1 << at
                at += 1
    return Shape(mark, second)


def cosine(a: Shape, b: Shape) -> float:
    """Return the cosine of the word counts, 0 to 1."""
    small, large = sorted((Counter(a.words), Counter(b.words)), key=len)
    dot = sum(count * large[word] for word, count in small.items() if word in large)
    norms = math.sqrt(sum(n * n for n in small.values()) * sum(n * n for n in large.values()))
    return min(1.0, dot / norms)


def differing_bits(threshold: float) -> int:
    """Return in how many bits the marks of two texts of that cosine differ on the average."""
    return math.ceil(math.acos(threshold) / math.pi * BITS)


def resembles(text: Shape, others: Sequence[Shape], threshold: float) -> bool:
    """Return whether the cosine to another is above a threshold; only the three nearest marks count."""
    mark = text.mark
    limit = differing_bits(threshold) + _SLACK
    near = [(bits, n) for n, other in enumerate(others) if (bits := (mark ^ other.mark).bit_count()) <= limit]
    near.sort()
    return any(cosine(text, others[n]) > threshold for _, n in near[:_CANDIDATES])
