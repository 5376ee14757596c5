"""Celery's pool: what a task has counted is sent before the worker says that it has ended."""

from __future__ import annotations

import sys
import types
from typing import Any

import pytest

from lz_otel import catalogue
from lz_otel._export import _celery
from lz_otel._export._celery import CeleryHooks
from lz_otel._export._threads import Flush
from lz_otel._measure.store import Store


class Signal:
    """A stand-in for one of Celery's signals."""

    def __init__(self) -> None:
        self.receivers: dict[str, Any] = {}

    def connect(self, receiver: Any, weak: bool, dispatch_uid: str) -> None:
        assert not weak
        self.receivers[dispatch_uid] = receiver

    def disconnect(self, dispatch_uid: str) -> None:
        del self.receivers[dispatch_uid]

    def send(self) -> None:
        for receiver in self.receivers.values():
            receiver(sender=None, task_id="x")


class Worker:
    """A store, hooks, and what they were asked to send."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, process: str) -> None:
        billiard = types.ModuleType("billiard.process")
        billiard.current_process = lambda: types.SimpleNamespace(name=process)  # type: ignore[attr-defined]
        monkeypatch.setitem(sys.modules, "billiard.process", billiard)
        monkeypatch.setattr(_celery, "LIMIT", 0.01)
        self.store = Store(catalogue.selected("latest"))
        self.asked: list[Flush] = []
        self.arrives = True
        self.hooks = CeleryHooks(self.store, self.ask)
        self.signals: Any = types.SimpleNamespace(task_postrun=Signal())
        self.hooks.callbacks["celery.signals"](self.signals)

    def ask(self) -> list[Flush]:
        self.asked.append(Flush())
        if self.arrives:
            self.asked[-1].end(True)
        return self.asked[-1:]

    def task(self, calls: int) -> int:
        """Run a task; return how many times something was sent until now."""
        for _ in range(calls):
            labels = ("",) * len(catalogue.ATTEMPTS.labels)
            self.store.add([(catalogue.ATTEMPTS, labels, 1.0)])
        self.signals.task_postrun.send()
        return len(self.asked)


def test_a_task_sends_what_is_new(monkeypatch: pytest.MonkeyPatch) -> None:
    """A task without calls sends nothing, and nor does anything after `remove`."""
    worker = Worker(monkeypatch, "ForkPoolWorker-1")
    assert [0, 1, 1, 2] == [worker.task(calls) for calls in (0, 2, 0, 1)]
    worker.hooks.remove()
    worker.hooks.remove()
    assert 2 == worker.task(1)


def test_other_processes_end_in_their_own_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """The worker itself, and its threads, run exit hooks."""
    assert 0 == Worker(monkeypatch, "MainProcess").task(1)


def test_a_receiver_that_does_not_answer_is_waited_for_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Later tasks are not held up until what was late has been dealt with."""
    worker = Worker(monkeypatch, "ForkPoolWorker-1")
    waits: list[float] = []
    arrived = Flush.arrived

    def wait(self: Flush, seconds: float) -> bool:
        waits.append(seconds)
        return arrived(self, seconds)

    monkeypatch.setattr(Flush, "arrived", wait)
    worker.arrives = False
    assert [1, 2, 3] == [worker.task(1) for _ in range(3)]
    assert 1 == len(waits)
    worker.asked[0].end(False)
    worker.arrives = True
    assert [4, 5] == [worker.task(1) for _ in range(2)]
    assert 3 == len(waits)


def test_the_real_celery() -> None:
    """Where it is installed, its signals take our receiver."""
    signals = pytest.importorskip("celery.signals")
    hooks = CeleryHooks(Store(catalogue.selected("latest")), list)
    hooks.callbacks["celery.signals"](signals)
    hooks.remove()
