"""One HTTP attempt, seen from outside: its head, the pieces of its body, and exactly one end.

While the host waits an attempt only takes notes: a plain body is kept and read later, many calls at a time,
which costs a third of reading each in between the host's own work. A stream is read as it passes, since
its length is not known. What reads it is handed in; nothing here knows how. No I/O, and no clock of its own
beyond ``time.perf_counter``.

The two shells around a response body hold no decision: the host gets the same bytes, in the same pieces, and
the same exception, whatever happens here.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from time import perf_counter
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from msgspec import Struct, field

from lz_otel._capture.call import Call
from lz_otel._ground.guard import guard, guarded
from lz_otel._ground.headers import NO_HEADERS, Headers, failure, is_cancellation, read_head, without
from lz_otel._ground.once import Once
from lz_otel.model import Request

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from types import ModuleType

Feed = Callable[[bytes, float], None]

KEPT_BODY = 262_144
"""Most bytes of a plain body that are kept for later; a longer one is read as it passes."""
KEPT_PIECES = 1000
"""The same for its pieces, each of which is an object: in pieces of two bytes 256 KiB would take 6 MB."""


class PassingBody(Protocol):
    """What reads a body while it passes.

    Attributes:
        feed: takes a decoded or encoded piece and the time it came at; may raise (a fault of ours).
        fed_at: when the last piece was fed.
        plain: nothing is left to undo, so pieces may go straight to ``feed``.
    """

    feed: Feed

    @property
    def fed_at(self) -> float: ...

    @property
    def plain(self) -> bool: ...

    @property
    def terminal(self) -> bool:
        """Return whether the body stated that it is complete."""

    def distrust(self) -> None:
        """Read less of this body: something of ours has failed on it."""

    def decoded(self) -> None:
        """Take what comes as it is: the transport has undone its encoding already."""


class Handed(NamedTuple):
    """What capture is handed by those who use its notes.

    Attributes:
        read_along: begin to read a body as it passes; ``None`` where there is nothing to read.
        ended: an attempt has ended, in whatever way.
        dropped: its body was let go of without being closed. Called by finalizers, perhaps within our own
            locked code: it may only note that.
        lost: a fault of ours has lost track of a call.
    """

    read_along: Callable[[Attempt], PassingBody | None]
    ended: Callable[[Attempt], None]
    dropped: Callable[[Attempt], None]
    lost: Callable[[Call], None]


def _nothing(data: bytes, now: float) -> None:
    """Feed of an attempt that has ended."""


class Attempt(Struct, eq=False):
    """Notes of one HTTP attempt. Methods may raise (a fault of ours); those who call them catch that.

    Attributes:
        candidates: what may read it, by its path.
        feed: takes the next piece of the body and the time it came at.
        status: HTTP status, ``None`` before the head.
        headers: response headers: lower-case names, first values.
        pieces: the kept part of a plain body.
        received: bytes of the body so far, as they came; not counted where pieces go straight to the reader.
        weight: bytes held until this attempt is read.
        body: what reads the body as it passes, if it is read so.
        reader: what reads the answer (`_extract`); ``None`` until that is needed.
        outcome: what it came to (`_extract.ending`), once it has been read.
        how: ``eof``, ``closed`` or ``failed``; empty until the end.
        failure: class of the exception (empty for a cancellation) and status of the transport.
        ended_at: end of the attempt for the purpose of durations, seconds.
        over: it has ended.
        once: taken by the first of the ways to end.
    """

    handed: Handed
    call: Call
    request: Request
    candidates: Any
    started_at: float
    ended_at: float
    feed: Feed = _nothing
    status: int | None = None
    headers: Headers = NO_HEADERS
    head_at: float | None = None
    first_byte_at: float | None = None
    last_byte_at: float | None = None
    pieces: list[bytes] = []
    received: int = 0
    weight: int = 0
    body: PassingBody | None = None
    reader: Any = None
    outcome: Any = None
    straight: bool = False
    how: str = ""
    failure: tuple[str, str] | None = None
    over: bool = False
    once: Iterator[bool] = field(default_factory=Once)

    def head(self, status: int, headers: Any) -> None:
        """Note the response head; ``headers`` as the client's module has them."""
        self.head_at = perf_counter()
        self.status = status
        self.headers, is_json = read_head(headers)
        if is_json:
            self.feed = self._keep
        else:
            self._read_along()

    def _keep(self, data: bytes, now: float) -> None:
        """Keep a piece of a plain body for later."""
        self.last_byte_at = now
        if self.first_byte_at is None:
            if not data:
                return
            self.first_byte_at = now
        self.received += len(data)
        self.pieces.append(data)
        if self.received > KEPT_BODY or len(self.pieces) > KEPT_PIECES:
            self._read_along()

    def _along(self, data: bytes, now: float) -> None:
        """Take a piece of a body that is read as it passes."""
        if self.first_byte_at is None:
            if not data:
                return
            self.first_byte_at = now
        self.last_byte_at = now
        self.received += len(data)
        body = self.body
        if body is not None:
            body.feed(data, now)
            if body.plain and "content-length" not in self.headers:
                self.straight = True  # nothing is left to do here
                self.feed = body.feed

    def doubt(self) -> None:
        """Let no piece go straight to the reader any more: `feed` has failed."""
        body = self.body
        if body is None:
            return
        if self.straight:
            self.straight = False
            self.last_byte_at = body.fed_at
            self.feed = self._along
        body.distrust()

    def _read_along(self) -> None:
        """Read the body as it passes from now on, after what was kept of it."""
        self.feed = self._along
        self.body = self.handed.read_along(self)
        self.pieces = []

    def decoded(self) -> None:
        """Note that the transport undoes the encoding of the body before it comes here."""
        self.headers = without(self.headers, "content-encoding")
        if self.body is not None:
            self.body.decoded()

    def whole(self, content: bytes) -> None:
        """Note a body that its transport had already read and decoded."""
        self.decoded()
        self.feed(content, perf_counter())

    def end(self) -> None:
        """Note that the end of the body was reached."""
        self.finish("eof")

    def fail(self, error: BaseException) -> None:
        """Note that the transport or the body raised."""
        if not next(self.once, False):
            return
        self.failure = failure(error)  # the exception itself holds the host's frames: it is not kept
        self.ended_at = perf_counter()
        self._over("failed")

    def close(self) -> None:
        """Note that the host closed the response, read to the end or not."""
        if not self.over:
            context = sys.exc_info()[1]
            if context is not None and is_cancellation(context) and not self.complete():
                self.fail(context)
            else:
                self.finish("closed")

    def drop(self) -> None:
        """Note that the host let go of the body without closing it; called by finalizers."""
        if not self.over:
            self.handed.dropped(self)

    def finish(self, how: str) -> None:
        """End without an exception, when the last piece of the body came."""
        if not next(self.once, False):
            return
        if self.straight and self.body is not None:
            self.last_byte_at = self.body.fed_at
        self.ended_at = self.last_byte_at or (self.head_at if how == "closed" else None) or perf_counter()
        self._over(how)

    def _over(self, how: str) -> None:
        self.over = True
        self.how = how
        self.feed = _nothing  # no cycle through a bound method, nothing more to see
        body = self.request.body
        self.weight = (0 if body is None else len(body)) + (self.received if self.pieces else 0)
        self.handed.ended(self)

    def complete(self) -> bool:
        """Return whether the whole answer was seen, read on to the end of the body or not."""
        return (self.body is not None and self.body.terminal) or self.fully_read()

    def fully_read(self) -> bool:
        """Return whether as many bytes came as the head announced."""
        length = self.headers.get("content-length")
        return length is not None and length.isdecimal() and int(length[:18]) == self.received


