"""A process that makes calls and ends: ``python ending.py END``. For `test_ends`."""

from __future__ import annotations

import asyncio
import logging
import multiprocessing
import os
import signal
import sys
import time

import httpx

import lz_otel
from lz_otel import _runtime
from lz_otel.catalogue import INTERNAL_LOST

BODY = {"model": "m", "choices": [], "usage": {"prompt_tokens": 1, "completion_tokens": 1, "total_tokens": 2}}


def instrument() -> None:
    logging.basicConfig(level=logging.WARNING)
    lz_otel.instrument(export_interval=3_600_000)


def call(times: int = 1) -> None:
    with httpx.Client(transport=httpx.MockTransport(lambda _: httpx.Response(200, json=BODY))) as client:
        lz_otel.instrument_client(client)
        for _ in range(times):
            client.post("https://api.openai.com/v1/chat/completions", json={"model": "m", "messages": []})


def child(_: object = None) -> None:
    """Do one job; in a process that does not share the parent's memory, start observing before."""
    instrument()
    call()


def fork(job: object) -> None:
    for _ in range(3):
        if (pid := os.fork()) == 0:
            job()  # type: ignore[operator]  # one of the two below
            os._exit(0)
        os.waitpid(pid, 0)


def children(method: str) -> None:
    context = multiprocessing.get_context(method)
    processes = [context.Process(target=child) for _ in range(2)]
    for process in processes:
        process.start()
    for process in processes:
        process.join()


async def application() -> None:
    async with lz_otel.lifespan(object()):
        call(5)
        print(time.monotonic(), flush=True)


@lz_otel.handler
def invoked() -> None:
    call()


@lz_otel.handler(timeout=5)
async def invoked_async() -> None:
    call()


def main(end: str) -> None:
    if end == "forks_that_instrument":
        fork(child)
        return
    instrument()
    if end.startswith("multiprocessing"):
        children(end.partition("_")[2])
    elif end == "forks":
        fork(call)
    elif end == "sleeping_handler":  # frozen after an invocation, and never woken up
        for _ in range(2):
            invoked()
            asyncio.run(invoked_async())
        os.kill(os.getpid(), signal.SIGKILL)
    elif end == "lifespan":
        asyncio.run(application())
        signal.raise_signal(signal.SIGTERM)
    elif end == "counted":
        counted()
    else:
        call(5)
        print(time.monotonic(), flush=True)
        leave(end)


def counted() -> None:
    """Two calls that arrive, three that do not."""
    call(2)
    assert lz_otel.flush(30)
    call(3)
    runtime = _runtime.current()
    assert runtime is not None
    os.environ["OTEL_EXPORTER_OTLP_ENDPOINT"] = "http://127.0.0.1:1"  # for the exporter of the last push
    lost = []
    count = runtime._count_lost

    def told(what: str, number: float) -> None:
        lost.append(f"{what} {float(number)}")
        count(what, number)

    _runtime.guard.on_lost = told
    lz_otel.uninstrument()
    assert 3 == runtime.store.value(INTERNAL_LOST, what="push")
    print(*lost)


def leave(end: str) -> None:
    if end == "os_exit":
        os._exit(7)
    if end == "raise_signal":
        signal.raise_signal(signal.SIGTERM)
    if end == "handler":  # the line that the documentation gives
        signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
        os.kill(os.getpid(), signal.SIGTERM)
    if end == "flush":
        assert lz_otel.flush(30)
        os.kill(os.getpid(), signal.SIGKILL)
    if end == "twice":  # an application that takes it off, and then ends as uvicorn does
        lz_otel.uninstrument()
        os._exit(0)


if __name__ == "__main__":
    main(sys.argv[1])
