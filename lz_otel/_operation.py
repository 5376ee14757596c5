"""Operations: what the application wanted, made of one call or several.

``with lz_otel.operation("classify-ticket"):`` groups attempts, hedged pairs, retries with other
models and rejected answers into one operation with an outcome. Sync and async, nested, as a
decorator; ``attach()`` carries it into another thread.
"""

from __future__ import annotations

import functools
import inspect
import threading
from contextlib import contextmanager, suppress
from time import perf_counter
from typing import TYPE_CHECKING, Any

from lz_otel._capture.attempt import SPEND_LIMIT_CODES
from lz_otel._capture.calls import current_operation
from lz_otel._ground.guard import guard
from lz_otel._ground.headers import is_cancellation
from lz_otel.catalogue import FALLBACK_REASONS
from lz_otel.model import Ending

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

__all__ = ["CallRecord", "Operation", "fallback_reason"]

_MAX_RECORDS = 64


class CallRecord:
    """What an operation remembers of one of its calls: no content, only how it went."""

    __slots__ = (
        "ended_at",
        "ending",
        "error_type",
        "model",
        "path",
        "provider",
        "rejected",
        "served_by",
        "started_at",
    )

    def __init__(self, ended: Any) -> None:
        self.model: str = ended.common[2]
        self.provider: str = ended.common[1]
        self.started_at: float = ended.started_at
        self.ended_at: float = ended.ended_at
        self.ending: str = ended.ending
        self.error_type: str = ended.error_type
        self.path: str = ended.path
        self.served_by: str = ended.served_by
        self.rejected: str | None = None

    @property
    def answered(self) -> bool:
        """It gave an answer that the application kept."""
        return self.ending == Ending.OK and self.rejected is None

    @property
    def failed(self) -> bool:
        """The provider failed, or the application refused the answer."""
        return self.ending in (Ending.ERROR, Ending.INCOMPLETE) or self.rejected is not None


def fallback_reason(record: CallRecord) -> str:
    """Why a model failed, as a value of the catalogue's closed list."""
    if record.rejected is not None:
        return "rejected"
    error = record.error_type
    if error in SPEND_LIMIT_CODES:
        return "spend_limit"
    lowered = error.lower()
    for word, reason in (
        ("overloaded", "overloaded"),
        ("529", "overloaded"),
        ("rate_limit", "rate_limited"),
        ("ratelimit", "rate_limited"),
        ("429", "rate_limited"),
        ("timeout", "timeout"),
        ("connect", "connection"),
        ("protocolerror", "connection"),
        ("readerror", "connection"),
        ("writeerror", "connection"),
        ("server_error", "server_error"),
        ("api_error", "server_error"),
        ("unavailable", "server_error"),
        ("not_found", "client_error"),
        ("invalid", "client_error"),
        ("permission", "client_error"),
        ("authentication", "client_error"),
    ):
        if word in lowered:
            return reason
    if lowered.isdecimal():
        return "server_error" if lowered >= "500" else "client_error"
    return "other"


