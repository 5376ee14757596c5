"""Scrapes the metrics port beside 200 idle connections, then beside a client that drips into all seats."""

from __future__ import annotations

import contextlib
import select
import socket
import threading
import urllib.request

import lz_otel

PORT = lz_otel.instrument(exporters="prometheus", prometheus_port=0).prometheus_port
assert PORT is not None
LIMIT = 1.0  # seconds that a scrape may take


def connect() -> socket.socket:
    """Connect to the port."""
    return socket.create_connection(("127.0.0.1", PORT), timeout=20)


def scrape() -> None:
    """Ask for the metrics once, within the limit."""
    with urllib.request.urlopen(f"http://127.0.0.1:{PORT}/metrics", timeout=LIMIT) as answer:
        assert b"lz_build_info" in answer.read()


def drip(stopped: threading.Event) -> None:
    """Hold 24 connections whose head never ends, and replace those that are closed."""
    live: list[socket.socket] = []
    while not stopped.wait(0.02):
        closed = set(select.select(live, [], [], 0)[0])
        live = [one for one in live if one not in closed]
        while len(live) < 24:
            live.append(connect())
            live[-1].sendall(b"GET /metrics HTTP/1.1\r\nA: ")
        for one in live:
            with contextlib.suppress(OSError):
                one.send(b"a")


idle = [connect() for _ in range(200)]
for _ in range(10):
    scrape()
stopped = threading.Event()
dripping = threading.Thread(target=drip, args=(stopped,))
dripping.start()
for _ in range(50):
    scrape()
stopped.set()
dripping.join()
lz_otel.uninstrument()
