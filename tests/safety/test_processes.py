"""Real processes: workers, forks and spawns in the middle of calls, threads, event loops,
signals and exits.
"""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
import urllib.request
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.peers import serving
from tests.processes import ROOT, run
from tests.wire_doubles import A_JSON, a_full

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.export.receiver import Receiver

DURATION = "gen_ai.client.inference.duration"
INPUT = "gen_ai.client.inference.usage.input_tokens"
ACTIVE = "lz.call.active"


class Upstream(BaseHTTPRequestHandler):
    """A Messages API; it waits where the path asks for it."""

    protocol_version = "HTTP/1.1"

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        if body["model"] == "slow":
            time.sleep(0.3)
        stream = body.get("stream")
        answer = b"".join(a_full()) if stream else json.dumps(A_JSON).encode()
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream" if stream else "application/json")
        self.send_header("Content-Length", str(len(answer)))
        self.end_headers()
        self.wfile.write(answer)

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - name given by http.server
        """Nothing."""


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 128

    def handle_error(self, request: object, client_address: object) -> None:
        """Clients that leave are part of the tests."""


@pytest.fixture
def upstream() -> Iterator[str]:
    server = _Server(("127.0.0.1", 0), Upstream)
    with serving(server) as url:
        yield url


def sent(receiver: Receiver, name: str = DURATION) -> float:
    """Sum over all processes of what each said last."""
    return sum(receiver.last(name).values())


PROGRAMS = Path(__file__).parent / "programs"
OTLP = {"OTEL_METRICS_EXPORTER": "otlp", "OTEL_METRIC_EXPORT_INTERVAL": "60000"}
NONE = {"OTEL_METRICS_EXPORTER": "none"}


def printed(program: str, *arguments: str, upstream: str, receiver: Receiver | None = None) -> list[str]:
    """Return the words that a program prints; it pushes to the receiver, if there is one."""
    environment = NONE if receiver is None else {**OTLP, "OTEL_EXPORTER_OTLP_ENDPOINT": receiver.endpoint}
    done = run(PROGRAMS / program, *arguments, seconds=120, UPSTREAM=upstream, **environment)
    return done.stdout.split()


@pytest.mark.parametrize("lifespan", ["none", "ours", "by hand"])
def test_uvicorn_workers(upstream: str, receiver: Receiver, tmp_path: Path, lifespan: str) -> None:
    """Each of two workers pushes its own calls under its own instance id,
    the last ones as it ends, whether or not the application has a lifespan.
    """
    environment = {
        **os.environ,
        **OTLP,
        "PYTHONPATH": str(ROOT),
        "UPSTREAM": upstream,
        "LIFESPAN": lifespan,
        "OTEL_EXPORTER_OTLP_ENDPOINT": receiver.endpoint,
    }
    log = tmp_path / "log"
    with log.open("wb") as out:
        server = subprocess.Popen(
            [
                sys.executable,
                "-m",
                "uvicorn",
                "tests.safety.programs.uvicorn_app:app",
                "--workers",
                "2",
                "--port",
                "0",
            ],
            env=environment,
            stdout=out,
            stderr=out,
        )
    try:
        deadline = time.monotonic() + 60
        while not (port := re.search(rb"running on http://127.0.0.1:(\d+)", log.read_bytes())) or (
            log.read_bytes().count(b"startup complete") < 2
        ):
            assert time.monotonic() < deadline, log.read_text()
            assert server.poll() is None, log.read_text()
            time.sleep(0.1)
        address = f"http://127.0.0.1:{int(port[1])}/"
        pids = set()
        calls = 0
        while calls < 40 or (len(pids) < 2 and calls < 400):
            calls += 1
            with urllib.request.urlopen(
                address + ("?stream=1" if calls % 3 == 0 else ""), timeout=30
            ) as answer:
                pids.add(answer.read())
        server.send_signal(signal.SIGTERM)
        server.wait(30)
    finally:
        if server.poll() is None:
            server.kill()
            server.wait()
    assert (sent(receiver), len(receiver.last(DURATION))) == (calls, len(pids)), log.read_text()
    assert sent(receiver, INPUT) == calls * 2104
    assert b"Traceback" not in log.read_bytes()


@pytest.mark.parametrize("method", ["fork", "spawn"])
def test_multiprocessing_inside_a_call(method: str, upstream: str, receiver: Receiver) -> None:
    """Children begun while other threads are inside calls report their own calls only, and none hangs."""
    calls = printed("children_of_calls.py", method, upstream=upstream, receiver=receiver)
    assert sent(receiver) == int(*calls) + 12
    assert len(receiver.last(DURATION)) == 5


def test_threads(upstream: str) -> None:
    """32 threads, plain and streamed: not a call is lost or counted twice, and the tokens add up."""
    tokens = str(480 * 2104.0)
    assert printed("many_threads.py", upstream=upstream) == ["480.0", "480.0", tokens, "480.0", "0.0", "0.0"]


def test_many_event_loops(upstream: str) -> None:
    """One loop after the other and several at once: calls of all of them count once."""
    assert printed("many_event_loops.py", upstream=upstream) == ["72.0", "0.0", "0.0"]


def test_trio(upstream: str) -> None:
    """Under trio a call counts as under asyncio; one whose scope is cancelled is cancelled."""
    pytest.importorskip("trio", reason="trio is not installed: install the dependency group test")
    assert printed("under_trio.py", upstream=upstream) == ["2.0", "1.0", "0.0"]


def test_gevent(upstream: str) -> None:
    """Greenlets of a patched process are as threads: each has its operation, and every call counts once."""
    pytest.importorskip("gevent", reason="gevent is not installed: install the dependency group test")
    assert printed("under_gevent.py", upstream=upstream) == ["40.0", "40.0", "40.0", "0.0", "0.0"]


@pytest.mark.parametrize("how", ["exit", "uninstrument"])
def test_sigterm_in_the_middle_of_traffic(how: str, upstream: str, receiver: Receiver) -> None:
    """SIGTERM while the main thread is anywhere, in our own code too:
    every finished call is in the last push.
    """
    calls = printed("sigterm_in_traffic.py", how, upstream=upstream, receiver=receiver)
    assert sent(receiver) - int(*calls) in (0, 1)  # the one whose answer was on its way to the host


def test_exit_with_open_streams(upstream: str, receiver: Receiver) -> None:
    """An interpreter that ends with streams half read ends at once, and pushes what had ended."""
    assert printed("exit_with_open_streams.py", upstream=upstream, receiver=receiver) == []
    assert receiver.last(DURATION)
    assert sent(receiver) >= 1
