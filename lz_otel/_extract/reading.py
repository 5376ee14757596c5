"""One response body on its way to its reader: its encoding is undone, and less is read after a fault."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from lz_otel._extract.encodings import BombError, Decoder, decoder_for

if TYPE_CHECKING:
    from collections.abc import Mapping

    from lz_otel._extract.reader import Reader


def _skip(data: bytes, now: float) -> None:
    """Feed of a body that cannot be read."""


class Reading:
    """Reads one body, piece by piece as it passes or all at once afterwards.

    Args:
        reader: fills the facts.
        status: HTTP status.
        headers: response headers, lower-case names.

    Attributes:
        feed: takes the next piece and the time it came at; may raise (a fault of ours).
        encoding_failed: its encoding is unknown, or could not be undone.
        undecodable: it is not what its encoding says: the client that decodes it raises.
    """

    __slots__ = ("_decoder", "_reader", "encoding_failed", "feed", "undecodable")

    def __init__(self, reader: Reader, status: int, headers: Mapping[str, str]) -> None:
        reader.head(status, headers)
        self._reader = reader
        self._decoder: Decoder | None = None
        self.feed: Any = reader.feed
        self.encoding_failed = self.undecodable = False
        encoding = headers.get("content-encoding")
        if encoding and encoding.strip().lower() != "identity":
            self._decoder = decoder_for(encoding)
            self.encoding_failed = self._decoder is None
            self.feed = _skip if self._decoder is None else self._decode

    @property
    def fed_at(self) -> float:
        """Return when the last piece was fed."""
        return self._reader.fed_at

    @property
    def terminal(self) -> bool:
        """Return whether the body said that it is complete."""
        return self._reader.facts.terminal

    @property
    def plain(self) -> bool:
        """Return whether pieces may go straight to ``feed``: no encoding is left to undo."""
        return self._decoder is None

    def decoded(self) -> None:
        """Take what comes as it is: the transport has undone its encoding already."""
        self._decoder = None
        self.encoding_failed = False
        self.feed = self._reader.feed

    def pieces(self, pieces: list[bytes], now: float) -> None:
        """Read what was kept of the body, the last piece of which came at ``now`` seconds."""
        for piece in pieces:
            try:
                self.feed(piece, now)
            except BaseException:
                self.distrust()
                raise

    def _decode(self, data: bytes, now: float) -> None:
        decoder, feed = self._decoder, self._reader.feed
        if decoder is None:
            return
        pieces = decoder.decode(data)
        while True:
            try:
                piece = next(pieces, None)
            except Exception as fault:  # noqa: BLE001 - each codec has error classes of its own
                self._failed(fault)
                return
            if piece is None:
                return
            feed(piece, now)

    def _failed(self, fault: Exception) -> None:
        self.encoding_failed = True
        self.undecodable = not isinstance(fault, BombError)
        self.feed = _skip
        self._reader.facts.malformed.append("encoding")

    def ended(self) -> None:
        """Note that the body came to its end."""
        if self._decoder is not None and not self.encoding_failed:
            try:
                self._decoder.end()
            except ValueError as fault:
                self._failed(fault)

    def distrust(self) -> None:
        """Read less, since something of ours failed on the body: first without the sinks, then nothing."""
        facts = self._reader.facts
        if facts.text_sink is not None or facts.mask_sink is not None:
            facts.text_sink = facts.mask_sink = None
            return
        self.feed = _skip
        facts.malformed.append("body")
