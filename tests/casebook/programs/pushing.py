"""Makes 200 calls while pushing, checks which threads connect, and says when it is at its end."""

from __future__ import annotations

import sys
import threading
import time

import lz_otel
from lz_otel.testing import Capture
from tests.casebook.programs.calling import calls, client, runtime

threads = set()


def hook(event: str, _: object) -> None:
    """Keep the name of each thread that connects."""
    if event == "socket.connect":
        threads.add(threading.current_thread().name)


sys.addaudithook(hook)
lz_otel.instrument()
http = client()
for _ in range(200):
    calls(1, http)
    time.sleep(0.005)
store = runtime().store
store.snapshot()
assert Capture(store).value("lz.attempts") == 200  # our own pushes are no calls
assert threads <= {"lz-otel-push"}, threads
print("end of main", flush=True)
