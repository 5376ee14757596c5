"""One call of the application: the attempts that belong together, and the context variables that say so.

The hook on an official SDK's request method opens a call and closes it; without an SDK the first attempt
that a client sends opens it, and its ``send`` closes it. What is sent without either is one by itself.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextvars import ContextVar
from typing import Any

from msgspec import Struct, field

from lz_otel._ground.once import Once


class Call(Struct, eq=False):
    """One call of the application, with one attempt or several.

    Attributes:
        sdk: an SDK's hook opened it and will close it.
        exited: the hook was left; the call ends with the body of its last attempt.
        raised: class of what the request method raised after a redirect, which then is no answer.
        generation: of the process: a forked child leaves the calls of its parent alone.
        operation: the operation it belongs to, until that has been handed the ended call.
        open: attempts begun and not ended.
        attempts: attempts begun.
        first, last: the `Attempt` that began first, and the one that ended last.
        common: the values of the common attributes, set by the first attempt.
        last_status: what the attempt before came to.
        cancelled_at: when the caller's task was cancelled between attempts.
        urgent: its numbers are wanted at once; asked as it begins.
        overhead: seconds spent inside lz_otel, where that is sampled.
        span: the span that describes it, and whether that is ours to end.
        trace_id: of the span in which it began, where a log wants it.
        token, span_token: what the SDK's hook undoes when the request method is left.
        once: taken by the first of the ways to end.
    """

    started_at: float
    sdk: bool
    exited: bool
    generation: int
    operation: Any = None
    open: int = 0
    attempts: int = 0
    first: Any = None
    last: Any = None
    common: tuple[str, ...] | None = None
    last_status: str | None = None
    cancelled_at: float | None = None
    raised: str = ""
    urgent: bool = False
    overhead: float | None = None
    span: Any = None
    trace_id: str | None = None
    token: Any = None
    span_token: Any = None
    once: Iterator[bool] = field(default_factory=Once)


current_call: ContextVar[Call | None] = ContextVar("lz_otel_call", default=None)
# The client of httpx that is at work here on one request (`transports._Send`)
current_send: ContextVar[Any] = ContextVar("lz_otel_send", default=None)
current_operation: ContextVar[Any] = ContextVar("lz_otel_operation", default=None)
# Set while a custom transport of an instrumented client runs: the innermost transport that
# sees the request reports it, so that a transport around another is not counted twice.
inner_seen: ContextVar[list[bool] | None] = ContextVar("lz_otel_inner_seen", default=None)


def current_trace() -> str | None:
    """Return the id of the trace that is current here, in hexadecimal; ``None`` outside of any."""
    from opentelemetry import trace  # only where calls are logged: importing it takes milliseconds

    context = trace.get_current_span().get_span_context()
    return f"{context.trace_id:032x}" if context.is_valid else None
