"""The end of this process, however it comes, as far as Python code can still run.

What is registered here is done once: by atexit, or right before a call of ``os._exit`` (children of
multiprocessing, billiard, Celery and RQ leave with it) or a ``signal.raise_signal`` that is going to kill
(uvicorn leaves with it): neither runs exit hooks. So both functions are wrapped while something is
registered. No signal's handler is set: a process that a signal kills loses what it has not sent.

All that is registered shares one limit of time.
"""

from __future__ import annotations

import atexit
import functools
import os
import signal
import time
from typing import TYPE_CHECKING, NoReturn

from lz_otel._ground.guard import guarded

if TYPE_CHECKING:
    from collections.abc import Callable

LIMIT = 1.5  # seconds that an end may be held up, by all together (C)
_DEADLY = {"SIGHUP", "SIGINT", "SIGQUIT", "SIGTERM", "SIGUSR1", "SIGUSR2"}
_JUST_NOW = 5.0  # seconds
_waited = (float("-inf"), 0.0)  # when an application that ends has waited in vain, and for how long
_calls: list[Callable[[float], object]] = []
_exit, _raise_signal = os._exit, signal.raise_signal


def takes_part(exporter: object) -> bool:
    """Return whether an exporter has something to do as the process ends: push, or write its files."""
    return hasattr(exporter, "begin_stop") or hasattr(exporter, "failing")


def at_end(call: Callable[[float], object]) -> None:
    """Call with the seconds that are left as this process ends; what comes last is called first."""
    if not _calls:
        atexit.register(run)
        _wrap()
    _calls.append(call)


def remove(call: Callable[[float], object]) -> None:
    """Take back an `at_end`; no error when there was none."""
    if call not in _calls:
        return
    _calls.remove(call)
    if not _calls:
        atexit.unregister(run)
        if os._exit is _exit_after_all:
            os._exit = _exit
        if signal.raise_signal is _raise_signal_after_all:
            signal.raise_signal = _raise_signal


def waited(seconds: float) -> None:
    """Note that the end of the application, which comes before that of the process, has waited in vain."""
    global _waited
    _waited = (time.monotonic(), seconds)


def run() -> None:
    """Do all that is registered, once, within `LIMIT`."""
    now, (at, seconds) = time.monotonic(), _waited
    end = now + max(0.1, LIMIT - (seconds if now - at < _JUST_NOW else 0.0))
    while _calls:
        call = _calls.pop()
        with guarded("export"):
            call(max(0.0, end - time.monotonic()))


@functools.wraps(_exit)
def _exit_after_all(status: int) -> NoReturn:
    try:
        run()
    finally:
        _exit(status)


@functools.wraps(_raise_signal)
def _raise_signal_after_all(signalnum: int, /) -> None:
    if _kills(signalnum):
        run()
    _raise_signal(signalnum)


def _kills(number: int) -> bool:
    try:
        return signal.Signals(number).name in _DEADLY and signal.getsignal(number) is signal.SIG_DFL
    except (ValueError, TypeError):
        return False


def _wrap() -> None:
    global _exit, _raise_signal
    if os._exit is not _exit_after_all:
        _exit, os._exit = os._exit, _exit_after_all
    if signal.raise_signal is not _raise_signal_after_all:
        _raise_signal, signal.raise_signal = signal.raise_signal, _raise_signal_after_all
