"""Real processes: workers, forks and spawns in the middle of calls, threads, event loops, signals and exits."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
import urllib.request
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING

import pytest

from tests.peers import serving
from tests.safety.processes import ROOT, run
from tests.wire_doubles import A_JSON, a_full

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.export.receiver import Receiver

DURATION = "gen_ai.client.inference.duration"
INPUT = "gen_ai.client.inference.usage.input_tokens"
ACTIVE = "lz.call.active"


class Upstream(BaseHTTPRequestHandler):
    """A Messages API; it waits where the path asks for it."""

    protocol_version = "HTTP/1.1"

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        if body["model"] == "slow":
            time.sleep(0.3)
        stream = body.get("stream")
        answer = b"".join(a_full()) if stream else json.dumps(A_JSON).encode()
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream" if stream else "application/json")
        self.send_header("Content-Length", str(len(answer)))
        self.end_headers()
        self.wfile.write(answer)

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - name given by http.server
        """Nothing."""


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 128

    def handle_error(self, request: object, client_address: object) -> None:
        """Clients that leave are part of the tests."""


@pytest.fixture
def upstream() -> Iterator[str]:
    server = _Server(("127.0.0.1", 0), Upstream)
    with serving(server) as url:
        yield url


def sent(receiver: Receiver, name: str = DURATION) -> float:
    """Sum over all processes of what each said last."""
    return sum(receiver.last(name).values())


HEAD = """
import os, sys, threading, time
import anthropic, httpx2, lz_otel
from lz_otel import _runtime, catalogue
URL = os.environ["UPSTREAM"]
BODY = {"model": "claude-opus-5", "max_tokens": 9, "messages": [{"role": "user", "content": "x"}]}
def client(kind=anthropic.Anthropic):
    return kind(api_key="k", base_url=URL, max_retries=0)
def value(name, **labels):
    store = _runtime.current().store
    store.snapshot()
    found = store.value(catalogue.by_name(name), **labels)
    return getattr(found, "count", found)
"""
OTLP = {"OTEL_METRICS_EXPORTER": "otlp", "OTEL_METRIC_EXPORT_INTERVAL": "60000"}
NONE = {"OTEL_METRICS_EXPORTER": "none"}

# uvicorn ends its workers by the signal itself, so nothing registered with atexit runs: the end of the
# application's lifespan is the place for the last push.
UVICORN = """
import contextlib, os
import anthropic, lz_otel
from starlette.applications import Starlette
from starlette.responses import PlainTextResponse
from starlette.routing import Route
lz_otel.instrument()
client = anthropic.AsyncAnthropic(api_key="k", base_url=os.environ["UPSTREAM"], max_retries=0)
async def ask(request):
    message = {"role": "user", "content": "x"}
    if request.query_params.get("stream"):
        async with client.messages.stream(model="m", max_tokens=9, messages=[message]) as events:
            await events.get_final_text()
    else:
        await client.messages.create(model="m", max_tokens=9, messages=[message])
    return PlainTextResponse(str(os.getpid()))
@contextlib.asynccontextmanager
async def lifespan(_):
    yield
    lz_otel.uninstrument()
app = Starlette(routes=[Route("/", ask)], lifespan=lifespan)
"""


def test_uvicorn_workers(upstream: str, receiver: Receiver, tmp_path: Path) -> None:
    """Two workers of uvicorn: each pushes its own calls under its own instance id, the last ones as its lifespan ends."""
    (tmp_path / "safety_app.py").write_text(UVICORN)
    environment = {
        **os.environ,
        **OTLP,
        "UPSTREAM": upstream,
        "OTEL_EXPORTER_OTLP_ENDPOINT": receiver.endpoint,
    }
    environment["PYTHONPATH"] = f"{ROOT}{os.pathsep}{tmp_path}"
    log = tmp_path / "log"
    with log.open("wb") as out:
        server = subprocess.Popen(
            [sys.executable, "-m", "uvicorn", "safety_app:app", "--workers", "2", "--port", "0"],
            env=environment,
            stdout=out,
            stderr=out,
        )
    try:
        deadline = time.monotonic() + 60
        while not (port := re.search(rb"running on http://127.0.0.1:(\d+)", log.read_bytes())) or (
            log.read_bytes().count(b"startup complete") < 2
        ):
            assert time.monotonic() < deadline, log.read_text()
            assert server.poll() is None, log.read_text()
            time.sleep(0.1)
        address = f"http://127.0.0.1:{int(port[1])}/"
        pids = set()
        calls = 0
        while calls < 40 or (len(pids) < 2 and calls < 400):
            calls += 1
            with urllib.request.urlopen(
                address + ("?stream=1" if calls % 3 == 0 else ""), timeout=30
            ) as answer:
                pids.add(answer.read())
        server.send_signal(signal.SIGTERM)
        server.wait(30)
    finally:
        if server.poll() is None:
            server.kill()
            server.wait()
    assert (sent(receiver), len(receiver.last(DURATION))) == (calls, len(pids)), log.read_text()
    assert sent(receiver, INPUT) == calls * 2104
    assert b"Traceback" not in log.read_bytes()


@pytest.mark.parametrize("method", ["fork", "spawn"])
def test_multiprocessing_inside_a_call(
    method: str, upstream: str, receiver: Receiver, tmp_path: Path
) -> None:
    """Children begun while other threads are inside calls: each reports its own calls only, and none hangs."""
    program = tmp_path / "program.py"
    program.write_text(
        HEAD
        + f"""
