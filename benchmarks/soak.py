"""`make soak`: mixed traffic at full speed with faults, for minutes; then every invariant is checked.

    python -m benchmarks.soak [--seconds 600] [--threads 4] [--tasks 16] [--seed 0]

The truth is kept twice, by whoever made the calls and by the simulator that answered them; neither
looks at lz_otel. Exits with 1 when an invariant does not hold.
"""

from __future__ import annotations

import argparse
import asyncio
import gc
import os
import random
import statistics
import sys
import threading
import time
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

FAULTS = {
    "rate_limited": 0.01,
    "overloaded": 0.02,
    "server_error": 0.01,
    "bad_gateway": 0.005,
    "bad_request": 0.01,
    "stream_error": 0.02,
    "no_stop": 0.02,
    "drop": 0.01,
    "disconnect": 0.01,
    "retry_after_ms": 1.0,
}
MEMORY_MB, FILES, THREADS = 5.0, 4, 2  # how much each may differ between the middle and the end


class Sample(NamedTuple):
    """What the process held at one moment."""

    memory: float
    files: int
    threads: int


def sample() -> Sample:
    """Resident megabytes, open files, threads."""
    pages = int(Path("/proc/self/statm").read_text("ascii").split()[1])
    return Sample(pages * os.sysconf("SC_PAGE_SIZE") / 1e6, sum(1 for _ in Path("/proc/self/fd").iterdir()), threading.active_count())


class Ledger:
    """What the callers know: calls made, calls that went well, tokens of those; by kind of caller."""

    def __init__(self) -> None:
        self.counts: Counter[tuple[str, str]] = Counter()
        self._lock = threading.Lock()

    def add(self, route: str, ended: str, usage: Any = None) -> None:
        """One call is over. A stream that broke off has told its input, and not its output."""
        with self._lock:
            self.counts[route, "calls"] += 1
            self.counts[route, ended] += 1
            if usage is not None:
                read = usage.cache_read_input_tokens or 0
                written = usage.cache_creation_input_tokens or 0
                self.counts[route, "input"] += usage.input_tokens + read + written
                self.counts[route, "output"] += usage.output_tokens if ended == "ok" else 0
                self.counts[route, "cache_read"] += read


def prompt(draw: random.Random) -> dict[str, Any]:
    """A request like those of services: a fixed system prompt, a question, now and then a new model."""
    return {
        "model": draw.choice(("claude-haiku-4-5", "claude-sonnet-4-6", "claude-opus-5")),
        "max_tokens": draw.choice((20, 100, 300)),
        "system": [{"type": "text", "text": f"System {draw.randrange(5)}. " * 900, "cache_control": {"type": "ephemeral"}}],
        "messages": [{"role": "user", "content": f"Question {draw.randrange(10_000)}: what does the fox do?"}],
    }


class Reading:
    """What a caller has learnt from a stream so far."""

    def __init__(self) -> None:
        self.usage: Any = None
        self.ended = "other"

    def see(self, event: Any) -> None:
        """Counts are cumulative, and a later event may leave out what an earlier one said."""
        if event.type == "message_start":
            self.usage = event.message.usage
        elif event.type == "message_delta" and self.usage is not None:
            self.usage.output_tokens = event.usage.output_tokens
        elif event.type == "message_stop":
            self.ended = "ok"


def sync_caller(url: str, ledger: Ledger, until: float, seed: int) -> None:
    """One thread with the official SDK and plain httpx2, taking turns."""
    import anthropic
    import httpx2

    import lz_otel

    draw = random.Random(seed)
    client = anthropic.Anthropic(base_url=url, api_key="soak", max_retries=2)
    plain = httpx2.Client(headers={"x-api-key": "soak", "anthropic-version": "2023-06-01"})
    while time.monotonic() < until:
        kind = draw.choice(("plain", "plain", "stream", "stream", "break", "httpx2"))
        read = Reading()
        try:
            with lz_otel.operation(kind):
                if kind == "plain":
                    read.usage = client.messages.create(**prompt(draw)).usage
                    read.ended = "ok"
                elif kind == "stream":
                    with client.messages.create(**prompt(draw), stream=True) as stream:
                        for event in stream:
                            read.see(event)
                elif kind == "break":
                    with client.messages.create(**prompt(draw), stream=True) as stream:
                        next(iter(stream))
                else:
                    answer = plain.post(f"{url}/v1/messages", json=prompt(draw))
                    if answer.status_code == 200:
                        read.usage = anthropic.types.Message.model_validate_json(answer.content).usage
                        read.ended = "ok"
        except (anthropic.APIError, httpx2.HTTPError):
            pass
        ledger.add(kind, read.ended, read.usage)
    client.close()
    plain.close()


