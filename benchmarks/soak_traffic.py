"""The traffic of the soak: who makes calls, and what they themselves know of them."""

from __future__ import annotations

import asyncio
import random
import threading
import time
from array import array
from collections import Counter, defaultdict
from typing import Any

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
# Enough of every verdict for each to be counted in a short run, too
FAMILIES = {"symbolic": {"hit_rate": 0.4}, "zeroing": {"fallback_rate": 0.2}}
PATIENCE = 60.0  # seconds that callers may take to end their last call
LEFT = ("break", "async cancel")  # callers that leave in the middle of a stream


class Ledger:
    """What the callers know: calls made, calls that went well, tokens of those; by kind of caller.

    Attributes:
        begun: by kind, the numbers of the calls whose first event the caller has read before it left.
    """

    def __init__(self) -> None:
        self.counts: Counter[tuple[str, str]] = Counter()
        self.begun: dict[str, array[int]] = defaultdict(lambda: array("Q"))  # small: the soak measures memory
        self._numbers: Counter[str] = Counter()
        self._lock = threading.Lock()

    def number(self, route: str) -> int:
        """The number of the next call of this kind; its name for the simulator is made of it."""
        with self._lock:
            self._numbers[route] += 1
            return self._numbers[route]

    def add(self, route: str, ended: str, usage: Any = None, begun: int = 0) -> None:
        """One call is over. A stream that broke off has told its input, and not its output."""
        with self._lock:
            self.counts[route, "calls"] += 1
            self.counts[route, ended] += 1
            if begun:
                self.begun[route].append(begun)
            if usage is not None:
                read = usage.cache_read_input_tokens or 0
                written = usage.cache_creation_input_tokens or 0
                self.counts[route, "input"] += usage.input_tokens + read + written
                self.counts[route, "output"] += usage.output_tokens if ended == "ok" else 0
                self.counts[route, "cache_read"] += read


def name(route: str, number: int) -> str:
    """A call's name, which the simulator's truth echoes."""
    return f"{route} {number}"


def prompt(draw: random.Random) -> dict[str, Any]:
    """A request like those of services: a fixed system prompt, a question, now and then a new model."""
    return {
        "model": draw.choice(("claude-haiku-4-5", "claude-sonnet-4-6", "claude-opus-5")),
        "max_tokens": draw.choice((20, 100, 300)),
        "system": [
            {
                "type": "text",
                "text": f"System {draw.randrange(5)}. " * 900,
                "cache_control": {"type": "ephemeral"},
            }
        ],
        "messages": [
            {"role": "user", "content": f"Question {draw.randrange(10_000)}: what does the fox do?"}
        ],
    }


def headers(draw: random.Random, route: str, number: int) -> dict[str, str]:
    """The call's name for the truth log; every third asks for layers to be zeroed, which may fall back."""
    named = {"x-sim-call": name(route, number), "x-sim-route": route}
    return named | ({"anthropic-layer-zero": "enabled"} if draw.random() < 0.33 else {})


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
        number = ledger.number(kind)
        extra = headers(draw, kind, number)
        read = Reading()
        try:
            with lz_otel.operation(kind):
                if kind == "plain":
                    read.usage = client.messages.create(**prompt(draw), extra_headers=extra).usage
                    read.ended = "ok"
                elif kind in ("stream", "break"):
                    with client.messages.create(**prompt(draw), extra_headers=extra, stream=True) as stream:
                        for event in stream:
                            read.see(event)
                            if kind == "break":
                                break
                else:
                    answer = plain.post(f"{url}/v1/messages", json=prompt(draw), headers=extra)
                    if answer.status_code == 200:
                        read.usage = anthropic.types.Message.model_validate_json(answer.content).usage
                        read.ended = "ok"
        except (anthropic.APIError, httpx2.HTTPError):
            pass
        ledger.add(kind, read.ended, read.usage, number if kind == "break" and read.usage is not None else 0)
    client.close()
    plain.close()


async def _to_cancel(
    client: Any, draw: random.Random, extra: dict[str, str], read: Reading, begun: asyncio.Event
) -> None:
    """Begin a stream, say so, and wait in its middle."""
    import lz_otel

    with lz_otel.operation("async cancel"):
        stream = await client.messages.create(**prompt(draw), extra_headers=extra, stream=True)
        async with stream:
            async for event in stream:
                read.see(event)
                begun.set()
                await asyncio.sleep(60)


async def _cancelled(client: Any, ledger: Ledger, draw: random.Random) -> None:
    """Make a call that is cancelled in the middle of its stream."""
    begun, read = asyncio.Event(), Reading()
    number = ledger.number("async cancel")
    extra = headers(draw, "async cancel", number)
    task = asyncio.create_task(_to_cancel(client, draw, extra, read, begun))
    waiter = asyncio.create_task(begun.wait())
    await asyncio.wait({task, waiter}, return_when=asyncio.FIRST_COMPLETED)
    waiter.cancel()
    task.cancel()
    await asyncio.wait({task})
    if not task.cancelled():
        task.exception()
    ledger.add("async cancel", "other", read.usage, number if begun.is_set() else 0)


async def _finished(client: Any, ledger: Ledger, draw: random.Random, kind: str) -> None:
    """Make a call, plain or streamed, to its end."""
    import anthropic
    import httpx2

    import lz_otel

    extra = headers(draw, kind, ledger.number(kind))
    read = Reading()
    try:
        with lz_otel.operation(kind):
            if kind == "async plain":
                answer = await client.messages.create(**prompt(draw), extra_headers=extra)
                read.usage = answer.usage
                read.ended = "ok"
            else:
                stream = await client.messages.create(**prompt(draw), extra_headers=extra, stream=True)
                async with stream:
                    async for event in stream:
                        read.see(event)
    except (anthropic.APIError, httpx2.HTTPError):
        pass
    ledger.add(kind, read.ended, read.usage)


async def async_callers(url: str, ledger: Ledger, until: float, seed: int, tasks: int) -> None:
    """Call in tasks on one loop with the official SDK; some are cancelled in the middle of a stream."""
    import anthropic

    client = anthropic.AsyncAnthropic(base_url=url, api_key="soak", max_retries=2)

    async def caller(of: int) -> None:
        draw = random.Random(seed * 1000 + of)
        while time.monotonic() < until:
            kind = draw.choice(("async plain", "async stream", "async stream", "async cancel"))
            if kind == "async cancel":
                await _cancelled(client, ledger, draw)
            else:
                await _finished(client, ledger, draw, kind)

    await asyncio.gather(*(caller(n) for n in range(tasks)))
    await client.close()


def run_for(seconds: float, url: str, ledger: Ledger, seed: int, threads: int, tasks: int) -> list[str]:
    """Let all callers make calls for so long, and wait for them; those that have not ended a minute later."""
    until = time.monotonic() + seconds
    workers = [
        threading.Thread(
            target=sync_caller, args=(url, ledger, until, seed + n), daemon=True, name=f"caller {n}"
        )
        for n in range(threads)
    ]
    for worker in workers:
        worker.start()
    stuck = []
    try:
        asyncio.run(asyncio.wait_for(async_callers(url, ledger, until, seed, tasks), seconds + PATIENCE))
    except TimeoutError:
        stuck.append("asynchronous callers")
    return stuck + still_running(workers, PATIENCE)


def still_running(workers: list[threading.Thread], patience: float) -> list[str]:
    """Join them all within so many seconds; the names of those that are alive after it."""
    end = time.monotonic() + patience
    for worker in workers:
        worker.join(max(0.0, end - time.monotonic()))
    return [worker.name for worker in workers if worker.is_alive()]