import multiprocessing
def child(queue):
    lz_otel.instrument()  # of no effect where the fork brought it along
    one = client()
    for _ in range(3):
        one.messages.create(**BODY)
    queue.put(value("lz.call.active"))
if __name__ == "__main__":
    lz_otel.instrument()
    context = multiprocessing.get_context({method!r})
    queue = context.Queue()
    stop, counts = threading.Event(), [0] * 4
    def slow(n):
        one = client()
        while not stop.is_set():
            one.messages.create(**{{**BODY, "model": "slow" if n % 2 else "claude-opus-5"}})
            counts[n] += 1
    threads = [threading.Thread(target=slow, args=(n,)) for n in range(4)]
    for t in threads: t.start()
    while not all(counts):  # what the SDK and the interpreter do once, under locks that no fork frees, is done
        time.sleep(0.01)
    children = []
    for _ in range(4):
        time.sleep(0.05)
        children.append(context.Process(target=child, args=(queue,)))
        children[-1].start()
    active = [queue.get(timeout=60) for _ in children]
    for c in children: c.join(60)
    stop.set()
    for t in threads: t.join()
    assert [c.exitcode for c in children] == [0] * 4
    assert active == [0] * 4, active
    print(sum(counts))
"""
    )
    text = f"import runpy; runpy.run_path({str(program)!r}, run_name='__main__')"
    if method == "spawn":  # a spawned child imports the main module by its path
        text = f"import subprocess, sys; sys.exit(subprocess.call([sys.executable, {str(program)!r}]))"
    out = run(text, seconds=60, UPSTREAM=upstream, OTEL_EXPORTER_OTLP_ENDPOINT=receiver.endpoint, **OTLP)
    assert sent(receiver) == int(out) + 12
    assert len(receiver.last(DURATION)) == 5


def test_threads(upstream: str) -> None:
    """32 threads, plain and streamed: not a call is lost or counted twice, and the tokens add up."""
    program = (
        HEAD
        + """
lz_otel.instrument()
one = client()
def work(n):
    for i in range(15):
        if (n + i) % 2:
            one.messages.create(**BODY)
        else:
            with one.messages.stream(**BODY) as events:
                events.get_final_text()
threads = [threading.Thread(target=work, args=(n,)) for n in range(32)]
for t in threads: t.start()
for t in threads: t.join()
print(value("gen_ai.client.inference.duration", lz_ending="ok"), value("gen_ai.client.inference.duration"),
      value("gen_ai.client.inference.usage.input_tokens"), value("lz.attempts"), value("lz.call.active"),
      value("lz.internal.errors"))
"""
    )
    assert run(program, seconds=120, UPSTREAM=upstream, **NONE).split() == [
        "480",
        "480",
        str(480 * 2104.0),
        "480.0",
        "0.0",
        "0.0",
    ]


def test_many_event_loops(upstream: str) -> None:
    """One loop after the other and several at once: calls of all of them count once."""
    program = (
        HEAD
        + """
import asyncio
lz_otel.instrument()
async def main():
    async with client(anthropic.AsyncAnthropic) as one:
        async def ask(n):
            if n % 2:
                return await one.messages.create(**BODY)
            async with one.messages.stream(**BODY) as events:
                return await events.get_final_text()
        await asyncio.gather(*map(ask, range(8)))
for _ in range(5):
    asyncio.run(main())
