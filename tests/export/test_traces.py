"""Spans of our own making leave the process only on request, and never over the application's provider."""

from __future__ import annotations

import json
import os
import subprocess
import sys

SCRIPT = """
import httpx2, lz_otel
from opentelemetry import trace
from tests.wire_doubles import A_JSON, transport
lz_otel.instrument(exporters="none")
client = httpx2.Client(transport=transport(httpx2, lambda r: httpx2.Response(200, json=A_JSON)))
lz_otel.instrument_client(client)
client.post("https://api.anthropic.com/v1/messages",
            json={"model": "claude-opus-5", "max_tokens": 1, "messages": [{"role": "user", "content": "SECRET"}]})
lz_otel.uninstrument()
trace.get_tracer_provider().shutdown() if hasattr(trace.get_tracer_provider(), "shutdown") else None
"""


def run(**environ: str) -> subprocess.CompletedProcess[str]:
    """The script in a process of its own."""
    return subprocess.run([sys.executable, "-c", SCRIPT], env={**os.environ, "PYTHONPATH": ".", **environ},
                          capture_output=True, text=True, timeout=60, check=True)  # fmt: skip


def test_console_exporter_on_request() -> None:
    """OTEL_TRACES_EXPORTER=console: one span per call, without content."""
    done = run(OTEL_TRACES_EXPORTER="console", OTEL_SERVICE_NAME="shop")
    span = json.loads(done.stdout)
    assert span["name"] == "chat claude-opus-5"
    assert span["attributes"]["gen_ai.usage.input_tokens"] == 2104
    assert span["resource"]["attributes"]["service.name"] == "shop"
    assert "SECRET" not in done.stdout


def test_no_request_no_spans() -> None:
    """Without the variable no provider is set and nothing is printed."""
    done = run()
    assert (done.stdout, done.stderr) == ("", "")