class Operation:
    """One operation. Made by `lz_otel.operation`; every method is safe without ``instrument()``.

    Each ``with`` reports one operation (C). An object that was entered before gives a new one of the same
    name, group and session: ``with op as this:`` binds it. That holds one after the other, within itself
    and at the same time. ``op.reject()`` means the operation of ``op`` that is current here, else the one
    entered last; ``op.attach()`` the one entered last.

    Attributes:
        name: reported as ``lz.route``.
        group: A/B group or roll-out stage, reported as ``lz.group``.
        session: groups consecutive calls of one conversation; hashed, never exported.
    """

    def __init__(
        self,
        runtime: Callable[[], Any],
        name: str,
        *,
        session: str | None = None,
        group: str | None = None,
    ) -> None:
        self._runtime = runtime
        self._arguments = (name, session, group)
        self.name = str(name)
        self.group = "" if group is None else str(group)
        self.session = session
        self.parent: Operation | None = None
        self._records: list[CallRecord] = []
        self._calls = 0
        self._open = 0
        self._cache_hit = False
        self._started_at = 0.0
        self._left_at: float | None = None
        self._error = False
        self._token: Any = None
        self._lock = threading.RLock()  # a signal's handler may come back to the thread that holds it
        self._reported = [True]
        self._unused = [True]  # shared with the operations that later entries make: it tells them from others
        self._entered: list[Operation] = []  # and not left
        self._latest: Operation | None = None  # of later entries

    # --- entering and leaving -----------------------------------------------------------

    def __enter__(self) -> Operation:
        one = self
        try:
            self._unused.pop()  # atomic: of two threads one gets it
        except IndexError:  # calls of the entry before may still be open, so it keeps its own state
            name, session, group = self._arguments
            one = self._latest = Operation(self._runtime, name, session=session, group=group)
            one._unused = self._unused
        one.parent = current_operation.get()
        if one.parent is not None:
            if not one.group:
                one.group = one.parent.group
            if one.session is None:
                one.session = one.parent.session
        one._started_at = perf_counter()
        one._token = current_operation.set(one)
        self._entered.append(one)
        return one

    def __exit__(self, exc_type: Any, error: BaseException | None, traceback: Any) -> None:
        one = current_operation.get()
        try:
            self._entered.remove(one)
        except ValueError:  # left in another context than it was entered in
            try:
                one = self._entered.pop()
            except IndexError:
                return
        token, one._token = one._token, None
        with suppress(ValueError):  # as above: the variable dies with that context
            current_operation.reset(token)
        one._left_at = perf_counter()
        try:
            one._error = (
                error is not None and not isinstance(error, GeneratorExit) and not is_cancellation(error)
            )
            if one._open <= 0:
                one._report()
        except Exception as fault:  # noqa: BLE001 - the boundary to the host
            guard.fault("operation", fault)

    async def __aenter__(self) -> Operation:
        return self.__enter__()

    async def __aexit__(self, exc_type: Any, error: BaseException | None, traceback: Any) -> None:
        self.__exit__(exc_type, error, traceback)

    def __call__(self, function: Callable[..., Any]) -> Callable[..., Any]:
        """As a decorator: each run of the function is an operation of its own."""
        name, session, group = self._arguments

        def fresh() -> Operation:
            return Operation(self._runtime, name, session=session, group=group)

        if inspect.iscoroutinefunction(function):

            @functools.wraps(function)
            async def run_async(*args: Any, **kwargs: Any) -> Any:
                with fresh():
                    return await function(*args, **kwargs)

            return run_async
        if inspect.isasyncgenfunction(function) or inspect.isgeneratorfunction(function):
            raise TypeError(
                f"operation({name!r}) cannot decorate the generator {function.__name__!r}: "
                "use 'with lz_otel.operation(...)' inside it"
            )

        @functools.wraps(function)
        def run(*args: Any, **kwargs: Any) -> Any:
            with fresh():
                return function(*args, **kwargs)

        return run

    @contextmanager
    def attach(self) -> Iterator[Operation]:
        """Make this the current operation of another thread (context variables do not follow there)."""
        one = self._latest or self
        token = current_operation.set(one)
        try:
            yield one
        finally:
            with suppress(ValueError):  # left in another context: the variable dies with its own
                current_operation.reset(token)

    # --- what the application tells ------------------------------------------------------

    def reject(self, reason: str = "rejected") -> None:
        """The last answer was not good enough (for example ``schema_invalid``).

        When a fast path served it, that counts as its fallback. Reasons outside the catalogue's list
        are counted as ``other``.
        """
        try:
            one = current_operation.get()
            while one is not None and one._unused is not self._unused:
                one = one.parent
            if one is None:
                one = self._latest or self
            with one._lock:
                record = next((r for r in reversed(one._records) if r.ending == Ending.OK), None)
                if record is None or record.rejected is not None:
                    return
                record.rejected = str(reason)
            runtime = self._runtime()
            if runtime is not None and record.path == "fast":
                allowed = FALLBACK_REASONS.get(record.served_by, ())
                told = reason if reason in allowed else ("other" if "other" in allowed else None)
                if told is not None:
                    runtime.fast_path_given_up(one, record, told, verdict=False)
        except Exception as fault:  # noqa: BLE001 - the boundary to the host
            guard.fault("operation", fault)

    def cache_answered(self, hit: bool) -> None:
        """The application's own response cache was asked."""
        self._cache_hit = self._cache_hit or hit

    # --- what the pipeline tells ----------------------------------------------------------

    def call_begun(self) -> None:
        """A call of this operation, or of one inside it, has begun."""
        with self._lock:
            self._open += 1
        if self.parent is not None:
            self.parent.call_begun()

    def call_ended(self, ended: Any) -> None:
        """A call of this operation, or of one inside it, has ended."""
        self._take(CallRecord(ended), own=True)

    def call_lost(self) -> None:
        """A call of this operation, or of one inside it, will not be reported."""
        with self._lock:
            self._open -= 1
            left = self._left_at is not None and self._open <= 0
        if self.parent is not None:
            self.parent.call_lost()
        if left:
            self._report()

    def _take(self, record: CallRecord, *, own: bool) -> None:
        with self._lock:
            self._open -= 1
            self._calls += 1
            before = list(self._records)
            if len(self._records) < _MAX_RECORDS:
                self._records.append(record)
            left = self._left_at is not None and self._open <= 0
        if own:
            self._compare(record, before)
        if self.parent is not None:
            self.parent._take(record, own=False)
        if left:
            self._report()

    def _compare(self, record: CallRecord, before: list[CallRecord]) -> None:
        """Model fallbacks and hedges show only beside the operation's other calls."""
        runtime = self._runtime()
        if runtime is None:
            return
        failed = [r for r in before if r.failed and r.ended_at <= record.started_at]
        if failed:
            last = max(failed, key=lambda r: r.ended_at)
            if last.model != record.model:
                runtime.model_fallback(self, last.model, record.model, fallback_reason(last))
        for other in before:
            loser, winner = (record, other) if record.ending == Ending.CANCELLED else (other, record)
            overlap = loser.started_at < winner.ended_at and winner.started_at < loser.ended_at
            if overlap and loser.ending == Ending.CANCELLED and winner.answered and winner.path == "full":
                late = loser.ended_at >= winner.ended_at
                runtime.fast_path_given_up(
                    self, loser, "hedge_lost" if late else "fast_timeout", verdict=True
                )

    def _report(self) -> None:
        try:
            try:
                self._reported.pop()
            except IndexError:
                return
            runtime = self._runtime()
            if runtime is not None and self._left_at is not None:
                runtime.operation_ended(self, self._left_at - self._started_at, self._calls, self.outcome())
        except Exception as fault:  # noqa: BLE001 - the boundary to the host
            guard.fault("operation", fault)

    def outcome(self) -> str:
        """``fast``, ``full``, ``fallback`` or ``error``, from the calls so far."""
        records = self._records
        answers = [r for r in records if r.answered]
        if self._error or (records and not answers):
            return "error"
        if not records:
            return "fast" if self._cache_hit else "full"
        answer = max(answers, key=lambda r: r.ended_at)
        gave_up = any(r.rejected is not None and r.path == "fast" for r in records)
        lost = any(r.ending == Ending.CANCELLED for r in records) and answer.path == "full"
        stepped_in = any(r.failed and r.model != answer.model for r in records)
        if gave_up or lost or stepped_in:
            return "fallback"
        return answer.path


def after_fork_in_child() -> None:
    """Locks of the operations that are current here may be held by threads that are gone."""
    one = current_operation.get()
    while one is not None:
        one._lock = threading.RLock()
        one = one.parent
