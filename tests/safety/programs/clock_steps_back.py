"""Calls, streams and operations while the monotonic clock steps back, for `test_clocks`.

Prints the names of all histograms that took samples, and of those whose sum is negative.
"""

from __future__ import annotations

import random
import sys
import time

_real, _step = time.perf_counter, random.Random(int(sys.argv[1]))
time.perf_counter = lambda: _real() + _step.uniform(-5, 5)  # before anybody takes it by name

import httpx  # noqa: E402

import lz_otel  # noqa: E402
from lz_otel import _runtime  # noqa: E402
from tests.wire_doubles import A_JSON, a_full  # noqa: E402

BODY = {"model": "claude-haiku-4-5", "max_tokens": 5, "messages": []}
URL = "https://api.anthropic.com/v1/messages"


class Pieces(httpx.SyncByteStream):
    def __iter__(self) -> object:
        yield from a_full()


def answer(request: httpx.Request) -> httpx.Response:
    if b'"stream"' in request.content:
        return httpx.Response(200, headers={"content-type": "text/event-stream"}, stream=Pieces())
    return httpx.Response(200, json=A_JSON)


lz_otel.instrument(exporters=(), overhead_sample=1.0, conventions="both")
client = httpx.Client(transport=httpx.MockTransport(answer))
lz_otel.instrument_client(client)
for _ in range(40):
    with lz_otel.operation("route"):
        client.post(URL, json=BODY)
        client.post(URL, json=BODY | {"stream": True})
runtime = _runtime.current()
seen = {
    series.metric.name: series for series in runtime.store.snapshot() if series.metric.kind == "histogram"
}
print(*sorted(seen))
print(*sorted(name for name, series in seen.items() if any(point.sum < 0 for _, point in series.points)))
