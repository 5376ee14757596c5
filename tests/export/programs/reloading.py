"""A service under uvicorn's reloader that stops when its metrics were looked at. For `test_reloaders`."""

from __future__ import annotations

import os
import signal
import socket
import sys
import urllib.request
from typing import Any

import uvicorn

import lz_otel

if "METRICS" not in os.environ:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        os.environ["METRICS"] = str(free.getsockname()[1])
lz_otel.instrument(exporters="prometheus", prometheus_port=int(os.environ["METRICS"]))


async def app(scope: dict[str, Any], receive: Any, send: Any) -> None:
    """Look at the metrics as the application starts, and say who serves them."""
    if scope["type"] == "lifespan":
        await receive()
        served = lz_otel.status().prometheus_port == int(os.environ["METRICS"])
        with urllib.request.urlopen(
            f"http://127.0.0.1:{os.environ['METRICS']}/metrics", timeout=10
        ) as answer:
            served = served and b"lz_build_info" in answer.read()
        print("served by the child" if served else "not served by the child", flush=True)
        await send({"type": "lifespan.startup.complete"})
        os.kill(os.getppid(), signal.SIGTERM)
        await receive()
        await send({"type": "lifespan.shutdown.complete"})


if __name__ == "__main__":
    sys.path.insert(0, os.path.dirname(__file__))  # noqa: PTH120 - for the child, which imports this by name
    os.environ["PYTHONPATH"] = os.pathsep.join([sys.path[0], os.environ.get("PYTHONPATH", "")])
    uvicorn.run("reloading:app", port=0, reload=True, reload_dirs=[sys.argv[1]], log_level="warning")
