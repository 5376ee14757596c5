"""Forks while one thread holds every lock of ours, and then while four threads are calling."""

from __future__ import annotations

import threading
import time

import lz_otel
from lz_otel import _runtime
from lz_otel._ground.guard import guard
from tests.casebook.programs.calling import calls, client, fork, runtime, wait

held, release = threading.Event(), threading.Event()


def hold() -> None:
    """Stand in the middle of everything of ours."""
    current = runtime()
    with _runtime._lock, current.store._lock, current.intake.backlog._lock, guard._lock:
        held.set()
        release.wait(20)


def busy() -> None:
    """Call until the forks are over."""
    http = client()
    while not release.is_set():
        calls(1, http)


def quick_child() -> int:
    """Use all of the interface; 3 if that takes a second."""
    begun = time.monotonic()
    calls(1)
    lz_otel.status()
    lz_otel.instrument()
    return 0 if time.monotonic() - begun < 1 else 3


lz_otel.instrument()
calls(5)
holder = threading.Thread(target=hold, daemon=True)
holder.start()
assert held.wait(5)
wait(fork(quick_child))
release.set()
holder.join()
release.clear()
workers = [threading.Thread(target=busy, daemon=True) for _ in range(4)]
for worker in workers:
    worker.start()
for _ in range(10):
    time.sleep(0.02)
    wait(fork(lambda: calls(1)))
release.set()