async def async_callers(url: str, ledger: Ledger, until: float, seed: int, tasks: int) -> None:
    """Tasks on one loop with the official SDK; some are cancelled in the middle of a stream."""
    import anthropic
    import httpx2

    import lz_otel

    client = anthropic.AsyncAnthropic(base_url=url, api_key="soak", max_retries=2)

    async def to_cancel(draw: random.Random, begun: asyncio.Event) -> None:
        with lz_otel.operation("async cancel"):
            stream = await client.messages.create(**prompt(draw), stream=True)
            async with stream:
                async for _ in stream:
                    begun.set()
                    await asyncio.sleep(60)

    async def cancelled(draw: random.Random) -> None:
        begun = asyncio.Event()
        task = asyncio.create_task(to_cancel(draw, begun))
        waiter = asyncio.create_task(begun.wait())
        await asyncio.wait({task, waiter}, return_when=asyncio.FIRST_COMPLETED)
        waiter.cancel()
        task.cancel()
        await asyncio.wait({task})
        if not task.cancelled():
            task.exception()
        ledger.add("async cancel", "other")

    async def caller(number: int) -> None:
        draw = random.Random(seed * 1000 + number)
        while time.monotonic() < until:
            kind = draw.choice(("async plain", "async stream", "async stream", "async cancel"))
            if kind == "async cancel":
                await cancelled(draw)
                continue
            read = Reading()
            try:
                with lz_otel.operation(kind):
                    if kind == "async plain":
                        read.usage = (await client.messages.create(**prompt(draw))).usage
                        read.ended = "ok"
                    else:
                        async with await client.messages.create(**prompt(draw), stream=True) as stream:
                            async for event in stream:
                                read.see(event)
            except (anthropic.APIError, httpx2.HTTPError):
                pass
            ledger.add(kind, read.ended, read.usage)

    await asyncio.gather(*(caller(n) for n in range(tasks)))
    await client.close()


def seen() -> tuple[Counter[tuple[str, str]], Counter[str]]:
    """What lz_otel reports: by operation, in the ledger's words; and totals of the whole process."""
    from prometheus_client import REGISTRY

    tokens = {
        "gen_ai_client_inference_usage_input_tokens_total": "input",
        "gen_ai_client_inference_usage_output_tokens_total": "output",
        "gen_ai_client_inference_usage_cache_read_input_tokens_total": "cache_read",
    }
    by_route: Counter[tuple[str, str]] = Counter()
    totals: Counter[str] = Counter()
    for family in REGISTRY.collect():
        for row in family.samples:
            route, value = row.labels.get("lz_route", ""), round(row.value)
            if row.name == "gen_ai_client_inference_duration_seconds_count":
                by_route[route, "calls"] += value
                by_route[route, "ok" if row.labels["lz_ending"] == "ok" else "other"] += value
            elif row.name in tokens:
                by_route[route, tokens[row.name]] += value
            elif row.name in ("lz_attempts_total", "lz_call_active", "lz_internal_errors_total", "lz_internal_overflow_total"):
                totals[row.name] += value
    return by_route, totals


def watch(address: str | None, until: float, samples: list[Sample]) -> None:
    """Look at the process every second, and ask for /metrics as Prometheus would."""
    import urllib.request

    while time.monotonic() < until:
        if address:
            with urllib.request.urlopen(address, timeout=30) as answer:
                body = answer.read()  # not parsed: that would take more memory than all the rest
            if b"lz_build_info{" not in body or not body.endswith(b"\n"):
                raise RuntimeError(f"a scrape of {len(body)} bytes that is not whole")
        samples.append(sample())
        time.sleep(1.0)


