"""One call with a prompt, exporting no metrics, for `test_traces`."""

from __future__ import annotations

import httpx2
from opentelemetry import trace

import lz_otel
from tests.wire_doubles import A_JSON, transport

lz_otel.instrument(exporters="none")
client = httpx2.Client(transport=transport(httpx2, lambda request: httpx2.Response(200, json=A_JSON)))
lz_otel.instrument_client(client)
client.post(
    "https://api.anthropic.com/v1/messages",
    json={"model": "claude-opus-5", "max_tokens": 1, "messages": [{"role": "user", "content": "SECRET"}]},
)
lz_otel.uninstrument()
if shutdown := getattr(trace.get_tracer_provider(), "shutdown", None):
    shutdown()