threads = [threading.Thread(target=lambda: asyncio.run(main())) for _ in range(4)]
for t in threads: t.start()
for t in threads: t.join()
print(value("gen_ai.client.inference.duration", lz_ending="ok"), value("lz.call.active"), value("lz.internal.errors"))
"""
    )
    assert run(program, seconds=120, UPSTREAM=upstream, **NONE).split() == ["72", "0.0", "0.0"]


def test_trio(upstream: str) -> None:
    """Under trio a call counts as under asyncio; one whose scope is cancelled is cancelled."""
    pytest.importorskip("trio", reason="trio is not installed: install the dependency group test")
    program = (
        HEAD
        + """
import trio
lz_otel.instrument()
async def main():
    async with httpx2.AsyncClient(trust_env=False) as one:
        await one.post(URL + "/v1/messages", json=BODY)
        async with one.stream("POST", URL + "/v1/messages", json={**BODY, "stream": True}) as response:
            async for _ in response.aiter_raw(): pass
        with trio.move_on_after(0.05):
            await one.post(URL + "/v1/messages", json={**BODY, "model": "slow"})
trio.run(main)
print(*(value("gen_ai.client.inference.duration", lz_ending=e) for e in ("ok", "cancelled")), value("lz.call.active"))
"""
    )
    assert run(program, UPSTREAM=upstream, **NONE).split() == ["2", "1", "0.0"]


def test_gevent(upstream: str) -> None:
    """Greenlets of a patched process are as threads: each has its operation, and no call is lost or counted twice."""
    pytest.importorskip("gevent", reason="gevent is not installed: install the dependency group test")
    program = (
        "from gevent import monkey; monkey.patch_all()\n"
        + HEAD
        + """
import gevent
lz_otel.instrument()
one = client()
def work(number):
    with lz_otel.operation(f"route-{number % 3}"):
        for turn in range(4):
            if turn % 2:
                with one.messages.stream(**BODY) as events: events.until_done()
            else:
                one.messages.create(**BODY)
gevent.joinall([gevent.spawn(work, number) for number in range(30)], raise_error=True)
print(*(value("gen_ai.client.inference.duration", lz_route=f"route-{n}", lz_ending="ok") for n in range(3)))
print(value("lz.call.active"), value("lz.internal.errors"))
"""
    )
    assert run(program, seconds=120, UPSTREAM=upstream, **NONE).split() == ["40", "40", "40", "0.0", "0.0"]


@pytest.mark.parametrize("how", ["exit", "uninstrument"])
def test_sigterm_in_the_middle_of_traffic(how: str, upstream: str, receiver: Receiver) -> None:
    """SIGTERM while the main thread is anywhere, our own code included: every finished call is in the last push."""
    program = (
        HEAD
        + f"""
import signal
from tests.wire_doubles import A_JSON, transport
lz_otel.instrument(call_log=True)
done = 0
def leave(*_):
    if {how!r} == "uninstrument":
        lz_otel.uninstrument()
    print(done)
    sys.stdout.flush()
    sys.exit(0)
signal.signal(signal.SIGTERM, leave)
one = httpx2.Client(transport=transport(httpx2, lambda r: httpx2.Response(200, json=A_JSON)))
lz_otel.instrument_client(one)
threading.Timer(0.5, lambda: os.kill(os.getpid(), signal.SIGTERM)).start()
while True:
    one.post(URL + "/v1/messages", json=BODY)
    done += 1
"""
    )
    out = run(program, seconds=60, UPSTREAM=upstream, OTEL_EXPORTER_OTLP_ENDPOINT=receiver.endpoint, **OTLP)
    assert sent(receiver) - int(out) in (0, 1)  # the one whose answer was on its way to the host


def test_exit_with_open_streams(upstream: str, receiver: Receiver) -> None:
    """An interpreter that ends with streams half read ends at once, silently, and pushes what had ended."""
    program = (
        HEAD
        + """
lz_otel.instrument()
one = client()
one.messages.create(**BODY)
kept = [one.messages.create(**BODY, stream=True) for _ in range(3)]
for events in kept: next(iter(events))
def generator():
    with one.messages.stream(**BODY) as events:
        yield from events
held = generator()
next(held)
threading.Thread(target=lambda: next(iter(kept[0])), daemon=True).start()
"""
    )
    run(program, UPSTREAM=upstream, OTEL_EXPORTER_OTLP_ENDPOINT=receiver.endpoint, **OTLP)
    assert receiver.last(DURATION)
    assert sent(receiver) >= 1
