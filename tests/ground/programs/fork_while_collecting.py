"""Forks while another thread is in the middle of a collection, or holds an operation's lock."""

from __future__ import annotations

import gc
import os
import signal
import threading
from typing import TYPE_CHECKING

import httpx2

import lz_otel
from lz_otel import _runtime, catalogue

if TYPE_CHECKING:
    from collections.abc import Callable

inside, leave = threading.Event(), threading.Event()


class Slow:
    """Gives the interpreter up in the middle of the collection that frees it."""

    def __init__(self) -> None:
        self.itself = self

    def __del__(self) -> None:
        inside.set()
        leave.wait(20)


def collect() -> None:
    """Collect garbage, and stay in the middle of that."""
    Slow()
    gc.collect()


def hold() -> None:
    """Hold the operation's lock."""
    with operation._lock:
        inside.set()
        leave.wait(20)


def child() -> None:
    """Make one call, and end with 0 if it was counted."""
    signal.alarm(10)
    with lz_otel.operation("child"):
        client.post("https://api.anthropic.com/v1/messages", json={"model": "m", "messages": []})
    runtime = _runtime.current()
    assert runtime is not None
    runtime.store.snapshot()
    os._exit(0 if runtime.store.value(catalogue.INFERENCE_DURATION).count == 1 else 3)


def fork_during(work: Callable[[], None]) -> None:
    """Fork while another thread is in the middle of the work."""
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


lz_otel.instrument(exporters="none")
client = httpx2.Client(
    transport=httpx2.MockTransport(lambda _: httpx2.Response(200, json={"type": "message"}))
)
lz_otel.instrument_client(client)
with lz_otel.operation("parent") as operation:
    fork_during(collect)
    fork_during(hold)
print("done")
