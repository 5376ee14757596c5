"""`make walk`: how often one answer enters a file of lz_otel, from the socket to the text of /metrics.

    python -m benchmarks.walk [--limit N]

One JSON answer of the Messages API comes in two pieces over loopback, on a client that has made such calls
before. An entry is a change from one file of lz_otel to another, by a call or by a return, on the thread that
calls and scrapes. Prints the entries of each file up to the store's snapshot, and up to the text of a scrape.
Exits with 1 when those up to the snapshot are more than the limit.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import threading
import time
from collections import Counter
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import TYPE_CHECKING

import httpx
import prometheus_client

import lz_otel
from benchmarks.arguments import whole, without_settings
from lz_otel import _runtime

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from types import FrameType

PACKAGE = str(Path(lz_otel.__file__).parent) + os.sep
WARM = 3  # calls before the one that counts
BETWEEN = 0.05  # seconds from the first piece to the second, in which the client reads the first
MODEL = "claude-haiku-4-5"
PROMPT = {"model": MODEL, "max_tokens": 9, "messages": [{"role": "user", "content": "What does the fox do?"}]}
ANSWER = json.dumps(
    {
        "id": "msg_1",
        "type": "message",
        "role": "assistant",
        "model": MODEL,
        "content": [{"type": "text", "text": "It jumps."}],
        "stop_reason": "end_turn",
        "usage": {"input_tokens": 10, "output_tokens": 5},
    }
).encode()


class _Messages(BaseHTTPRequestHandler):
    """A Messages API whose answer comes in two pieces."""

    protocol_version = "HTTP/1.1"

    def do_POST(self) -> None:
        self.rfile.read(int(self.headers["Content-Length"]))
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(ANSWER)))
        self.end_headers()
        middle = len(ANSWER) // 2
        self.wfile.write(ANSWER[:middle])
        self.wfile.flush()
        time.sleep(BETWEEN)
        self.wfile.write(ANSWER[middle:])

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - name given by http.server
        """Write nothing."""


@contextmanager
def _server() -> Iterator[str]:
    """Serve on loopback in a thread; gives the address."""
    server = HTTPServer(("127.0.0.1", 0), _Messages)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield f"http://127.0.0.1:{server.server_port}/v1/messages"
    finally:
        server.shutdown()
        server.server_close()


def entries(work: Callable[[], object]) -> Counter[str]:
    """Return how often work, on this thread, enters each file of lz_otel (path within the package)."""
    counted: Counter[str] = Counter()
    inside = ""

    def profile(frame: FrameType, event: str, argument: object) -> None:
        nonlocal inside
        entered = {"call": frame, "return": frame.f_back}.get(event)
        if entered is None:
            return
        file = entered.f_code.co_filename
        if file != inside and file.startswith(PACKAGE):
            counted[file.removeprefix(PACKAGE)] += 1
            inside = file

    sys.setprofile(profile)
    try:
        work()
    finally:
        sys.setprofile(None)
    return counted


def walks() -> tuple[Counter[str], Counter[str]]:
    """Walk a warm answer twice: up to the store's snapshot, and up to the text of a scrape."""
    registry = prometheus_client.CollectorRegistry()
    lz_otel.instrument(exporters=("prometheus",), registry=registry)
    runtime = _runtime.current()
    if runtime is None:
        sys.exit("lz_otel does not observe")
    ends = (runtime.store.snapshot, lambda: prometheus_client.generate_latest(registry))
    try:
        with _server() as url, httpx.Client(trust_env=False) as client:

            def walk(end: Callable[[], object]) -> Counter[str]:
                def answer() -> None:
                    client.post(url, json=PROMPT).raise_for_status()
                    end()

                for _ in range(WARM):
                    answer()
                return entries(answer)

            return walk(ends[0]), walk(ends[1])
    finally:
        lz_otel.uninstrument()


def main() -> int:
    """Print both walks, and compare the one to the text with the limit."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.walk", description="The walk of one answer.")
    parser.add_argument("--limit", type=whole(0), help="most entries up to the text of /metrics")
    options = parser.parse_args()
    without_settings(os.environ)
    snapshot, text = walks()
    print("snapshot  /metrics  file")
    for file in sorted(snapshot | text, key=lambda file: (-snapshot[file], -text[file], file)):
        print(f"{snapshot[file]:8}  {text[file]:8}  {file}")
    print(f"{snapshot.total():8}  {text.total():8}  entries in {len(snapshot)} and {len(text)} files")
    if options.limit is not None and text.total() > options.limit:
        print(f"more than {options.limit} entries up to the text of /metrics", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
