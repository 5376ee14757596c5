"""One HTTP exchange, seen from outside: started, head, pieces of the body, exactly one ending.

No I/O and no clock of its own beyond ``time.perf_counter``: the same object serves the sync
and the async shells. Its methods may raise (a fault of ours); the shells catch that.
"""

from __future__ import annotations

import sys
from time import perf_counter
from typing import TYPE_CHECKING, Any

from lz_otel._capture.encodings import Decoder, decoder_for
from lz_otel._capture.headers import attempt_status, is_cancellation, lower, transport_error
from lz_otel._guard import guard
from lz_otel.model import Ending

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from lz_otel._capture.calls import Call
    from lz_otel.model import Facts, Request

__all__ = ["SPEND_LIMIT_CODES", "Observer"]

# Codes that mean "the money is gone": waiting and retrying is in vain (Anthropic, OpenAI; D).
SPEND_LIMIT_CODES = frozenset(
    {
        "enforced_spend_limit_reached",
        "contract_spend_limit_reached",
        "ramp_limit_exceeded",
        "credit_balance_exhausted",
        "organization_spend_limit_exceeded",
        "project_spend_limit_exceeded",
        "organization_usage_limit_exceeded",
        "insufficient_quota",
        "billing_hard_limit_reached",
    }
)


class Observer:
    """Watches one attempt and tells its hub once how it ended.

    Attributes:
        status: HTTP status, ``None`` before the head.
        ending, error_type, attempt_status: set when it has ended.
        ended_at: end of the attempt for the purpose of durations (seconds, ``perf_counter``).
    """

    __slots__ = (
        "_decoder",
        "_ended",
        "_feed",
        "_hub",
        "attempt_status",
        "call",
        "encoding_failed",
        "ended_at",
        "ending",
        "error_type",
        "extensions",
        "first_byte_at",
        "generation",
        "head_at",
        "headers",
        "last_byte_at",
        "reader",
        "received",
        "request",
        "started_at",
        "status",
    )

    def __init__(self, hub: Any, call: Call, request: Request, reader: Any, started_at: float) -> None:
        self._hub = hub
        self.call = call
        self.request = request
        self.reader = reader
        self.started_at = started_at
        self.generation = hub.generation
        self.status: int | None = None
        self.headers: Mapping[str, str] = {}
        self.head_at: float | None = None
        self.first_byte_at: float | None = None
        self.last_byte_at: float | None = None
        self.ended_at = started_at
        self.ending = Ending.OK
        self.error_type = ""
        self.attempt_status = ""
        self.received = 0
        self.encoding_failed = False
        self.extensions: Any = None  # of the HTTP request: carries the call over a redirect
        self._decoder: Decoder | None = None
        self._feed = reader.feed
        self._ended = [True]

    @property
    def facts(self) -> Facts:
        """What the reader has found so far."""
        facts: Facts = self.reader.facts
        return facts

    def head(self, status: int, raw_headers: Iterable[tuple[bytes, bytes]]) -> None:
        """The response head has arrived."""
        self.head_at = perf_counter()
        self.status = status
        headers = self.headers = lower(raw_headers)
        self.reader.head(status, headers)
        encoding = headers.get("content-encoding")
        if encoding and encoding.strip().lower() != "identity":
            self._decoder = decoder_for(encoding)
            if self._decoder is None:
                self.encoding_failed = True
                self._feed = _ignore
        self._hub.head_arrived(self)

    def feed(self, data: bytes) -> None:
        """A piece of the body as it came off the wire, before the host gets it."""
        now = self.last_byte_at = perf_counter()
        if self.first_byte_at is None:
            if not data:
                return
            self.first_byte_at = now
        self.received += len(data)
        try:
            if self._decoder is None:
                self._feed(data, now)
            else:
                self._feed_encoded(data, now)
        except BaseException:
            self._distrust()
            raise

    def _distrust(self) -> None:
        """Something of ours failed on the body: first do without the sinks, then without the body."""
        facts = self.facts
        if facts.text_sink is not None or facts.mask_sink is not None:
            facts.text_sink = facts.mask_sink = None
            return
        self._feed = _ignore
        self._decoder = None
        facts.malformed.append("body")

    def feed_decoded(self, content: bytes) -> None:
        """A body that its transport had already read and decoded."""
        self._decoder = None
        self.encoding_failed = False
        self._feed = self.reader.feed
        self.feed(content)

    def _feed_encoded(self, data: bytes, now: float) -> None:
        decoder = self._decoder
        assert decoder is not None
        feed = self._feed
        pieces = decoder.decode(data)
        while True:
            try:
                piece = next(pieces, None)
            except Exception:  # noqa: BLE001 - each codec has error classes of its own
                self.encoding_failed = True
                self._feed = _ignore
                self._decoder = None
                self.facts.malformed.append("encoding")
                return
            if piece is None:
                return
            feed(piece, now)

    def end(self) -> None:
        """The end of the body was reached."""
        self._finish("eof", None, self.last_byte_at or perf_counter())

    def fail(self, error: BaseException) -> None:
        """The transport or the body raised."""
        self._finish("failed", error, perf_counter())

    def close(self) -> None:
        """The host closed the response, read to the end or not."""
        if self._ended:
            context = sys.exc_info()[1]
            if context is not None and is_cancellation(context) and not self.facts.terminal:
                self._finish("failed", context, perf_counter())
            else:
                self._finish("closed", None, self.last_byte_at or perf_counter())

    def drop(self) -> None:
        """The host let go of the body without closing it.

        This runs inside the garbage collector, perhaps in the middle of our own locked code:
        only note it, the hub reports it at its next turn.
        """
        if self._ended:
            self._hub.deferred.append(self)

    def finish_dropped(self) -> None:
        """Report a body that was dropped; called by the hub outside the collector."""
        self._finish("closed", None, self.last_byte_at or self.head_at or perf_counter())

    def _finish(self, kind: str, error: BaseException | None, at: float) -> None:
        try:
            self._ended.pop()
        except IndexError:
            return
        self.ended_at = at
        try:
            self.reader.finish(kind == "eof" or (kind == "closed" and self._fully_read()))
        except Exception as fault:  # noqa: BLE001 - a fault of ours must not lose the call
            guard.fault("extract", fault)
        self._feed = _ignore
        self._conclude(kind, error)
        self._hub.attempt_ended(self)

    def _conclude(self, kind: str, error: BaseException | None) -> None:
        facts = self.facts
        status = self.status
        self.attempt_status = attempt_status(status) if status is not None else "other_error"
        if kind == "failed" and error is not None:
            if is_cancellation(error):
                self.ending = Ending.CANCELLED
                if status is None:
                    self.attempt_status = "cancelled"
            else:
                self.ending = Ending.ERROR
                self.error_type = type(error).__name__
                self.attempt_status = transport_error(error)
            return
        if status is not None and status >= 400:
            self.ending = Ending.ERROR
            self.error_type = self._error_type() or str(status)
        elif facts.error_type or facts.error_code:
            self.ending = Ending.ERROR
            self.error_type = self._error_type() or "_OTHER"
        elif kind == "closed" and not facts.terminal and not self._fully_read():
            self.ending = Ending.ABANDONED
        elif facts.stream and not facts.terminal and not self.encoding_failed and facts.llm_call:
            self.ending = Ending.INCOMPLETE

    def _error_type(self) -> str:
        facts = self.facts
        if facts.error_code in SPEND_LIMIT_CODES:
            return facts.error_code or ""
        return facts.error_type or facts.error_code or ""

    def _fully_read(self) -> bool:
        """Whether all of a body of announced length was read, though nobody asked for its end."""
        length = self.headers.get("content-length")
        return length is not None and length.isdecimal() and int(length[:18]) == self.received


def _ignore(data: bytes, now: float) -> None:
    """Feed of a body that is not read any more."""
