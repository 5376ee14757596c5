"""The instrumentation in force, whose store, clocks and memories the demo reads."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lz_otel._runtime import current
from lz_otel.errors import LzOtelError

if TYPE_CHECKING:
    from lz_otel._runtime import _Runtime


def instrumented() -> _Runtime:
    """Return the instrumentation in force.

    Raises:
        LzOtelError: there is none, as with ``OTEL_SDK_DISABLED``.
    """
    runtime = current()
    if runtime is None:
        raise LzOtelError("lz_otel is not instrumenting this process")
    return runtime
