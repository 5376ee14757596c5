"""Case 17: each process reports its own calls under its own name, and none hangs. Real processes throughout."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.casebook.helpers import CALLS, INFLIGHT
from tests.casebook.processes import run

if TYPE_CHECKING:
    from pathlib import Path

    from tests.export.receiver import Receiver

OTLP = {"OTEL_METRICS_EXPORTER": "otlp", "OTEL_METRIC_EXPORT_INTERVAL": "100"}


def reported(folder: Path, body: str, receiver: Receiver) -> list[float]:
    """Last values of CALLS, one per process, after a script."""
    run(folder, body, OTEL_EXPORTER_OTLP_ENDPOINT=receiver.endpoint, **OTLP)
    return sorted(receiver.last(CALLS).values())


FORK = """
lz_otel.instrument()
calls(3)
lz_otel._runtime.current().intake.catch_up()  # three are counted when the fork comes, two are not yet
calls(2)
open_stream = client(lambda r: (200, {"content-type": "text/event-stream"}, a_full()))
with open_stream.stream("POST", URL, json={**ASK, "stream": True}) as response:
    pieces = response.iter_raw()
    next(pieces)
    pids = []
    for _ in range(2):
        pid = os.fork()
        if not pid:
            calls(1)
            time.sleep(2)
            os._exit(0)
        pids.append(pid)
    for pid in pids:
        assert os.waitpid(pid, 0)[1] == 0
"""


def test_17_children_start_from_zero(tmp_path: Path, receiver: Receiver) -> None:
    """Five calls of the parent (and its open stream), one of each forked child: never the parent's again."""
    assert [1, 1, 6] == reported(tmp_path, FORK, receiver)
    assert 3 == len({r["service.instance.id"] for r in receiver.resources()})
    inflight = receiver.last(INFLIGHT)
    own = receiver.last(CALLS)
    assert {0} == {inflight.get(i, 0) for i, n in own.items() if n == 1}


MULTIPROCESSING = """
def child():
    if {again}:
        lz_otel.instrument()
    calls(1)
    time.sleep(2)

if __name__ == "__main__":
    lz_otel.instrument()
    calls(5)
    lz_otel._runtime.current().intake.catch_up()
    context = multiprocessing.get_context({method!r})
    processes = [context.Process(target=child) for _ in range(2)]
    for process in processes:
        process.start()
    for process in processes:
        process.join()
        assert process.exitcode == 0
"""


@pytest.mark.parametrize(("method", "again"), [("fork", False), ("spawn", True)])
def test_17_multiprocessing(method: str, again: bool, tmp_path: Path, receiver: Receiver) -> None:
    """With fork, and with spawn where the child instruments itself: 5, 1 and 1."""
    assert [1, 1, 5] == reported(tmp_path, MULTIPROCESSING.format(method=method, again=again), receiver)


LOCKED = """
from lz_otel._ground.guard import guard
runtime = (lz_otel.instrument(), lz_otel._runtime.current())[1]
calls(5)
held, release = threading.Event(), threading.Event()

def hold():  # a thread in the middle of everything of ours
    with lz_otel._runtime._lock, runtime.store._lock, runtime.intake.backlog._lock, guard._lock:
        held.set()
        release.wait(20)

def busy():
    http = client()
    while not release.is_set():
        calls(1, http)

holder = threading.Thread(target=hold, daemon=True)
holder.start()
assert held.wait(5)
pid = os.fork()
if not pid:
    begun = time.monotonic()
    calls(1)
    lz_otel.status()
    lz_otel.instrument()
    os._exit(0 if time.monotonic() - begun < 1 else 3)
assert os.waitpid(pid, 0)[1] == 0
release.set()
holder.join()
release.clear()
workers = [threading.Thread(target=busy, daemon=True) for _ in range(4)]
for worker in workers:
    worker.start()
for _ in range(10):
    time.sleep(0.02)
    pid = os.fork()
    if not pid:
        calls(1)
        os._exit(0)
    assert os.waitpid(pid, 0)[1] == 0
release.set()
"""


def test_17_a_fork_with_our_locks_held(tmp_path: Path, receiver: Receiver) -> None:
    """A child forked while a thread of the parent held every lock of ours, or was just calling, does not hang."""
    run(tmp_path, LOCKED, seconds=20, OTEL_EXPORTER_OTLP_ENDPOINT=receiver.endpoint, **OTLP)


def test_17_no_thread_without_an_exporter(tmp_path: Path) -> None:
    """Without an exporter there is no thread of ours, in the parent or in a child."""
    body = """
lz_otel.instrument(exporters="none")
calls(1)
assert threading.active_count() == 1
pid = os.fork()
if not pid:
    calls(1)
    os._exit(threading.active_count() - 1)
assert os.waitpid(pid, 0)[1] == 0
"""
    run(tmp_path, body)


def test_17_the_hosts_own_provider_is_told_once(tmp_path: Path) -> None:
    """Where the host owns the MeterProvider its sums go on in the child: that is said, in one line, once."""
    body = """
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader
reader = InMemoryMetricReader()
lz_otel.instrument(meter_provider=MeterProvider([reader]), exporters="none")
calls(5)
lz_otel._runtime.current().intake.catch_up()
pid = os.fork()
if not pid:
    calls(2)
    os._exit(0)
assert os.waitpid(pid, 0)[1] == 0
"""
    done = run(tmp_path, body, check=False, seconds=20)
    assert 0 == done.returncode
    [line] = done.stderr.splitlines()
    assert "Call lz_otel.instrument() after the fork" in line