def flatness(samples: Sequence[Sample]) -> list[tuple[str, Any, Any, bool]]:
    """What the process holds at the end, against the middle of the run."""
    rows = []
    middle, end = samples[len(samples) * 2 // 5 : len(samples) // 2 + 1], samples[-max(1, len(samples) // 10) :]
    for name, allowed in (("memory", MEMORY_MB), ("files", FILES), ("threads", THREADS)):
        grown = statistics.median(getattr(s, name) for s in end) - statistics.median(getattr(s, name) for s in middle)
        rows.append((f"{name}: grown since the middle", f"≤ {allowed:g}", round(grown, 2), grown <= allowed))
    return rows


def compare(ledger: Ledger, attempts: int) -> list[tuple[str, Any, Any, bool]]:
    """Every count: what, expected, found, whether it holds."""
    by_route, totals = seen()
    rows: list[tuple[str, Any, Any, bool]] = []

    def equal(what: str, expected: Any, found: Any) -> None:
        rows.append((what, expected, found, expected == found))

    for route in sorted({route for route, _ in ledger.counts}):
        exact = ["calls"] if route in ("break", "async cancel") else ["calls", "ok", "other", "input", "output", "cache_read"]
        for key in exact:
            equal(f"{route}: {key}", ledger.counts[route, key], by_route[route, key])
    equal("attempts", attempts, totals["lz_attempts_total"])
    equal("calls still active", 0, totals["lz_call_active"])
    equal("faults inside lz_otel", 0, totals["lz_internal_errors_total"])
    equal("series over the limit", 0, totals["lz_internal_overflow_total"])
    return rows


def _thread(target: Callable[..., Any], *arguments: Any) -> threading.Thread:
    thread = threading.Thread(target=target, args=arguments, daemon=True)
    thread.start()
    return thread


def main() -> int:
    """Run, compare, print."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.soak", description="Minutes of traffic and faults.")
    parser.add_argument("--seconds", type=float, default=600.0)
    parser.add_argument("--threads", type=int, default=4, help="threads of the synchronous SDK")
    parser.add_argument("--tasks", type=int, default=16, help="tasks of the asynchronous SDK")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--bare", action="store_true", help="without lz_otel: what of the memory is not ours")
    options = parser.parse_args()

    import lz_otel
    from lz_otel.simulator import load, running

    scenario = load("healthy").changed(faults=FAULTS)
    ledger, samples = Ledger(), []  # type: Ledger, list[Sample]
    faults: list[str] = []
    threading.excepthook = lambda args: faults.append(f"{args.exc_type.__name__}: {args.exc_value}")
    with running(scenario, process=True, latency_scale=0.0, seed=options.seed) as simulator:
        address = None
        if not options.bare:
            status = lz_otel.instrument(exporters="prometheus", prometheus_host="127.0.0.1", prometheus_port=0)
            address = f"http://127.0.0.1:{status.prometheus_port}/metrics"
        until = time.monotonic() + options.seconds
        url = simulator.url
        threads = [_thread(sync_caller, url, ledger, until, options.seed + n) for n in range(options.threads)]
        threads.append(_thread(watch, address, until, samples))
        asyncio.run(async_callers(url, ledger, until, options.seed, options.tasks))
        for thread in threads:
            thread.join(60)
        gc.collect()
        rows = [] if options.bare else compare(ledger, simulator.summary()["begun"])
        rows += flatness(samples)
        lz_otel.uninstrument()

    width = max(len(what) for what, *_ in rows)
    for what, expected, found, holds in rows:
        print(f"{what:{width}}  expected {expected!s:>12}  found {found!s:>12}  {'holds' if holds else 'DOES NOT HOLD'}")
    for fault in faults:
        print(f"a caller died: {fault}")
    broken = sum(not holds for *_, holds in rows) + len(faults)
    calls = sum(n for (_, key), n in ledger.counts.items() if key == "calls")
    print("memory, MB, over the run: " + " ".join(f"{s.memory:.0f}" for s in samples[:: max(1, len(samples) // 20)]))
    print(f"{calls} calls in {options.seconds:.0f} s, {len(rows)} invariants, {broken} broken")
    return 1 if broken else 0


if __name__ == "__main__":
    sys.exit(main())
