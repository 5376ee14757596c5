"""What lz_otel costs besides calls: import, start-up, memory, scrapes. Each figure in a process of its own.

``python -m benchmarks.footprint FIGURE ARGUMENT…`` prints JSON; `benchmarks.__main__` runs them all.
"""

from __future__ import annotations

import gc
import json
import os
import socket
import subprocess
import sys
import time
import urllib.request
from pathlib import Path
from typing import Any

MODULES = "import sys, lz_otel, lz_otel._runtime; print([m for m in sys.modules if m.partition('.')[0] != 'lz_otel'])"
CALLS_FOR_MEMORY = 500


def resident() -> int:
    """Bytes of memory that this process has resident."""
    gc.collect()
    pages = int(Path("/proc/self/statm").read_text("ascii").split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE")


def free_port() -> int:
    """A port that was free a moment ago."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        port: int = server.getsockname()[1]
        return port


def load_dependencies() -> None:
    """Import whatever `import lz_otel` and `instrument()` need from others, as another process found out."""
    code = "import lz_otel; lz_otel.instrument(exporters='prometheus', prometheus_port=0); " + MODULES
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    import ast
    import importlib

    for name in ast.literal_eval(done.stdout):
        if name in sys.modules or name == "__mp_main__":
            continue
        try:
            importlib.import_module(name)
        except ImportError:  # a part that only exists once its parent made it
            continue


def transport(module: str) -> Any:
    """A client whose answers are made in the process, without a socket, watched by lz_otel."""
    from benchmarks.server import message

    httpx = __import__(module)
    body = message(1000)
    headers = {"content-type": "application/json"}
    return httpx.Client(transport=httpx.MockTransport(lambda _: httpx.Response(200, headers=headers, content=body)))


def figure_import() -> dict[str, float]:
    """CPU milliseconds of `import lz_otel`, and of `instrument()`, beyond the dependencies' own import."""
    load_dependencies()
    at = time.process_time()
    import lz_otel

    imported = time.process_time()
    lz_otel.instrument(exporters="prometheus", prometheus_port=0)
    return {"import_ms": (imported - at) * 1e3, "instrument_ms": (time.process_time() - imported) * 1e3}


def figure_memory(with_us: str) -> dict[str, float]:
    """MB resident after some calls, with lz_otel on or only its dependencies imported."""
    load_dependencies()
    from benchmarks.cases import PROMPT

    client = transport("httpx2")
    if with_us == "yes":
        import lz_otel

        lz_otel.instrument(exporters="prometheus", prometheus_port=0)
        lz_otel.instrument_client(client)
    for _ in range(CALLS_FOR_MEMORY):
        client.post("https://api.anthropic.com/v1/messages", json=PROMPT)
    return {"mb": resident() / 1e6}


def figure_growth(calls: str) -> dict[str, float]:
    """MB by which memory grows from a tenth of so many calls to their end; no two prompts are alike."""
    import lz_otel
    from benchmarks.cases import PROMPT

    client = transport("httpx2")
    lz_otel.instrument(exporters="prometheus", prometheus_port=0)
    lz_otel.instrument_client(client)
    total, before = int(calls), 0
    for number in range(total):
        if number == total // 10:
            before = resident()
        prompt = {**PROMPT, "messages": [{"role": "user", "content": f"What does fox {number} do?"}]}
        client.post("https://api.anthropic.com/v1/messages", json=prompt)
    return {"mb": (resident() - before) / 1e6, "seen": _seen()}


def _seen() -> float:
    """Calls that lz_otel counted, as a scrape would say."""
    from prometheus_client import REGISTRY

    return sum(
        sample.value
        for family in REGISTRY.collect()
        for sample in family.samples
        if sample.name == "gen_ai_client_inference_duration_seconds_count"
    )


def figure_scrape(series: str) -> dict[str, float]:
    """Milliseconds of CPU, and bytes, of one scrape with at least so many series."""
    import lz_otel
    from benchmarks.cases import PROMPT

    client, port = transport("httpx2"), free_port()
    lz_otel.instrument(exporters="prometheus", prometheus_host="127.0.0.1", prometheus_port=port)
    lz_otel.instrument_client(client)
    address = f"http://127.0.0.1:{port}/metrics"
    body, lines = b"", 0
    for number in range(2000):
        with lz_otel.operation(f"route-{number % 90}"):
            client.post("https://api.anthropic.com/v1/messages", json={**PROMPT, "model": f"model-{number // 90}"})
        if number % 10 == 9:
            body = urllib.request.urlopen(address).read()
            lines = sum(1 for line in body.splitlines() if not line.startswith(b"#"))
            if lines >= int(series):
                break
    spent, waited = [], []
    for _ in range(10):
        cpu, wall = time.process_time(), time.perf_counter()
        urllib.request.urlopen(address).read()
        spent.append(time.process_time() - cpu)
        waited.append(time.perf_counter() - wall)
    return {"series": lines, "bytes": len(body), "cpu_ms": min(spent) * 1e3, "wall_ms": min(waited) * 1e3}


FIGURES = {
    "import": figure_import,
    "memory": figure_memory,
    "growth": figure_growth,
    "scrape": figure_scrape,
}


if __name__ == "__main__":
    print(json.dumps(FIGURES[sys.argv[1]](*sys.argv[2:])))
