"""Drops streams in cycles while threads call and scrape: ``dropped_in_cycles.py [log]``."""

from __future__ import annotations

import gc
import logging
import random
import sys
import threading
from typing import TYPE_CHECKING, Any

import httpx2
from prometheus_client import Counter, generate_latest

import lz_otel
from lz_otel import _runtime, catalogue
from tests.wire_doubles import a_full, transport

if TYPE_CHECKING:
    from collections.abc import Iterator

THREADS, CALLS = 6, 60
URL = "https://api.anthropic.com/v1/messages"
BODY = {"model": "claude-opus-5", "max_tokens": 10, "messages": [{"role": "user", "content": "x"}]}


class Node:
    """Holds itself and things, so that only the garbage collector frees them."""

    def __init__(self, *things: Any) -> None:
        self.itself, self.things = self, things


def answer(_: Any) -> Any:
    """Answer with a stream."""
    return 200, {"content-type": "text/event-stream"}, a_full()


def held(client: httpx2.Client, operation: bool) -> Iterator[bytes]:
    """Hold a response within a generator of the host, which closes it wherever it ends."""
    if operation:
        with lz_otel.operation("held"), client.stream("POST", URL, json=BODY) as response:
            yield from response.iter_raw()
    else:
        with client.stream("POST", URL, json=BODY) as response:
            yield from response.iter_raw()


def call(seed: int) -> None:
    """Make calls; three of four are left half read in a cycle."""
    pick = random.Random(seed)
    client = httpx2.Client(transport=transport(httpx2, answer))
    lz_otel.instrument_client(client)
    for n in range(CALLS):
        how = n % 4
        own.labels(str(n % 7)).inc()
        if how == 0:
            client.post(URL, json=BODY)
        elif how == 1:
            response = client.send(client.build_request("POST", URL, json=BODY), stream=True)
            raw = response.iter_raw()
            next(raw)
            Node(response, raw)
        else:
            generator = held(client, how == 3)
            for _ in range(pick.randrange(1, 4)):
                next(generator)
            Node(generator)


def scrape() -> None:
    """Read the numbers until the calls are over."""
    while not stop.is_set():
        generate_latest()
        store.snapshot()
        stop.wait(0.001)


gc.set_threshold(60, 2, 2)
settings: dict[str, Any] = {"exporters": ("prometheus",), "prometheus_port": 0}
if "log" in sys.argv[1:]:
    logging.getLogger("lz_otel.calls").setLevel(logging.INFO)
    logging.getLogger("lz_otel.calls").addHandler(logging.NullHandler())
    settings["call_log"] = True
lz_otel.instrument(**settings)
runtime = _runtime.current()
assert runtime is not None
store = runtime.store
own = Counter("own", "The host's own.", ["a"])
stop = threading.Event()

callers = [threading.Thread(target=call, args=(n,)) for n in range(THREADS)]
scrapers = [threading.Thread(target=scrape) for _ in range(2)]
for thread in (*callers, *scrapers):
    thread.start()
for thread in callers:
    thread.join()
stop.set()
for thread in scrapers:
    thread.join()
gc.collect()
store.snapshot()
total = THREADS * CALLS
duration = catalogue.INFERENCE_DURATION
counts = [
    store.value(duration, **labels).count for labels in ({}, {"lz_ending": "ok"}, {"lz_ending": "abandoned"})
]
assert counts == [total, total // 4, total * 3 // 4], counts
assert store.value(catalogue.OPERATION_DURATION).count == total // 4
assert store.value(catalogue.CALL_ACTIVE) == 0
assert store.value(catalogue.INTERNAL_ERRORS) == 0
assert own.collect()
print("done")
