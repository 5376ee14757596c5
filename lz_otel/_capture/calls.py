"""What belongs together: the attempts of one call, the calls of one operation.

A *call* is what the application's code asked for. The hook on an official SDK's request method
opens one and closes it; without such a hook each attempt is a call of its own.
"""

from __future__ import annotations

from contextvars import ContextVar
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from lz_otel._capture.attempt import Attempt

__all__ = ["Call", "current_call", "current_operation", "current_trace", "inner_seen"]


class Call:
    """One call of the application, with one attempt or several.

    Attributes:
        sdk: an SDK's hook opened it and will close it.
        exited: the hook was left; the call ends with the body of its last attempt.
        open: attempts begun and not ended.
        attempts: attempts begun.
        common: the values of the common attributes, set by the first attempt.
        seen_counts: retry counts (``x-stainless-retry-count``) of the attempts so far.
        last: the attempt that ended last.
        prompt: somebody wants to know of it at once; asked as it begins.
        trace_id: of the span in which it began, where somebody logs it.
        token, span_token: what the SDK's hook undoes when the request method is left.
    """

    __slots__ = (
        "_lives",
        "attempts",
        "cancelled_at",
        "common",
        "exited",
        "first",
        "generation",
        "last",
        "last_status",
        "open",
        "operation",
        "overhead",
        "prompt",
        "sdk",
        "seen_counts",
        "span",
        "span_token",
        "started_at",
        "token",
        "trace_id",
    )

    def __init__(self, started_at: float, *, sdk: bool, operation: Any = None) -> None:
        self.started_at = started_at
        self.sdk = sdk
        self.exited = not sdk
        self.cancelled_at: float | None = None  # the caller's task was cancelled between attempts
        self.first: Attempt | None = None
        self.open = 0
        self.attempts = 0
        self.common: tuple[str, ...] | None = None
        self.seen_counts: list[int] | None = None
        self.last: Attempt | None = None
        self.last_status: str | None = None
        self.operation = operation
        self.generation = 0
        self.overhead: float | None = None
        self.prompt = False
        self.span: Any = None
        self.token: Any = None
        self.span_token: Any = None
        self.trace_id: str | None = None
        self._lives = True

    def end_once(self) -> bool:
        """True for the first caller only: deleting is one step of C."""
        try:
            del self._lives
        except AttributeError:
            return False
        return True

    @property
    def ended(self) -> bool:
        """Whether the call has been reported."""
        return not hasattr(self, "_lives")


current_call: ContextVar[Call | None] = ContextVar("lz_otel_call", default=None)
current_operation: ContextVar[Any] = ContextVar("lz_otel_operation", default=None)
# Set while a custom transport of an instrumented client runs: the innermost transport that
# sees the request reports it, so that a transport around another is not counted twice.
inner_seen: ContextVar[list[bool] | None] = ContextVar("lz_otel_inner_seen", default=None)


def current_trace() -> str | None:
    """Id of the trace that is current here, in hexadecimal; ``None`` outside of any."""
    from opentelemetry import trace  # only where somebody logs calls: importing it takes milliseconds

    context = trace.get_current_span().get_span_context()
    return f"{context.trace_id:032x}" if context.is_valid else None
