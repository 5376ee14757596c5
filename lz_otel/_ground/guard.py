"""The fail-open boundary: whatever fails inside lz_otel is counted, logged once, and never raised.

One thing passes: what a signal's handler of the host raises while the host's thread happens to be in our code
(a soft time limit, say). It is meant for the host.

``Exception`` is caught, ``MemoryError`` and ``RecursionError`` included; ``KeyboardInterrupt``,
``SystemExit`` and cancellation are not ours to swallow. The log line holds the place and the exception's
class only: a message or a traceback with locals might quote a prompt.
"""

from __future__ import annotations

import functools
import logging
import signal
import threading
import time
import traceback
from typing import TYPE_CHECKING, Any, ParamSpec, TypeVar

from lz_otel._ground.lock import lock

if TYPE_CHECKING:
    from collections.abc import Callable

_P = ParamSpec("_P")
_R = TypeVar("_R")
_LOG = logging.getLogger("lz_otel")
_QUIET_SECONDS = 60.0
_OWN = __file__.rpartition("_ground")[0]  # where our code is, and no handler of a host


class Guard:
    """Counts faults of lz_otel by place, and logs each kind at most once a minute."""

    def __init__(self) -> None:
        self.on_fault: Callable[[str], None] | None = None
        self.on_lost: Callable[[str, float], None] | None = None
        self.strict = False  # tests of our own may ask to see the fault
        self._lock = lock()
        self._logged: dict[tuple[str, str], float] = {}

    def fault(self, where: str, error: BaseException) -> None:
        """Note a swallowed fault. Raises nothing but what a signal's handler of the host has raised.

        Args:
            where: a value of the catalogue's list for ``lz.internal.errors``.
            error: what was caught.
        """
        try:
            theirs = self.strict or _is_the_hosts(error)
        except RecursionError:  # no room even to look
            theirs = False
        if theirs:
            raise error
        try:
            self._note(where, error)
        except RecursionError:  # this is the last line of defence: there is nowhere to report to
            return
        except Exception as another:
            if _is_the_hosts(another):
                raise

    def _note(self, where: str, error: BaseException) -> None:
        if self.on_fault is not None:
            try:
                self.on_fault(where)
            except Exception as another:  # what cannot be counted is logged all the same
                if _is_the_hosts(another):
                    raise
        kind = (where, type(error).__name__)
        now = time.monotonic()
        with self._lock:
            last = self._logged.get(kind)
            quiet = last is not None and now - last < _QUIET_SECONDS
            if not quiet:
                self._logged[kind] = now
        if not quiet:
            _LOG.warning(
                "lz_otel: a fault in %s was swallowed (%s%s); "
                "your calls are not affected, some numbers may be missing",
                where,
                kind[1],
                _place(error),
            )

    def count(self, where: str) -> None:
        """Count a fault of which the caller says more in a log line of its own. Raises nothing."""
        if self.on_fault is not None:
            try:
                self.on_fault(where)
            except Exception as error:  # noqa: BLE001 - as `fault`, which logs it
                self.fault("measure", error)

    def lost(self, what: str, number: float = 1.0) -> None:
        """Count what cannot be kept. Raises nothing; the caller says what it means in a log line of its own.

        Args:
            what: a value of the catalogue's list for ``lz.internal.lost``.
            number: calls, entries or spans.
        """
        if self.on_lost is not None:
            try:
                self.on_lost(what, number)
            except Exception as error:  # noqa: BLE001 - as `fault`, which counts it
                self.fault("measure", error)

    def reset(self) -> None:
        """Forget what was logged (tests, forked children)."""
        self._lock = lock()
        self._logged.clear()


def _is_the_hosts(error: BaseException) -> bool:
    """Return the same as `_of_a_signal`; false where even that fails (no room, no memory, an odd handler)."""
    try:
        return _of_a_signal(error)
    except Exception as another:  # noqa: BLE001 - whatever it is, the fault itself must not go on
        try:
            if _of_a_signal(another):
                raise another from None
        except (RecursionError, MemoryError):
            pass
        return False


def _of_a_signal(error: BaseException) -> bool:
    """Return whether a signal's handler raised it: these run between any two steps of the main thread."""
    if threading.current_thread() is not threading.main_thread():
        return False
    frames = {frame.f_code for frame, _ in traceback.walk_tb(error.__traceback__)}
    frames = {code for code in frames if not code.co_filename.startswith(_OWN)}
    return bool(frames) and any(
        _code(signal.getsignal(number)) in frames for number in signal.valid_signals()
    )


def _code(handler: Any) -> Any:
    """Return the code that a handler runs: a function's, a method's, a partial's or an object's."""
    while isinstance(handler, functools.partial):
        handler = handler.func
    if not callable(handler):  # the default, or ignored
        return None
    code = getattr(handler, "__code__", None)
    return code or getattr(type(handler).__call__, "__code__", None)


def _place(error: BaseException) -> str:
    """File and line of the innermost frame, without values."""
    tb = error.__traceback__
    if tb is None:
        return ""
    while tb.tb_next is not None:
        tb = tb.tb_next
    name = tb.tb_frame.f_code.co_filename.rpartition("/")[2]
    return f" at {name}:{tb.tb_lineno}"


guard = Guard()


class _Guarded:
    """Swallows what fails inside it, as a context manager and as a decorator. It holds no state."""

    __slots__ = ("_where",)

    def __init__(self, where: str) -> None:
        self._where = where

    def __enter__(self) -> None:
        """Nothing is kept."""

    def __exit__(self, kind: object, error: BaseException | None, traceback: object) -> bool:
        if not isinstance(error, Exception):
            return False
        guard.fault(self._where, error)
        return True

    def __call__(self, function: Callable[_P, _R]) -> Callable[_P, _R | None]:
        """Decorate a function whose faults end in it: it then returns ``None``."""
        where = self._where

        @functools.wraps(function)
        def run(*args: _P.args, **kwargs: _P.kwargs) -> _R | None:
            try:
                return function(*args, **kwargs)
            except Exception as error:  # noqa: BLE001 - the boundary to the host
                guard.fault(where, error)
                return None

        return run


@functools.cache
def guarded(where: str) -> _Guarded:
    """Guard a block (``with guarded("judge"):``) or a function (``@guarded("judge")``).

    Args:
        where: a value of the catalogue's list for ``lz.internal.errors``, under which a fault is counted.
    """
    return _Guarded(where)
