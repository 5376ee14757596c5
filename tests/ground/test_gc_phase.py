"""The garbage collector closes and drops streams in the middle of anything: no deadlock, no lost count."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.safety.processes import run

if TYPE_CHECKING:
    from pathlib import Path

PROGRAM = """
import gc, os, random, sys, threading
import httpx2, lz_otel
from lz_otel import _runtime, catalogue
from prometheus_client import CollectorRegistry, Counter, generate_latest
from tests.wire_doubles import A_JSON, a_full, transport

THREADS, CALLS = 6, 60
URL = "https://api.anthropic.com/v1/messages"
BODY = {"model": "claude-opus-5", "max_tokens": 10, "messages": [{"role": "user", "content": "x"}]}
gc.set_threshold(60, 2, 2)
settings = {"exporters": ("prometheus",), "prometheus_port": 0}
if "log" in sys.argv[1:] or os.environ.get("MODE") == "log":
    import logging
    logging.getLogger("lz_otel.calls").setLevel(logging.INFO)
    logging.getLogger("lz_otel.calls").addHandler(logging.NullHandler())
    settings["call_log"] = True
lz_otel.instrument(**settings)
store = _runtime.current().store
mine = Counter("mine", "The host's own.", ["a"])
stop = threading.Event()

def answer(request):
    return 200, {"content-type": "text/event-stream"}, a_full()

def held(client, operation):
    # A generator of the host: whoever ends it closes the response.
    if operation:
        with lz_otel.operation("held"), client.stream("POST", URL, json=BODY) as response:
            yield from response.iter_raw()
    else:
        with client.stream("POST", URL, json=BODY) as response:
            yield from response.iter_raw()

class Node:
    pass

def cycle(*things):
    node = Node()
    node.me, node.things = node, things

def caller(seed):
    pick = random.Random(seed)
    client = httpx2.Client(transport=transport(httpx2, answer))
    lz_otel.instrument_client(client)
    for n in range(CALLS):
        how = n % 4
        mine.labels(str(n % 7)).inc()
        if how == 0:
            client.post(URL, json=BODY)
        elif how == 1:
            response = client.send(client.build_request("POST", URL, json=BODY), stream=True)
            raw = response.iter_raw()
            next(raw)
            cycle(response, raw)
        else:
            one = held(client, how == 3)
            for _ in range(pick.randrange(1, 4)):
                next(one)
            cycle(one)

def scraper():
    while not stop.is_set():
        generate_latest()
        store.snapshot()
        stop.wait(0.001)

callers = [threading.Thread(target=caller, args=(n,)) for n in range(THREADS)]
scrapers = [threading.Thread(target=scraper) for _ in range(2)]
for t in (*callers, *scrapers): t.start()
for t in callers: t.join()
stop.set()
for t in scrapers: t.join()
gc.collect()
store.snapshot()
total = THREADS * CALLS
count = lambda **labels: store.value(catalogue.by_name("gen_ai.client.inference.duration"), **labels).count
found = (count(), count(lz_ending="ok"), count(lz_ending="abandoned"))
assert found == (total, total // 4, total * 3 // 4), found
assert store.value(catalogue.by_name("lz.operation.duration")).count == total // 4
assert store.value(catalogue.by_name("lz.call.active")) == 0
assert store.value(catalogue.by_name("lz.internal.errors")) == 0
assert mine.collect()
print("done")
"""


@pytest.mark.parametrize("mode", ["", "log", "files"])
def test_streams_dropped_in_cycles(mode: str, tmp_path: Path) -> None:
    """Streams in cycles, dropped or held by generators, while threads call and scrape: every call counts once."""
    environment = {"MODE": mode}
    if mode == "files":
        environment["PROMETHEUS_MULTIPROC_DIR"] = str(tmp_path)
    assert run(PROGRAM, seconds=90, **environment) == "done\n"


FORKS = """
import os, signal, threading
import httpx2, lz_otel
from lz_otel import _runtime, catalogue
from lz_otel._ground import gc_phase

lz_otel.instrument(exporters="none")
client = httpx2.Client(transport=httpx2.MockTransport(lambda _: httpx2.Response(200, json={"type": "message"})))
lz_otel.instrument_client(client)
inside, leave = threading.Event(), threading.Event()

class Slow:  # gives the interpreter up in the middle of a collection
    def __del__(self):
        inside.set()
        leave.wait(20)

def collect():
    import gc
    slow = Slow()
    slow.itself = slow
    del slow
    gc.collect()

def hold(operation):
    with operation._lock:
        inside.set()
        leave.wait(20)

def child():
    signal.alarm(10)
    with lz_otel.operation("child"):
        client.post("https://api.anthropic.com/v1/messages", json={"model": "m", "messages": []})
    store = _runtime.current().store
    store.snapshot()
    os._exit(0 if store.value(catalogue.INFERENCE_DURATION).count == 1 else 3)

with lz_otel.operation("parent") as operation:
    for work in (collect, lambda: hold(operation)):
        inside.clear()
        leave.clear()
        thread = threading.Thread(target=work)
        thread.start()
        assert inside.wait(20)
        pid = os.fork()
        if not pid:
            child()
        status = os.waitpid(pid, 0)[1]
        leave.set()
        thread.join()
        assert status == 0, (work, status)
print("done")
"""


def test_a_fork_while_another_thread_collects_or_holds_an_operation() -> None:
    """The child counts as ever, though the thread that was at it is gone."""
    assert run(FORKS, seconds=60) == "done\n"
