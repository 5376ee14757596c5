"""Threads of ours, where a process may have no more of them and where it ends early."""

from __future__ import annotations

import multiprocessing
import threading
from typing import Any

import pytest

from lz_otel._export._threads import after_fork, at_end_of_child, start_thread
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


@pytest.mark.parametrize(("child", "ends"), [(True, 1), (False, 0)])
def test_the_end_of_a_child(child: bool, ends: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Only a child of multiprocessing needs a finalizer: atexit serves every other process."""
    from multiprocessing import util

    made: list[tuple[Any, ...]] = []
    monkeypatch.setattr(util, "Finalize", lambda *args, **_: made.append(args))
    monkeypatch.setattr(multiprocessing, "parent_process", lambda: "a parent" if child else None)
    at_end_of_child(print)
    assert [(None, print)] * ends == made


def test_a_fork_of_multiprocessing_calls_back(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is registered is the owner and what is called with it."""
    from multiprocessing import util

    made: list[tuple[Any, ...]] = []
    monkeypatch.setattr(util, "register_after_fork", lambda *args: made.append(args))
    after_fork("owner", print)
    assert [("owner", print)] == made
