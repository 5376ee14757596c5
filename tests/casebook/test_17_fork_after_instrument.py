"""Case 17: each process reports its own calls under its own name,
and none hangs. Real processes throughout.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.casebook.helpers import CALLS, INFLIGHT
from tests.processes import run

if TYPE_CHECKING:
    from tests.export.receiver import Receiver

PROGRAMS = Path(__file__).parent / "programs"
OTLP = {"OTEL_METRICS_EXPORTER": "otlp", "OTEL_METRIC_EXPORT_INTERVAL": "100"}


def reported(receiver: Receiver, program: str, *arguments: str) -> list[float]:
    """Return the last values of CALLS, one per process, after a program."""
    run(PROGRAMS / program, *arguments, silent=True, OTEL_EXPORTER_OTLP_ENDPOINT=receiver.endpoint, **OTLP)
    return sorted(receiver.last(CALLS).values())


def test_17_children_start_from_zero(receiver: Receiver) -> None:
    """Five calls of the parent (and its open stream), one of each forked child: never the parent's again."""
    assert [1, 1, 6] == reported(receiver, "fork_in_a_stream.py")
    assert 3 == len({r["service.instance.id"] for r in receiver.resources()})
    inflight = receiver.last(INFLIGHT)
    own = receiver.last(CALLS)
    assert {0} == {inflight.get(i, 0) for i, n in own.items() if n == 1}


@pytest.mark.parametrize("method", ["fork", "spawn"])
def test_17_multiprocessing(method: str, receiver: Receiver) -> None:
    """With fork, and with spawn where the child instruments itself: 5, 1 and 1."""
    assert [1, 1, 5] == reported(receiver, "children.py", method)


def test_17_a_fork_with_our_locks_held(receiver: Receiver) -> None:
    """A child forked while a thread of the parent held every lock of ours, or was just calling,
    does not hang.
    """
    program = PROGRAMS / "fork_with_locks_held.py"
    run(program, seconds=20, silent=True, OTEL_EXPORTER_OTLP_ENDPOINT=receiver.endpoint, **OTLP)


def test_17_no_thread_without_an_exporter() -> None:
    """Without an exporter there is no thread of ours, in the parent or in a child."""
    run(PROGRAMS / "no_thread.py", silent=True)


def test_17_the_hosts_own_provider_is_told_once() -> None:
    """Where the host owns the MeterProvider its sums go on in the child: that is said, in one line, once."""
    [line] = run(PROGRAMS / "provider_of_the_host.py", seconds=20).stderr.splitlines()
    assert "Call lz_otel.instrument() after the fork" in line
