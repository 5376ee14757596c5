"""Case 22: a collector that is away,
hangs or refuses costs a line in the log and nothing else. Real processes.
"""

from __future__ import annotations

import signal
import socket
import time
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.casebook.helpers import ATTEMPTS, CALLS
from tests.processes import run, start

if TYPE_CHECKING:
    from tests.export.receiver import Receiver

PROGRAMS = Path(__file__).parent / "programs"
OTLP = {"OTEL_METRICS_EXPORTER": "otlp", "OTEL_METRIC_EXPORT_INTERVAL": "100"}
MAX_END = 5.0  # seconds from the end of main to the end of the process, as the case has it


def closed_port() -> int:
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return int(s.getsockname()[1])


@pytest.mark.parametrize("variant", ["nobody", "hangs", "503", "no such name"])
def test_22_a_collector_that_is_no_help(variant: str, receiver: Receiver) -> None:
    """The calls go on, pushes happen on our thread only, one line is written,
    and the process ends in time.
    """
    endpoint = receiver.endpoint
    if variant == "nobody":
        endpoint = f"http://127.0.0.1:{closed_port()}"
    elif variant == "no such name":
        endpoint = "http://collector.invalid:4318"
    receiver.hang = variant == "hangs"
    receiver.status = 503
    begun = start(PROGRAMS / "pushing.py", OTEL_EXPORTER_OTLP_ENDPOINT=endpoint, **OTLP)
    assert begun.stdout is not None
    assert "end of main\n" == begun.stdout.readline()
    ended = time.monotonic()
    _, errors = begun.communicate(timeout=30)
    assert (0, True) == (begun.returncode, time.monotonic() - ended < MAX_END)
    told = errors.splitlines()  # that it began, and that the end has lost something
    assert [True, "are lost" in errors] == [len(told) <= 2, len(told) > 0], errors
    assert "Traceback" not in errors
    assert receiver.requests >= (variant in ("hangs", "503"))


def test_22_nothing_is_lost_over_an_outage(receiver: Receiver) -> None:
    """(e): up, away, up again: the last value is that of all calls;
    a line for the outage and one for its end.
    """
    program = PROGRAMS / "calls_on_demand.py"
    process = start(program, OTEL_EXPORTER_OTLP_ENDPOINT=receiver.endpoint, **OTLP)
    assert process.stdin is not None
    assert process.stdout is not None

    def calls(n: int) -> None:
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.write(f"{n}\n")
        process.stdin.flush()
        assert "done\n" == process.stdout.readline()

    calls(60)
    receiver.wait(2)
    receiver.down()
    calls(80)
    time.sleep(0.6)
    receiver.up()
    calls(60)
    receiver.wait(len(receiver.pushes) + 1)
    process.stdin.close()
    errors = process.stderr.read() if process.stderr else ""
    assert 0 == process.wait(30)
    assert [200] == list(receiver.last(CALLS).values())
    assert [200] == list(receiver.last(ATTEMPTS).values())
    assert len(errors.splitlines()) <= 2, errors
    assert "Traceback" not in errors


@pytest.mark.parametrize("hang", [False, True])
@pytest.mark.parametrize("handled", [False, True])
def test_22_sigterm(handled: bool, hang: bool, receiver: Receiver) -> None:
    """A process ended by SIGTERM ends at once and with its own status, whatever the collector does."""
    receiver.hang = hang
    arguments = ["handled"] if handled else []
    program = PROGRAMS / "waits_for_sigterm.py"
    process = start(program, *arguments, OTEL_EXPORTER_OTLP_ENDPOINT=receiver.endpoint, **OTLP)
    assert process.stdout is not None
    assert "ready\n" == process.stdout.readline()
    process.send_signal(signal.SIGTERM)
    sent = time.monotonic()
    _, errors = process.communicate(timeout=30)
    assert time.monotonic() - sent < MAX_END
    assert (7 if handled else -signal.SIGTERM) == process.returncode
    assert len(errors.splitlines()) <= int(hang)
    if handled and not hang:
        assert [20] == list(receiver.last(CALLS).values())


def test_22_no_exporter_is_no_connection_no_thread_no_line() -> None:
    """Third run: with exporters switched off nothing is connected to, nothing written, no thread left."""
    assert "" == run(PROGRAMS / "no_exporter.py", silent=True).stdout
