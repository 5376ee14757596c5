"""One HTTP exchange, seen from outside: started, head, pieces of the body, exactly one ending.

No I/O and no clock of its own beyond ``time.perf_counter``: the same object serves the sync
and the async shells. While the host waits it only takes notes: a plain body is read later, many
calls at a time, which costs a third of reading each in between the host's own work. A stream is
read as it passes, since nobody knows its length. Methods may raise (a fault of ours); the shells catch that.
"""

from __future__ import annotations

import sys
from time import perf_counter
from typing import TYPE_CHECKING, Any

from lz_otel._extract.encodings import Decoder, decoder_for
from lz_otel._ground.guard import guard
from lz_otel._ground.headers import attempt_status, is_cancellation, read, transport_error
from lz_otel.model import Ending

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from lz_otel._capture.calls import Call
    from lz_otel.model import Facts, Request

__all__ = ["KEPT_BODY", "SPEND_LIMIT_CODES", "Attempt"]

KEPT_BODY = 262_144
"""Most bytes of a plain body that are kept for later; a longer one is read as it passes."""

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
_JSON = "application/json"
_NO_HEADERS: Mapping[str, str] = {}


class Attempt:
    """Watches one attempt and tells its hub once that it has ended.

    Attributes:
        status: HTTP status, ``None`` before the head.
        headers: response headers: lower-case names, first values.
        reader: reads the answer; ``None`` until somebody needs what it says.
        ended_at: end of the attempt for the purpose of durations (seconds, ``perf_counter``).
        over: it has ended; set by the first of the ways to end.
        ending, error_type, attempt_status: what it came to, once `conclude` has been called.
    """

    __slots__ = (
        "_decoder",
        "_failure",
        "_feed",
        "_how",
        "_open_yet",
        "_opened",
        "_pieces",
        "_straight",
        "attempt_status",
        "call",
        "candidates",
        "encoding_failed",
        "ended_at",
        "ending",
        "error_type",
        "extensions",
        "feed",
        "first_byte_at",
        "generation",
        "head_at",
        "headers",
        "hub",
        "last_byte_at",
        "over",
        "reader",
        "received",
        "request",
        "started_at",
        "status",
    )

    def __init__(self, hub: Any, call: Call, request: Request, candidates: Any, started_at: float) -> None:
        self.hub = hub
        self.call = call
        self.request = request
        self.candidates = candidates
        self.started_at = started_at
        self.generation = hub.generation
        self.reader: Any = None
        self.status: int | None = None
        self.head_at: float | None = None
        self.first_byte_at: float | None = None
        self.last_byte_at: float | None = None
        self.ended_at = started_at
        self.received = 0
        self.encoding_failed = False
        self.extensions: Any = None  # of the HTTP request: carries the call over a redirect
        self.feed: Callable[[bytes, float], None] = self._keep
        self.headers = _NO_HEADERS
        self._pieces: list[bytes] = []
        self._feed: Callable[[bytes, float], None] | None = None
        self._decoder: Decoder | None = None
        self._how = ""
        self._failure: tuple[str, str] | None = None  # class and transport status; "" for cancelled
        self._opened = False
        self._straight = False
        self._open_yet = True
        self.over = False
        self.ending = ""  # not concluded

    @property
    def facts(self) -> Facts:
        """What the reader has found so far."""
        facts: Facts = self.reader.facts
        return facts

    @property
    def weight(self) -> int:
        """Bytes held until this attempt is read."""
        body = self.request.body
        return (0 if body is None else len(body)) + (self.received if self._pieces else 0)

    # --- while the host waits -----------------------------------------------------------------

    def head(self, status: int, headers: Any) -> None:
        """The response head has arrived; ``headers`` as the client's module has them."""
        self.head_at = perf_counter()
        self.status = status
        self.headers = read(headers)
        if not self.headers.get("content-type", "").startswith(_JSON):
            self._read_along()

    def _keep(self, data: bytes, now: float) -> None:
        """A piece of a plain body: kept for later."""
        self.last_byte_at = now
        if self.first_byte_at is None:
            if not data:
                return
            self.first_byte_at = now
        self.received += len(data)
        self._pieces.append(data)
        if self.received > KEPT_BODY:
            self._read_along()

    def _along(self, data: bytes, now: float) -> None:
        """A piece of a body that is read as it passes."""
        if self.first_byte_at is None:
            if not data:
                return
            self.first_byte_at = now
        self.last_byte_at = now
        self.received += len(data)
        if self._feed is not None:
            try:
                self._feed(data, now)
            except BaseException:
                self._distrust()
                raise
            if self._decoder is None and "content-length" not in self.headers:
                self._straight = True  # nothing is left to do here: the reader itself takes what comes
                self.feed = self._feed

    def doubt(self) -> None:
        """`feed` has failed: no piece goes straight to the reader any more."""
        if self._straight:
            self._straight = False
            self.last_byte_at = self.reader.fed_at
            self.feed = self._along
            self._distrust()

    def _read_along(self) -> None:
        """From now on read the body as it passes, after what was kept of it."""
        self.feed = self._along
        if self.hub.ready(self):
            self._open()
        self._pieces = []

    def _open(self) -> None:
        """Give the reader the head and the pieces kept so far."""
        self._opened = True
        reader, headers = self.reader, self.headers
        reader.head(self.status, headers)
        self._feed = reader.feed
        encoding = headers.get("content-encoding")
        if encoding and encoding.strip().lower() != "identity":
            self._decoder = decoder_for(encoding)
            self._feed = self._decode
            if self._decoder is None:
                self.encoding_failed = True
                self._feed = None
        self.hub.head_arrived(self)
        at, pieces = self.last_byte_at, self._pieces
        if pieces and self._how and self._decoder is None and self._feed is not None:
            body = pieces[0] if len(pieces) == 1 else b"".join(pieces)
            if reader.plain(body):
                return
        for piece in pieces:
            if self._feed is None or at is None:
                break
            try:
                self._feed(piece, at)
            except BaseException:
                self._distrust()
                raise

    def _decode(self, data: bytes, now: float) -> None:
        decoder, feed = self._decoder, self.reader.feed
        assert decoder is not None
        pieces = decoder.decode(data)
        while True:
            try:
                piece = next(pieces, None)
            except Exception:  # noqa: BLE001 - each codec has error classes of its own
                self.encoding_failed = True
                self._feed = None
                self.facts.malformed.append("encoding")
                return
            if piece is None:
                return
            feed(piece, now)

    def _distrust(self) -> None:
        """Something of ours failed on the body: first do without the sinks, then without the body."""
        facts = self.facts
        if facts.text_sink is not None or facts.mask_sink is not None:
            facts.text_sink = facts.mask_sink = None
            return
        self._feed = None
        facts.malformed.append("body")

    def whole(self, content: bytes) -> None:
        """A body that its transport had already read and decoded."""
        self.headers = {k: v for k, v in self.headers.items() if k != "content-encoding"}
        self._decoder = None
        if self._opened:
            self.encoding_failed = False
            self._feed = self.reader.feed
        self.feed(content, perf_counter())

    def end(self) -> None:
        """The end of the body was reached."""
        self._finish("eof", None)

    def fail(self, error: BaseException) -> None:
        """The transport or the body raised."""
        self._finish("failed", error)

    def close(self) -> None:
        """The host closed the response, read to the end or not."""
        if not self.over:
            context = sys.exc_info()[1]
            if context is not None and is_cancellation(context) and not self._complete():
                self._finish("failed", context)
            else:
                self._finish("closed", None)

    def drop(self) -> None:
        """The host let go of the body without closing it.

        This runs inside the garbage collector, perhaps in the middle of our own locked code:
        only note it, the hub reports it at its next turn.
        """
        if not self.over:
            self.hub.dropped.append(self)

    def finish_dropped(self) -> None:
        """Report a body that was dropped; called by the hub outside the collector."""
        self._finish("closed", None)

    def _finish(self, how: str, error: BaseException | None) -> None:
        try:
            del self._open_yet  # succeeds once, whoever else tries: one step of C
        except AttributeError:
            return
        self.over = True
        self._how = how
        self.feed = _nothing  # no cycle through a bound method, nothing more to see
        if error is not None:  # the exception itself holds the host's frames: it is not kept
            self.ended_at = perf_counter()
            status = transport_error(error)
            self._failure = ("" if status == "cancelled" else type(error).__name__, status)
        else:  # when the last piece of the body came
            if self._straight:
                self.last_byte_at = self.reader.fed_at
            at = self.last_byte_at
            self.ended_at = at or (self.head_at if how == "closed" else None) or perf_counter()
        self.hub.attempt_ended(self)

    # --- later -----------------------------------------------------------------------------------

    def conclude(self) -> None:
        """Read what was kept, and say what the attempt came to. Called once, by the hub."""
        how = self._how
        try:
            if not self._opened and self.status is not None:
                self._open()
            self.reader.finish(how == "eof" or (how == "closed" and self._fully_read()))
        except Exception as fault:  # noqa: BLE001 - a fault of ours must not lose the call
            guard.fault("extract", fault)
        self._pieces = []
        self._feed = None
        self._say(how)

    def _say(self, how: str) -> None:
        facts, status = self.facts, self.status
        self.ending, self.error_type = Ending.OK, ""
        self.attempt_status = attempt_status(status) if status is not None else "other_error"
        if self._failure is not None:
            name, transport = self._failure
            self.ending = Ending.ERROR if name else Ending.CANCELLED
            self.error_type = name
            self.attempt_status = transport
        elif status is not None and status >= 400:
            self.ending = Ending.ERROR
            self.error_type = self._provider_error() or str(status)
        elif facts.error_type or facts.error_code:
            self.ending = Ending.ERROR
            self.error_type = self._provider_error() or "_OTHER"
        elif how == "closed" and not self._complete():
            self.ending = Ending.ABANDONED
        elif facts.stream and not facts.terminal and not self.encoding_failed and facts.llm_call:
            self.ending = Ending.INCOMPLETE

    def _provider_error(self) -> str:
        facts = self.facts
        if facts.error_code in SPEND_LIMIT_CODES:
            return facts.error_code or ""
        return facts.error_type or facts.error_code or ""

    def _complete(self) -> bool:
        """Whether the whole answer was seen, though nobody read on to the end of the body."""
        return (self.reader is not None and self.facts.terminal) or self._fully_read()

    def _fully_read(self) -> bool:
        length = self.headers.get("content-length")
        return length is not None and length.isdecimal() and int(length[:18]) == self.received


def _nothing(data: bytes, now: float) -> None:
    """Feed of an exchange that has ended."""
