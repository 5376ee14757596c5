"""Makes 200 calls while pushing, checks which threads connect and import, and says when it is at its end."""

from __future__ import annotations

import sys
import threading
import time

import lz_otel
from lz_otel.testing import Capture
from tests.casebook.programs.calling import calls, client, runtime

threads = set()
imported = []


def hook(event: str, arguments: tuple[object, ...]) -> None:
    """Keep the name of each thread that connects, and what threads other than the main one import."""
    if event == "socket.connect":
        threads.add(threading.current_thread().name)
    elif event == "import" and threading.current_thread() is not threading.main_thread():
        imported.append(arguments[0])


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
assert not imported, imported  # a fork meanwhile leaves the child with a lock that never opens
print("end of main", flush=True)
