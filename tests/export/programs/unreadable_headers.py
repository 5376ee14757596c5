"""One call, exported as metrics and spans by OTLP with the headers of the environment, and a forked child."""

from __future__ import annotations

import os

import httpx2

import lz_otel
from tests.wire_doubles import A_JSON, transport

lz_otel.instrument(exporters="otlp", trace_exporters="otlp", http_spans="off")
client = httpx2.Client(transport=transport(httpx2, lambda request: httpx2.Response(200, json=A_JSON)))
lz_otel.instrument_client(client)
pid = os.fork()
client.post(
    "https://api.anthropic.com/v1/messages",
    json={"model": "claude-opus-5", "max_tokens": 1, "messages": [{"role": "user", "content": "x"}]},
)
lz_otel.uninstrument()
if pid:
    assert os.waitpid(pid, 0)[1] == 0
