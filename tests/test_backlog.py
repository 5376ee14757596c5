"""One thread works at a time, whatever a signal's handler does in between."""

from __future__ import annotations

import signal
import sys
import threading
from contextlib import suppress

import pytest

from lz_otel._backlog import Backlog
from tests.interrupts import Stop


def made() -> Backlog:
    """A backlog whose turns are given to what the test hands over."""
    return Backlog(lambda: None, lambda _: None, lambda _: None)


def others(turn: Backlog) -> list[int]:
    """What another thread gets done."""
    done: list[int] = []
    thread = threading.Thread(target=lambda: turn.run(lambda: done.append(1), 0.0))
    thread.start()
    thread.join()
    return done


def test_another_thread_waits_as_long_as_it_is_told() -> None:
    """Without patience the turn of another thread is left alone; with patience ours comes after it."""
    turn, inside, leave = made(), threading.Event(), threading.Event()
    order: list[str] = []

    def work() -> None:
        inside.set()
        leave.wait(10)
        order.append("first")

    thread = threading.Thread(target=lambda: turn.run(work, 0.0))
    thread.start()
    inside.wait(10)
    turn.run(lambda: order.append("impatient"), 0.0)
    assert [] == order
    leave.set()
    turn.run(lambda: order.append("patient"), 10.0)
    thread.join()
    assert ["first", "patient"] == order


def test_no_turn_within_a_turn() -> None:
    """Who comes back to the same thread, as a signal's handler does, does nothing and waits for nothing."""
    turn, done = made(), []
    turn.run(lambda: turn.run(lambda: done.append(1), 1000.0), 0.0)
    assert [] == done
    assert [1] == others(turn)


def test_an_exception_ends_the_turn() -> None:
    """What the work raises passes, and the next turn is free."""
    turn = made()

    def work() -> None:
        raise Stop

    with pytest.raises(Stop):
        turn.run(work, 0.0)
    assert [1] == others(turn)


def test_an_interrupt_at_any_step_leaves_nothing_taken(alarm: None) -> None:
    """Wherever in a turn a signal's handler raises, the next thread finds it free."""
    turn = made()
    for number in range(300):
        try:
            signal.setitimer(signal.ITIMER_REAL, 0.0002 + number * 1e-6)
            while True:
                turn.run(lambda: None, 0.0)
        except Stop:
            pass
        assert not turn._worker
        assert [1] == others(turn), f"after {number} interrupts"


def test_without_room_for_calls_within_calls_nothing_begins() -> None:
    """Near the limit of recursion the work would fail in its middle: it is left to somebody who has room."""
    turn = made()
    done: list[str] = []

    def deeper(steps: int) -> None:
        if steps:
            deeper(steps - 1)

    def work() -> None:
        try:
            deeper(50)
            done.append("done")
        except RecursionError:
            done.append("failed")

    def fall() -> None:
        with suppress(RecursionError):
            fall()
        with suppress(RecursionError):  # on the way back there is a little more room with each step
            turn.run(work, 0.0)

    limit = sys.getrecursionlimit()
    try:
        sys.setrecursionlimit(300)
        fall()
    finally:
        sys.setrecursionlimit(limit)
    assert {"done"} == set(done)


def test_one_vain_wait_is_enough() -> None:
    """Beside a reader that hangs only the first one waits as long as it may, until that turn has ended."""
    turn, leave, inside = made(), threading.Event(), threading.Event()

    def hang() -> None:
        inside.set()
        leave.wait(30)

    thread = threading.Thread(target=lambda: turn.run(hang, 0.0))
    thread.start()
    inside.wait(30)
    turn.run(lambda: None, 0.01)
    turn.run(lambda: None, 1e6)  # would wait for days
    leave.set()
    thread.join()
    done: list[int] = []
    turn.run(lambda: done.append(1), 10.0)
    assert [1] == done


def test_who_loses_a_race_for_a_turn_still_waits_for_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """A scrape that finds the turn free and taken again must not come before what the winner reads."""
    turn = made()
    answers = iter([True, True, True])
    looks: list[bool] = []

    def free(_: Backlog, patience: float) -> bool:
        looks.append(turn._worker != 0)
        turn._worker = 0 if len(looks) > 1 else 99  # somebody else was quicker, once
        return next(answers)

    monkeypatch.setattr(Backlog, "_free", free)
    turn._worker = 77
    done: list[int] = []
    turn.run(lambda: done.append(1), 1.0)
    assert [1] == done
    assert [True, True] == looks
