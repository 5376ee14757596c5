"""The end of a process, however it comes: what was counted arrives, or its loss is told, within 2 seconds."""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from lz_otel._export import _ends
from tests.export.receiver import Receiver
from tests.processes import run, start

if TYPE_CHECKING:
    from collections.abc import Iterator

PROGRAM = Path(__file__).parent / "programs" / "ending.py"
HELD_UP = 2.0  # seconds, the limit
ATTEMPTS = "lz.attempts"


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    one = Receiver()
    yield one
    one.close()


def otlp(receiver: Receiver, **more: str) -> dict[str, str]:
    given = {"OTEL_EXPORTER_OTLP_ENDPOINT": receiver.endpoint, "OTEL_METRICS_EXPORTER": "otlp"}
    return {**given, "OTEL_RESOURCE_ATTRIBUTES": "service.instance.id=pod", **more}


@pytest.mark.parametrize(
    ("end", "status", "calls"),
    [
        ("return", 0, [5]),
        ("os_exit", 7, [5]),
        ("raise_signal", -signal.SIGTERM, [5]),
        ("handler", 143, [5]),
        ("flush", -signal.SIGKILL, [5]),
        ("forks", 0, [1, 1, 1]),
        ("forks_that_instrument", 0, [1, 1, 1]),
        ("multiprocessing_fork", 0, [1, 1]),
        ("multiprocessing_spawn", 0, [1, 1]),
        ("multiprocessing_forkserver", 0, [1, 1]),
        ("sleeping_handler", -signal.SIGKILL, [4]),
    ],
)
def test_the_last_values_arrive(receiver: Receiver, end: str, status: int, calls: list[int]) -> None:
    """Each way out that runs any Python of ours sends all, spans included; nothing is said."""
    done = run(PROGRAM, end, status=status, **otlp(receiver, OTEL_TRACES_EXPORTER="otlp"))
    counted = sorted(int(value) for value in receiver.last(ATTEMPTS).values() if value)
    assert (calls, sum(calls)) == (counted, len(receiver.spans())), done.stderr
    assert "lost" not in done.stderr


@pytest.mark.parametrize("fault", ["hang", "503", "down"])
@pytest.mark.parametrize("end", ["return", "os_exit", "raise_signal", "lifespan", "twice"])
def test_a_receiver_that_does_not_take_them(receiver: Receiver, end: str, fault: str) -> None:
    """An end is held up for 2 seconds at most, by all exporters together; one warning says what is lost."""
    receiver.fail(fault)
    process = start(PROGRAM, end, **otlp(receiver, OTEL_TRACES_EXPORTER="otlp"))
    assert process.stdout is not None
    began = float(process.stdout.readline())
    _, errors = process.communicate(timeout=60)
    assert time.monotonic() - began < HELD_UP, errors
    metrics = [line for line in errors.splitlines() if "OTLP exporter" in line and "lost" in line]
    assert 1 == len(metrics), errors
    assert "spans" in errors


def test_what_is_lost_is_counted(receiver: Receiver) -> None:
    """The calls that did not arrive count in `lz.internal.lost`, and those that had arrived do not."""
    done = run(PROGRAM, "counted", **otlp(receiver))
    assert "push 3.0" == done.stdout.strip(), done.stderr


def test_nothing_registered_is_nothing_wrapped() -> None:
    """The two functions are the system's own again as soon as nothing is left to do."""
    own = os._exit, signal.raise_signal

    def call(_: float) -> None:
        """Nothing."""

    _ends.at_end(call)
    try:
        assert ("_exit", "raise_signal") == (os._exit.__name__, signal.raise_signal.__name__)
        assert own != (os._exit, signal.raise_signal)
    finally:
        _ends.remove(call)
        _ends.remove(call)
    assert own == (os._exit, signal.raise_signal)


def test_one_wrapped_by_another_stays(monkeypatch: pytest.MonkeyPatch) -> None:
    """A wrapper that somebody has put on top is left alone."""
    _ends.at_end(print)
    ours = os._exit
    theirs = lambda status: ours(status)  # noqa: E731 - somebody's
    monkeypatch.setattr(os, "_exit", theirs)
    _ends.remove(print)
    assert os._exit is theirs


def test_a_signal_that_is_handled_ends_nothing() -> None:
    """Only a signal that is going to kill is an end: not one that has a handler, nor one that stops."""
    done: list[float] = []
    _ends.at_end(done.append)
    before = signal.signal(signal.SIGTERM, lambda *_: None)
    try:
        signal.raise_signal(signal.SIGTERM)
        with pytest.raises(OSError, match="Invalid"):
            signal.raise_signal(10**6)
    finally:
        signal.signal(signal.SIGTERM, before)
        _ends.remove(done.append)
    assert [] == done


def test_all_share_one_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    """What comes last runs first, one that fails keeps no other from running, and each runs once."""
    now = [0.0]
    monkeypatch.setattr(_ends.time, "monotonic", lambda: now[0])
    given: list[tuple[str, float]] = []

    def first(seconds: float) -> None:
        given.append(("first", seconds))

    def second(seconds: float) -> None:
        given.append(("second", seconds))
        now[0] += 1.0
        raise ZeroDivisionError

    monkeypatch.setattr(_ends, "_calls", [first, second])
    _ends.run()
    _ends.run()
    assert [("second", _ends.LIMIT), ("first", _ends.LIMIT - 1.0)] == given


def test_what_an_application_has_waited_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    """A lifespan that has waited in vain, just now, leaves less time to the end of the process."""
    now = [100.0]
    monkeypatch.setattr(_ends.time, "monotonic", lambda: now[0])
    given: list[float] = []
    monkeypatch.setattr(_ends, "_waited", (0.0, 0.0))
    for later in (1.0, 60.0):
        _ends.waited(1.2)
        now[0] += later
        monkeypatch.setattr(_ends, "_calls", [given.append])
        _ends.run()
    assert [round(_ends.LIMIT - 1.2, 3), _ends.LIMIT] == [round(seconds, 3) for seconds in given]
