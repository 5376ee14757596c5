"""An application with a TracerProvider of its own; prints its flushes and our threads, for `test_traces`."""

from __future__ import annotations

import threading

from opentelemetry import trace
from opentelemetry.sdk.trace import TracerProvider

import lz_otel

flushed: list[int] = []


class Host(TracerProvider):
    """Notes when it is flushed."""

    def force_flush(self, timeout_millis: int = 30000) -> bool:
        flushed.append(timeout_millis)
        return True


trace.set_tracer_provider(Host())
lz_otel.instrument(exporters="none")
lz_otel.uninstrument()
print(flushed, [thread.name for thread in threading.enumerate() if thread.name == "lz-otel-spans"])
