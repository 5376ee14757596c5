"""Operations: what the application wanted, made of one call or several.

``with lz_otel.operation("classify-ticket"):`` groups attempts, hedged pairs, retries with other
models and rejected answers into one operation with an outcome. Sync and async, nested, as a
decorator; ``attach()`` carries it into another thread.
"""

from __future__ import annotations

import functools
import inspect
from contextlib import contextmanager, suppress
from time import perf_counter
from typing import TYPE_CHECKING, Any, ParamSpec, Protocol, TypeVar

from lz_otel._capture import threads
from lz_otel._capture.call import current_operation
from lz_otel._extract.ending import failure_reason
from lz_otel._ground.generators import within, within_async
from lz_otel._ground.guard import guarded
from lz_otel._ground.headers import is_cancellation
from lz_otel._ground.lock import lock
from lz_otel._ground.once import Once
from lz_otel.catalogue import FALLBACK_REASONS
from lz_otel.model import Ending

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from types import TracebackType

    from lz_otel.model import EndedCall

P = ParamSpec("P")
R = TypeVar("R")
_MAX_CALLS = 64


class OperationReports(Protocol):
    """What operations are counted by."""

    def model_fallback(self, operation: Operation, source: str, target: str, reason: str) -> None:
        """Count a call to another model after one failed."""

    def fast_path_given_up(
        self, operation: Operation, call: EndedCall, reason: str, *, verdict: bool
    ) -> None:
        """Count a fast answer that was rejected, or a fast attempt that was given up."""

    def operation_ended(self, operation: Operation, seconds: float, calls: int, outcome: str) -> None:
        """Count an operation that was left and whose last call has ended."""


def _answered(call: EndedCall) -> bool:
    """Return whether a call gave an answer that the application kept."""
    return call.ending == Ending.OK and call.rejected is None


def _failed(call: EndedCall) -> bool:
    """Return whether the provider failed, or the application refused the answer."""
    return call.ending in (Ending.ERROR, Ending.INCOMPLETE) or call.rejected is not None


