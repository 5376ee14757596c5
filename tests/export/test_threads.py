"""Threads of ours, where a process may have no more of them and what they are asked for."""

from __future__ import annotations

import threading
from typing import Any

import pytest

from lz_otel._export._threads import Flush, start_thread
from lz_otel._ground.guard import guard


def test_a_thread_is_a_daemon_of_that_name() -> None:
    """It runs the function with its arguments and keeps no process alive."""
    given: list[int] = []
    thread = start_thread("lz-otel-x", given.append, 3)
    assert thread is not None
    thread.join(10)
    assert ([3], "lz-otel-x", True) == (given, thread.name, thread.daemon)


def test_no_more_threads_is_a_fault(monkeypatch: pytest.MonkeyPatch) -> None:
    """A process at its limit goes on without the thread; that is counted."""
    faults: list[str] = []
    monkeypatch.setattr(guard, "on_fault", faults.append)
    monkeypatch.setattr(guard, "strict", False)

    def refuse(self: Any) -> None:
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(threading.Thread, "start", refuse)
    assert start_thread("lz-otel-x", print) is None
    assert ["export"] == faults


@pytest.mark.parametrize(("ok", "seconds"), [(True, 30), (False, 30), (None, 0), (None, -1)])
def test_what_was_asked_for_has_arrived(ok: bool | None, seconds: float) -> None:
    """Only what is over, and went well, has arrived; no time left is no wait."""
    flush = Flush()
    if ok is not None:
        flush.end(ok)
    assert (ok is True) is flush.arrived(seconds)
