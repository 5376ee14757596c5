"""Forks twice in the middle of a stream; each child makes one call."""

from __future__ import annotations

import time

import lz_otel
from tests.casebook.bodies import ASK, MESSAGES_URL, SSE
from tests.casebook.programs.calling import calls, client, fork, runtime, wait
from tests.wire_doubles import a_full


def child() -> None:
    """Make one call, and stay until it is pushed."""
    calls(1)
    time.sleep(2)


lz_otel.instrument()
calls(3)
runtime().intake.catch_up()  # three are counted when the fork comes, two are not yet
calls(2)
streaming = client(lambda _: (200, SSE, a_full()))
with streaming.stream("POST", MESSAGES_URL, json={**ASK, "stream": True}) as response:
    pieces = response.iter_raw()
    next(pieces)
    for pid in [fork(child) for _ in range(2)]:
        wait(pid)
