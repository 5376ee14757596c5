"""A 128-bit digest of a text that is close for texts that share most of their words.

Built from Python's keyed hash of single words, so it says nothing about the words and nothing at all outside
the process. The cosine of two texts' word counts is estimated from the bits that differ.
"""

from __future__ import annotations

import math
import re
from array import array

__all__ = ["BITS", "differing_bits", "simhash", "similarity"]

BITS = 128
_WORDS = re.compile(r"[A-Za-z_]+|[0-9]+|[^\x00-\x7f]")
_MAX_WORDS = 4096
_LANES = 16  # bytes of one digest


def simhash(text: str) -> int:
    """Digest of the first 4,096 words of a text (CJK: characters); 0 for a text without words.

    All bits are summed at once: the digests lie side by side in one long number, and a mask picks
    the same bit of each.
    """
    words = _WORDS.findall(text)
    if not words:
        return 0
    if len(words) > _MAX_WORDS:
        del words[_MAX_WORDS:]
    first = array("q", map(hash, words))
    second = array("q", map(hash, [(word, 1) for word in words]))
    count = len(words)
    ones = int.from_bytes(b"\x01" * count, "little")
    half = count / 2
    out, at = 0, 0
    for data in (first.tobytes(), second.tobytes()):
        for lane in range(8):
            column = int.from_bytes(data[lane::8], "little")
            for bit in range(8):
                if ((column >> bit) & ones).bit_count() > half:
                    out |= 1 << at
                at += 1
    return out


def similarity(one: int, other: int) -> float:
    """Estimated cosine, 0 to 1 (exact 1 for equal digests)."""
    return max(0.0, math.cos(math.pi * (one ^ other).bit_count() / BITS))


def differing_bits(threshold: float) -> int:
    """Most bits that may differ for a similarity above ``threshold``."""
    return math.ceil(math.acos(threshold) / math.pi * BITS) - 1
