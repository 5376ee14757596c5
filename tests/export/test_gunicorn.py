"""gunicorn with its workers: one truth on one port, and over OTLP one instance per worker."""

from __future__ import annotations

import json
import os
import re
import signal
import socket
import subprocess
import sys
import threading
import time
import urllib.request
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.export.filling import from_text
from tests.export.receiver import Receiver
from tests.peers import serving
from tests.processes import ROOT

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

pytest.importorskip("gunicorn", reason="gunicorn is not installed: install the dependency group dev")
pytest.importorskip("httpx")

ANSWER = json.dumps(
    {
        "id": "msg_1",
        "type": "message",
        "role": "assistant",
        "model": "claude-sonnet-5",
        "content": [{"type": "text", "text": "hi"}],
        "stop_reason": "end_turn",
        "usage": {"input_tokens": 3, "output_tokens": 4},
    }
).encode()
PROGRAMS = Path(__file__).parent / "programs"
COUNT = "gen_ai_client_inference_duration_seconds_count"


class Upstream(BaseHTTPRequestHandler):
    """A model API."""

    def do_POST(self) -> None:
        self.rfile.read(int(self.headers["Content-Length"]))
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(ANSWER)))
        self.end_headers()
        self.wfile.write(ANSWER)

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - name given by http.server
        """Nothing."""


@pytest.fixture
def upstream() -> Iterator[str]:
    server = ThreadingHTTPServer(("127.0.0.1", 0), Upstream)
    with serving(server) as url:
        yield url


def free_port() -> int:
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return int(one.getsockname()[1])


def until(ready: Callable[[], object], what: str) -> None:
    deadline = time.monotonic() + 60
    while not ready():
        assert time.monotonic() < deadline, what
        time.sleep(0.05)


def get(url: str) -> str | None:
    try:
        with urllib.request.urlopen(url, timeout=10) as answer:
            return str(answer.read().decode())
    except OSError:
        return None


@contextmanager
def service(folder: Path, upstream: str, *arguments: str, **environment: str) -> Iterator[tuple[str, Path]]:
    """Two workers of gunicorn; address and log."""
    port, log = free_port(), folder / "log"
    with log.open("wb") as file:
        process = subprocess.Popen(
            [
                sys.executable,
                "-m",
                "gunicorn",
                "-w",
                "2",
                "-b",
                f"127.0.0.1:{port}",
                *arguments,
                "wsgi_service:app",
            ],
            cwd=folder,
            env={
                "PATH": os.environ.get("PATH", ""),
                "PYTHONPATH": f"{ROOT}{os.pathsep}{PROGRAMS}",
                "UPSTREAM": upstream,
                **environment,
            },
            stdout=file,
            stderr=file,
        )
    address = f"http://127.0.0.1:{port}/"
    try:
        yield address, log
    finally:
        if process.poll() is None:
            process.send_signal(signal.SIGTERM)
        assert 0 == process.wait(30), log.read_text()
    assert "Traceback" not in log.read_text()


def ask(address: str, times: int) -> set[int]:
    """So many calls, by every worker; their process numbers."""
    until(lambda: get(address), "gunicorn does not answer")
    pids: set[int] = set()
    lock = threading.Lock()

    def one() -> None:
        for _ in range(times // 4):
            pid = int(get(address) or "0")
            with lock:
                pids.add(pid)

    threads = [threading.Thread(target=one) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert 0 not in pids
    return pids


def total(text: str | None) -> float:
    return sum(v for (name, _), v in from_text(text or "").items() if name == COUNT)


def active(text: str | None) -> list[float]:
    """Calls in flight."""
    return [v for (name, _), v in from_text(text or "").items() if name == "lz_call_active"]


@pytest.mark.parametrize("preload", [(), ("--preload",)], ids=["forked", "preloaded"])
def test_workers_behind_one_port(preload: tuple[str, ...], upstream: str, tmp_path: Path) -> None:
    """Whichever worker is scraped, the page shows the calls of all, also after workers were replaced."""
    folder, port = tmp_path / "numbers", free_port()
    folder.mkdir()
    environment = {"PROMETHEUS_MULTIPROC_DIR": str(folder), "OTEL_EXPORTER_PROMETHEUS_PORT": str(port)}
    page = f"http://127.0.0.1:{port}/metrics"
    with service(tmp_path, upstream, "--max-requests", "15", *preload, **environment) as (address, log):
        ask(address, 80)
        until(lambda: total(get(page)) == 81, f"{total(get(page))} of 81 calls\n{log.read_text()}")
        until(lambda: [0] == active(get(page)), "calls in flight, or none of the workers has told of them")
    assert "lz_otel" not in log.read_text()


@pytest.mark.parametrize("preload", [(), ("--preload",)], ids=["forked", "preloaded"])
def test_workers_push_for_themselves(preload: tuple[str, ...], upstream: str, tmp_path: Path) -> None:
    """Each worker pushes its own calls under its own instance id, up to its end; none is missing."""
    receiver = Receiver()
    environment = {
        "OTEL_METRICS_EXPORTER": "otlp",
        "OTEL_EXPORTER_OTLP_ENDPOINT": receiver.endpoint,
        "OTEL_METRIC_EXPORT_INTERVAL": "600000",
    }
    with service(tmp_path, upstream, *preload, **environment) as (address, log):
        pids = ask(address, 40)
    counts = receiver.last("gen_ai.client.inference.duration")
    receiver.close()
    assert 41 == sum(counts.values()), log.read_text()
    assert len(pids) <= len(counts) <= 2
    assert not re.search("lz_otel|OTLP", log.read_text())
