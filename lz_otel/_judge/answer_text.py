"""What the mechanisms need of an answer while it passes: its digest, and a bounded piece of it.

One sink serves all mechanisms of a call. It lives in ``facts.text_sink`` and goes with the call.
"""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

    from lz_otel.model import Facts


class AnswerText:
    """Called with each piece of the output text, in order; about 1 µs per piece."""

    __slots__ = ("_after", "_hash", "_pieces", "_room", "size")

    def __init__(self, after: Callable[[str], None] | None = None) -> None:
        self.size = 0
        self._after = after
        self._hash: hashlib.blake2b | None = None
        self._pieces: list[str] = []
        self._room = 0

    def want_digest(self) -> None:
        """Digest the text from now on."""
        if self._hash is None:
            self._hash = hashlib.blake2b(digest_size=16)

    def want_text(self, limit: int) -> None:
        """Keep the first ``limit`` characters from now on."""
        self._room = max(self._room, limit)

    def __call__(self, piece: str) -> None:
        self.size += len(piece)
        if self._hash is not None:
            self._hash.update(piece.encode("utf-8", "surrogatepass"))
        if self._room > 0:
            self._pieces.append(piece[: self._room])
            self._room -= len(piece)
        if self._after is not None:
            self._after(piece)

    def digest(self) -> bytes | None:
        """Return 16 bytes over the text as it came, white space included; ``None`` without any text."""
        return self._hash.digest() if self._hash is not None and self.size else None

    def text(self) -> str:
        """Return the text kept."""
        return "".join(self._pieces)


def answer_text(facts: Facts) -> AnswerText:
    """Return the sink of this call, put there if need be; one that is not ours goes on being called."""
    sink = facts.text_sink
    if not isinstance(sink, AnswerText):
        sink = facts.text_sink = AnswerText(sink)
    return sink