def _model(call: EndedCall) -> str:
    return call.common[2]


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
        reports: Callable[[], OperationReports | None],
        name: str,
        *,
        session: str | None = None,
        group: str | None = None,
    ) -> None:
        self._reports = reports
        self._arguments = (name, session, group)
        self.name = str(name)
        self.group = "" if group is None else str(group)
        self.session = session
        self.parent: Operation | None = None
        self._ended: list[EndedCall] = []  # without content: see `Later`
        self._calls = 0
        self._open = 0
        self._cache_hit = False
        self._started_at = 0.0
        self._left_at: float | None = None
        self._error = False
        self._token: Any = None
        self._lock = lock()  # a signal's handler may come back to the thread that holds it
        self._reported = Once()
        self._first_entry = (
            Once()
        )  # shared with the operations that later entries make: it tells them from others
        self._entered: list[Operation] = []  # and not left
        self._latest: Operation | None = None  # of later entries

    def _fresh(self) -> Operation:
        name, session, group = self._arguments
        return Operation(self._reports, name, session=session, group=group)

    # --- entering and leaving -----------------------------------------------------------

    def __enter__(self) -> Operation:
        operation = self
        if not next(
            self._first_entry, False
        ):  # calls of the entry before may be open: it keeps its own state
            operation = self._latest = self._fresh()
            operation._first_entry = self._first_entry
        threads.carry()
        operation._begin()
        operation._token = current_operation.set(operation)
        self._entered.append(operation)
        return operation

    def _begin(self) -> None:
        self.parent = parent = current_operation.get()
        if parent is not None:
            if not self.group:
                self.group = parent.group
            if self.session is None:
                self.session = parent.session
        self._started_at = perf_counter()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        operation = current_operation.get()
        try:
            self._entered.remove(operation)
        except ValueError:  # left in another context than it was entered in
            try:
                operation = self._entered.pop()
            except IndexError:
                return
        token, operation._token = operation._token, None
        with suppress(ValueError):  # as above: the variable dies with that context
            current_operation.reset(token)
        operation._leave(error)

    def _leave(self, error: BaseException | None) -> None:
        self._left_at = perf_counter()
        with guarded("operation"):
            self._error = (
                error is not None and not isinstance(error, GeneratorExit) and not is_cancellation(error)
            )
            if self._open <= 0:
                self._report()

    async def __aenter__(self) -> Operation:
        return self.__enter__()

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.__exit__(kind, error, traceback)

    def __call__(self, function: Callable[P, R]) -> Callable[P, R]:
        """Decorate a function, coroutine function or generator: each run of it is an operation of its own."""
        decorated: Callable[..., Any]
        wraps: Any = functools.wraps(function)
        if inspect.iscoroutinefunction(function):

            async def run_async(*args: P.args, **kwargs: P.kwargs) -> Any:
                with self._fresh():
                    return await function(*args, **kwargs)

            decorated = run_async
        elif inspect.isasyncgenfunction(function):
            decorated = within_async(lambda: self._fresh()._around(), function)
        elif inspect.isgeneratorfunction(function):
            decorated = within(lambda: self._fresh()._around(), function)
        else:

            def run(*args: P.args, **kwargs: P.kwargs) -> Any:
                with self._fresh():
                    return function(*args, **kwargs)

            decorated = run
        wrapped: Callable[P, R] = wraps(decorated)
        return wrapped

    @contextmanager
    def _around(self) -> Iterator[Operation]:
        """Begin and end it without making it current: a generator's caller goes on in between its steps."""
        self._begin()
        try:
            yield self
        except BaseException as error:
            self._leave(error)
            raise
        self._leave(None)

    @contextmanager
    def attach(self) -> Iterator[Operation]:
        """Make this the current operation of another thread (context variables do not follow there).

        What is submitted to a ``ThreadPoolExecutor`` takes it along by itself, by ``run_in_executor`` too.
        """
        operation = self._latest or self
        token = current_operation.set(operation)
        try:
            yield operation
        finally:
            with suppress(ValueError):  # left in another context: the variable dies with its own
                current_operation.reset(token)

    # --- what the application reports ------------------------------------------------------

    @guarded("operation")
    def reject(self, reason: str = "rejected") -> None:
        """Report that the last answer was not good enough (for example ``schema_invalid``).

        When a fast path served it, that counts as its fallback. Reasons outside the catalogue's list
        are counted as ``other``.
        """
        operation = current_operation.get()
        while operation is not None and operation._first_entry is not self._first_entry:
            operation = operation.parent
        if operation is None:
            operation = self._latest or self
        with operation._lock:
            call = next((c for c in reversed(operation._ended) if c.ending == Ending.OK), None)
            if call is None or call.rejected is not None:
                return
            call.rejected = str(reason)
        reports = self._reports()
        if reports is not None and call.path == "fast":
            allowed = FALLBACK_REASONS.get(call.served_by, ())
            counted = reason if reason in allowed else ("other" if "other" in allowed else None)
            if counted is not None:
                reports.fast_path_given_up(operation, call, counted, verdict=False)

    def cache_answered(self, hit: bool) -> None:
        """Note that the application's own response cache was asked."""
        self._cache_hit = self._cache_hit or hit

    # --- its calls ---------------------------------------------------------------------------

    def call_begun(self) -> None:
        """Note that a call of this operation, or of one inside it, has begun."""
        with self._lock:
            self._open += 1
        if self.parent is not None:
            self.parent.call_begun()

    def call_ended(self, call: EndedCall) -> None:
        """Note that a call of this operation, or of one inside it, has ended."""
        self._take(call, own=True)

    def call_lost(self) -> None:
        """Note that a call of this operation, or of one inside it, will not be reported."""
        with self._lock:
            self._open -= 1
            left = self._left_at is not None and self._open <= 0
        if self.parent is not None:
            self.parent.call_lost()
        if left:
            self._report()

    def _take(self, call: EndedCall, *, own: bool) -> None:
        with self._lock:
            self._open -= 1
            self._calls += 1
            before = list(self._ended)
            if len(self._ended) < _MAX_CALLS:
                self._ended.append(call)
            left = self._left_at is not None and self._open <= 0
        if own:
            self._compare(call, before)
        if self.parent is not None:
            self.parent._take(call, own=False)
        if left:
            self._report()

    def _compare(self, call: EndedCall, before: list[EndedCall]) -> None:
        """Report model fallbacks and hedges, which show only beside the operation's other calls."""
        reports = self._reports()
        if reports is None:
            return
        failed = [c for c in before if _failed(c) and c.ended_at <= call.started_at]
        if failed:
            last = max(failed, key=lambda c: c.ended_at)
            if _model(last) != _model(call):
                reason = "rejected" if last.rejected is not None else failure_reason(last.error_type)
                reports.model_fallback(self, _model(last), _model(call), reason)
        for earlier in before:
            loser, winner = (call, earlier) if call.ending == Ending.CANCELLED else (earlier, call)
            overlap = loser.started_at < winner.ended_at and winner.started_at < loser.ended_at
            if overlap and loser.ending == Ending.CANCELLED and _answered(winner) and winner.path == "full":
                reason = "hedge_lost" if loser.ended_at >= winner.ended_at else "fast_timeout"
                reports.fast_path_given_up(self, loser, reason, verdict=True)

    @guarded("operation")
    def _report(self) -> None:
        if not next(self._reported, False):
            return
        reports = self._reports()
        if reports is not None and self._left_at is not None:
            seconds = max(0.0, self._left_at - self._started_at)
            reports.operation_ended(self, seconds, self._calls, self.outcome())

    def outcome(self) -> str:
        """Return ``fast``, ``full``, ``fallback``, ``error`` or ``empty``, from the calls so far."""
        calls = self._ended
        # A stream that the application has left gave it what it wanted of it
        left = [c for c in calls if c.ending == Ending.ABANDONED and c.rejected is None]
        answers = [c for c in calls if _answered(c)] or left
        if self._error or (calls and not answers):
            return "error"
        if not calls:
            return "fast" if self._cache_hit else "empty"
        answer = max(answers, key=lambda c: c.ended_at)
        gave_up = any(c.rejected is not None and c.path == "fast" for c in calls)
        lost = any(c.ending == Ending.CANCELLED for c in calls) and answer.path == "full"
        stepped_in = any(_failed(c) and _model(c) != _model(answer) for c in calls)
        return "fallback" if gave_up or lost or stepped_in else answer.path


def after_fork_in_child() -> None:
    """Replace the locks of the operations that are current here: threads that are gone may hold them."""
    operation = current_operation.get()
    while operation is not None:
        operation._lock = lock()
        operation = operation.parent
