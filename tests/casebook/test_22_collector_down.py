"""Case 22: a collector that is away, hangs or refuses costs a line in the log and nothing else. Real processes."""

from __future__ import annotations

import signal
import socket
import time
from typing import TYPE_CHECKING

import pytest

from tests.casebook.helpers import ATTEMPTS, CALLS
from tests.casebook.processes import run, start

if TYPE_CHECKING:
    from pathlib import Path

    from tests.export.receiver import Receiver

OTLP = {"OTEL_METRICS_EXPORTER": "otlp", "OTEL_METRIC_EXPORT_INTERVAL": "100"}
MAX_END = 5.0  # seconds from the end of main to the end of the process, as the case has it

SCRIPT = """
threads = set()
def hook(event, args):
    if event == "socket.connect":
        threads.add(threading.current_thread().name)
sys.addaudithook(hook)
lz_otel.instrument()
http = client()
for _ in range(200):
    calls(1, http)
    time.sleep(0.005)
runtime = lz_otel._runtime.current()
runtime.store.snapshot()
from lz_otel.testing import Capture
assert Capture(runtime.store).value("lz.attempts") == 200  # our own pushes are no calls
assert threads <= {"lz-otel-push"}, threads
print("end of main", flush=True)
"""


def closed_port() -> int:
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return int(s.getsockname()[1])


@pytest.mark.parametrize("variant", ["nobody", "hangs", "503", "no such name"])
def test_22_a_collector_that_is_no_help(variant: str, tmp_path: Path, receiver: Receiver) -> None:
    """The calls go on, pushes happen on our thread only, one line is written, and the process ends in time."""
    endpoint = receiver.endpoint
    if variant == "nobody":
        endpoint = f"http://127.0.0.1:{closed_port()}"
    elif variant == "no such name":
        endpoint = "http://collector.invalid:4318"
    receiver.hang = variant == "hangs"
    receiver.status = 503
    begun = start(tmp_path, SCRIPT, {**OTLP, "OTEL_EXPORTER_OTLP_ENDPOINT": endpoint})
    assert begun.stdout is not None
    assert "end of main\n" == begun.stdout.readline()
    ended = time.monotonic()
    _, errors = begun.communicate(timeout=30)
    assert (0, True) == (begun.returncode, time.monotonic() - ended < MAX_END)
    assert len(errors.splitlines()) <= 1, errors
    assert "Traceback" not in errors
    assert receiver.requests >= (variant in ("hangs", "503"))


RECOVERY = """
lz_otel.instrument()
http = client()
for line in sys.stdin:
    calls(int(line), http)
    print("done", flush=True)
"""


def test_22_nothing_is_lost_over_an_outage(tmp_path: Path, receiver: Receiver) -> None:
    """(e): up, away, up again: the last value is that of all calls; a line for the outage and one for its end."""
    import subprocess
    import sys

    from tests.casebook.processes import HEAD, environment

    script = tmp_path / "script.py"
    script.write_text(HEAD + RECOVERY)
    process = subprocess.Popen(
        [sys.executable, str(script)],
        env=environment(**OTLP, OTEL_EXPORTER_OTLP_ENDPOINT=receiver.endpoint),
        text=True,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
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


WAITS = """
lz_otel.instrument()
calls(20)
{handler}
print("ready", flush=True)
time.sleep(30)
"""


@pytest.mark.parametrize("hang", [False, True])
@pytest.mark.parametrize("handled", [False, True])
def test_22_sigterm(handled: bool, hang: bool, tmp_path: Path, receiver: Receiver) -> None:
    """A process ended by SIGTERM ends at once and with its own status, whatever the collector does."""
    receiver.hang = hang
    handler = "signal.signal(signal.SIGTERM, lambda *a: sys.exit(7))" if handled else ""
    process = start(
        tmp_path, WAITS.format(handler=handler), {**OTLP, "OTEL_EXPORTER_OTLP_ENDPOINT": receiver.endpoint}
    )
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


def test_22_no_exporter_is_no_connection_no_thread_no_line(tmp_path: Path) -> None:
    """Third run: with exporters switched off nothing is connected to, nothing written, no thread left."""
    body = """
connected = []
sys.addaudithook(lambda event, args: connected.append(event) if event in ("socket.connect", "socket.bind") else None)
lz_otel.instrument(exporters="none")
calls(20)
assert threading.active_count() == 1, threading.enumerate()
assert connected == [], connected
"""
    assert "" == run(tmp_path, body).stdout