# --- the boundary to the host --------------------------------------------------------------------


def take_notes(method: Callable[..., Any], attempt: Attempt, *arguments: Any) -> None:
    """Call a method of `Attempt`; a fault of ours ends here, and the attempt with it."""
    try:
        method(attempt, *arguments)
    except Exception as fault:  # noqa: BLE001 - the boundary to the host
        guard.fault("capture", fault)
        with guarded("capture"):
            attempt.handed.lost(attempt.call)


def take_piece(attempt: Attempt, data: bytes) -> None:
    """Note a piece of a body as it comes. Never raises. (The shells do it in line: it costs them a call.)"""
    try:
        attempt.feed(data, perf_counter())
    except Exception as fault:  # noqa: BLE001 - the boundary to the host
        _feed_fault(attempt, fault)


def attach(shell: Any, attempt: Attempt, response: Any, error: BaseException | None) -> None:
    """Note the head of a response, and its body as the host reads it, or what was raised. Never raises."""
    if error is not None:
        take_notes(Attempt.fail, attempt, error)
        return
    try:
        attempt.head(response.status_code, response.headers)
    except Exception as fault:  # noqa: BLE001 - the boundary to the host
        guard.fault("extract", fault)
    try:
        if not response.is_stream_consumed:
            stream = response.stream
            response.stream = (shell.both if isinstance(stream, shell.other) else shell)(stream, attempt)
            return
        attempt.whole(response.content)
    except Exception as fault:  # noqa: BLE001 - the boundary to the host
        guard.fault("capture", fault)
    take_notes(Attempt.end, attempt)


