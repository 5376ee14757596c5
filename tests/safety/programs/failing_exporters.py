"""Calls, a fork and more calls while an exporter fails: ``failing_exporters.py KIND FOLDER``.

Each process prints a line of its own: where faults were counted and how often, and what was logged.
"""

from __future__ import annotations

import io
import json
import logging
import os
import shutil
import socket
import sys
from pathlib import Path
from typing import Any

import httpx2

import lz_otel
from lz_otel import _runtime
from tests.export.receiver import Receiver
from tests.wire_doubles import A_JSON, transport

KIND, FOLDER = sys.argv[1], Path(sys.argv[2])
URL = "https://api.anthropic.com/v1/messages"
SYSTEM = '<layer-zero enabled="true" prune_ratio="0.32"/>\nYou help.'
output, logged = sys.stdout, []


class Keep(logging.Handler):
    """Keeps the text of each record."""

    def emit(self, record: logging.LogRecord) -> None:
        logged.append(record.getMessage())


class Refusing:
    """A MeterProvider, meter and instrument that raises at the method that is named."""

    def __init__(self, at: str) -> None:
        self._at = at

    def __getattr__(self, name: str) -> Any:
        def method(*_: object, **__: object) -> Refusing:
            if name == self._at:
                raise RuntimeError
            return self

        return method


class Broken(io.StringIO):
    """An output that fails once it is told to."""

    error: Exception | None = None

    def write(self, text: str) -> int:
        if self.error is not None:
            raise self.error
        return len(text)


def calls() -> None:
    """Make three calls, and see that nothing of them is changed."""
    for _ in range(3):
        body = {"model": "claude-opus-5", "max_tokens": 1, "system": SYSTEM, "messages": []}
        assert client.post(URL, json=body).json() == A_JSON


holder = socket.create_server(("127.0.0.1", 0))
port = holder.getsockname()[1]
settings: dict[str, Any] = {"exporters": KIND.partition(" ")[0], "export_interval": 10}
if KIND.startswith("provider"):
    settings = {"meter_provider": Refusing(KIND.rpartition(" ")[2])}
elif KIND.startswith("audit"):
    settings = {"exporters": "none", "audit_log": FOLDER / "made" / "audit.log"}
    (FOLDER / "made").mkdir()
elif KIND.startswith("prometheus"):
    settings["prometheus_port"] = port
elif KIND.startswith("otlp"):
    holder.close()
    receiver = Receiver() if " " in KIND else None
    os.environ["OTEL_EXPORTER_OTLP_ENDPOINT"] = receiver.endpoint if receiver else f"http://127.0.0.1:{port}"
    settings["trace_exporters"], settings["http_spans"] = "otlp", "off"
elif KIND.startswith("console"):
    sys.stdout = None if KIND == "console none" else Broken()
logging.getLogger("lz_otel").addHandler(Keep())
lz_otel.instrument(**settings)
client = httpx2.Client(transport=transport(httpx2, lambda request: httpx2.Response(200, json=A_JSON)))
lz_otel.instrument_client(client)
calls()
if KIND.startswith("audit"):
    runtime = _runtime.current()
    assert runtime is not None
    runtime.store.snapshot()
    runtime.audit._queue.join()
    shutil.rmtree(FOLDER / "made")
elif KIND.startswith("otlp ") and receiver is not None:
    assert lz_otel.flush(5)
    receiver.fail(KIND.rpartition(" ")[2])
elif isinstance(sys.stdout, Broken):
    sys.stdout.error = ValueError("closed") if KIND == "console closed" else BrokenPipeError()
pid = os.fork()
if pid == 0:
    logged.clear()
calls()
runtime = _runtime.current()
assert runtime is not None
lz_otel.uninstrument()
counted = {
    series.metric.name: {labels[0]: value for labels, value in series.points if value}
    for series in runtime.store.snapshot()
    if series.metric.name in ("lz.internal.errors", "lz.internal.lost")
}
if pid:
    assert os.waitpid(pid, 0)[1] == 0
print(
    json.dumps([counted["lz.internal.errors"], counted["lz.internal.lost"], logged]), file=output, flush=True
)
os._exit(0)
