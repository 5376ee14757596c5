"""What lz_otel costs besides calls: import, start-up, memory, scrapes. Each figure in a process of its own.

``python -m benchmarks.footprint FIGURE ARGUMENT…`` prints JSON; `benchmarks.__main__` runs them all.
"""

from __future__ import annotations

import gc
import json
import os
import socket
import statistics
import subprocess
import sys
import time
import urllib.request
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable

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
    import importlib

    command = [sys.executable, "-m", "benchmarks.modules"]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    for name in json.loads(done.stdout):
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
    return httpx.Client(
        transport=httpx.MockTransport(lambda _: httpx.Response(200, headers=headers, content=body))
    )


def figure_import(kind: str) -> dict[str, float]:
    """CPU milliseconds of `import lz_otel`, and of `instrument()`:
    beyond the dependencies' own import, or all of it.
    """
    if kind == "beyond":
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
    after, seen = resident(), _seen()
    if seen != total:
        sys.exit(f"lz_otel saw {seen:.0f} of {total} calls, so their memory means nothing")
    return {"calls": total, "mb": (after - before) / 1e6, "resident_mb": after / 1e6}


def _seen() -> float:
    """Calls that lz_otel counted, as a scrape would say."""
    from prometheus_client import REGISTRY

    return sum(
        sample.value
        for family in REGISTRY.collect()
        for sample in family.samples
        if sample.name == "gen_ai_client_inference_duration_seconds_count"
    )


def _many_series(client: Any, count: Callable[[], int], least: int) -> int:
    """Make calls until there are so many series; how many there are."""
    import lz_otel
    from benchmarks.cases import PROMPT

    series = 0
    for number in range(2000):
        with lz_otel.operation(f"route-{number % 90}"):
            client.post(
                "https://api.anthropic.com/v1/messages", json={**PROMPT, "model": f"model-{number // 90}"}
            )
        if number % 10 == 9:
            series = count()
            if series >= least:
                break
    return series


def figure_scrape(least: str) -> dict[str, float]:
    """Milliseconds of CPU and time, and bytes, of one scrape with at least so many series:
    the median of ten.
    """
    import lz_otel

    client, port = transport("httpx2"), free_port()
    lz_otel.instrument(exporters="prometheus", prometheus_host="127.0.0.1", prometheus_port=port)
    lz_otel.instrument_client(client)

    def scrape() -> bytes:
        body: bytes = urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics").read()
        return body

    series = _many_series(
        client, lambda: sum(not x.startswith(b"#") for x in scrape().splitlines()), int(least)
    )
    spent, waited, size = [], [], 0
    for _ in range(10):
        cpu, wall = time.process_time(), time.perf_counter()
        size = len(scrape())
        spent.append(time.process_time() - cpu)
        waited.append(time.perf_counter() - wall)
    median = statistics.median
    return {"series": series, "bytes": size, "cpu_ms": median(spent) * 1e3, "wall_ms": median(waited) * 1e3}


def figure_push(sink: str, least: str) -> dict[str, float]:
    """Milliseconds of CPU of one push by OTLP with at least so many series,
    buckets counted as a scrape does.
    """
    os.environ["OTEL_EXPORTER_OTLP_ENDPOINT"] = sink
    import lz_otel
    from lz_otel import _runtime

    client = transport("httpx2")
    lz_otel.instrument(exporters="otlp")
    lz_otel.instrument_client(client)
    runtime = _runtime.current()
    assert runtime is not None
    store = runtime.store

    def count() -> int:
        # A histogram has a series for each bound, for +Inf, for its sum and for its count
        return sum(
            len(s.points) * (len(s.metric.buckets) + 3 if s.metric.buckets else 1) for s in store.snapshot()
        )

    series = _many_series(client, count, int(least))
    at = time.process_time()
    lz_otel.uninstrument(timeout=60.0)
    return {"series": series, "cpu_ms": (time.process_time() - at) * 1e3}


FIGURES = {
    "import": figure_import,
    "memory": figure_memory,
    "growth": figure_growth,
    "scrape": figure_scrape,
    "push": figure_push,
}


if __name__ == "__main__":
    print(json.dumps(FIGURES[sys.argv[1]](*sys.argv[2:])))
