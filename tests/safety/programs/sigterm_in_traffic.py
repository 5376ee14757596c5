"""Calls until SIGTERM comes, and ends as the argument says: ``sigterm_in_traffic.py exit|uninstrument``."""

from __future__ import annotations

import os
import signal
import sys
import threading

import httpx2

import lz_otel
from tests.wire_doubles import A_JSON, transport

BODY = {"model": "claude-opus-5", "max_tokens": 9, "messages": [{"role": "user", "content": "x"}]}
done = 0


def leave(*_: object) -> None:
    """End the process, and say how many calls were finished."""
    if sys.argv[1] == "uninstrument":
        lz_otel.uninstrument()
    print(done, flush=True)
    sys.exit(0)


lz_otel.instrument(call_log=True)
signal.signal(signal.SIGTERM, leave)
client = httpx2.Client(transport=transport(httpx2, lambda _: httpx2.Response(200, json=A_JSON)))
lz_otel.instrument_client(client)
threading.Timer(0.5, lambda: os.kill(os.getpid(), signal.SIGTERM)).start()
while True:
    client.post("https://api.anthropic.com/v1/messages", json=BODY)
    done += 1
