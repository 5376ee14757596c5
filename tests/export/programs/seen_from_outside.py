"""A worker process whose files only the host's own collector reads, for `test_multiprocess`.

Prints the calls in flight and the rate limit that it shows within two seconds: during a call, and after it.
"""

from __future__ import annotations

import json
import threading
import time
from http.server import BaseHTTPRequestHandler, HTTPServer

import httpx2
from prometheus_client import CollectorRegistry
from prometheus_client.multiprocess import MultiProcessCollector

import lz_otel
from tests.wire_doubles import A_JSON

ASK = {"model": "claude-opus-5", "max_tokens": 1, "messages": []}
LIMIT = {"anthropic-ratelimit-requests-limit": "50", "anthropic-ratelimit-requests-remaining": "7"}
entered, go_on = threading.Event(), threading.Event()


class Api(BaseHTTPRequestHandler):
    """Answers when told to."""

    def do_POST(self) -> None:
        entered.set()
        go_on.wait()
        self.send_response(200)
        for name, value in {"Content-Type": "application/json", **LIMIT}.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(json.dumps(A_JSON).encode())

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - name given by http.server
        """Log nothing."""


def shown() -> list[float | None]:
    """Return what the files hold."""
    registry = CollectorRegistry()
    MultiProcessCollector(registry)
    values = {
        sample.name: sample.value
        for family in registry.collect()
        for sample in family.samples
        if sample.labels.get("resource", "requests") == "requests"
    }
    return [values.get(name) for name in ("lz_call_active", "lz_rate_limit_remaining")]


def within_two_seconds(wanted: list[float | None]) -> list[float | None]:
    """Return what is shown when it is what is wanted, or after two seconds."""
    end = time.monotonic() + 2
    while shown() != wanted and time.monotonic() < end:
        time.sleep(0.02)
    return shown()


lz_otel.instrument(exporters="prometheus", prometheus_port=0)
api = HTTPServer(("127.0.0.1", 0), Api)
threading.Thread(target=api.serve_forever, daemon=True).start()
url = f"http://127.0.0.1:{api.server_port}/v1/messages"
thread = threading.Thread(target=httpx2.post, args=(url,), kwargs={"json": ASK})
thread.start()
entered.wait()
print(within_two_seconds([1.0, None]))
go_on.set()
thread.join()
print(within_two_seconds([0.0, 7.0]))