def _feed_fault(attempt: Attempt, fault: Exception) -> None:
    guard.fault("extract", fault)
    take_notes(Attempt.doubt, attempt)


class _Shell:
    """What both shells share: the inner stream, the attempt, and being dropped.

    Attributes:
        over: the class of a shell whose body is over.
        other: what a stream is that can be read in the other way, too. It may have gone through a transport
            of one kind and be read by a client of the other.
        both: the shell around such a stream.
    """

    over: Any
    other: Any
    both: Any

    def __init__(self, inner: Any, attempt: Attempt) -> None:
        self._inner = inner
        self._attempt = attempt

    def __getattr__(self, name: str) -> Any:
        if name in ("_inner", "_attempt"):
            raise AttributeError(name)
        return getattr(self._inner, name)


def _dropped(shell: Any) -> None:
    """Finalize a shell whose body is not over."""
    attempt = shell.__dict__.get("_attempt")
    if attempt is not None and not attempt.over:
        take_notes(Attempt.drop, attempt)


_SHELLS: dict[str, tuple[Any, Any]] = {}


def shells(module: ModuleType) -> tuple[Any, Any]:
    """Return the sync and the async shell for ``httpx`` or ``httpx2``, made from its classes."""
    made = _SHELLS.get(module.__name__)
    if made is not None:
        return made

    class SyncBody(_Shell, module.SyncByteStream):  # type: ignore[misc, name-defined]
        def __iter__(self) -> Iterator[bytes]:
            attempt = self._attempt
            try:
                for piece in self._inner:
                    try:
                        attempt.feed(piece, perf_counter())
                    except Exception as fault:  # noqa: BLE001 - the boundary to the host
                        _feed_fault(attempt, fault)
                    yield piece
            except GeneratorExit:
                take_notes(Attempt.drop, attempt)
                raise
            except BaseException as error:
                take_notes(Attempt.fail, attempt, error)
                raise
            take_notes(Attempt.end, attempt)
            self.__class__ = self.over

        def close(self) -> None:
            take_notes(Attempt.close, self._attempt)
            self.__class__ = self.over
            self._inner.close()

    class AsyncBody(_Shell, module.AsyncByteStream):  # type: ignore[misc, name-defined]
        async def __aiter__(self) -> AsyncIterator[bytes]:
            attempt = self._attempt
            try:
                async for piece in self._inner:
                    try:
                        attempt.feed(piece, perf_counter())
                    except Exception as fault:  # noqa: BLE001 - the boundary to the host
                        _feed_fault(attempt, fault)
                    yield piece
            except GeneratorExit:
                take_notes(Attempt.drop, attempt)
                raise
            except BaseException as error:
                take_notes(Attempt.fail, attempt, error)
                raise
            take_notes(Attempt.end, attempt)
            self.__class__ = self.over

        async def aclose(self) -> None:
            take_notes(Attempt.close, self._attempt)
            self.__class__ = self.over
            await self._inner.aclose()

    class BothBody(SyncBody, AsyncBody):
        pass

    unread: list[Any] = []
    for over, other in (
        (SyncBody, module.AsyncByteStream),
        (AsyncBody, module.SyncByteStream),
        (BothBody, ()),
    ):
        # Only until the body is over: what a signal's handler raises in a finalizer never reaches the host
        over.over = over
        attributes = {"__del__": _dropped, "other": other}
        unread.append(type(f"Unread{over.__name__}", (over,), attributes))
    unread[0].both = unread[1].both = unread[2]
    _SHELLS[module.__name__] = (unread[0], unread[1])
    return _SHELLS[module.__name__]
