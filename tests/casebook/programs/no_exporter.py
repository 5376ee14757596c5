"""Makes calls without an exporter:
nothing is connected to, nothing listens, and there is no thread of ours.
"""

from __future__ import annotations

import sys
import threading

import lz_otel
from tests.casebook.programs.calling import calls

connected = []


def hook(event: str, _: object) -> None:
    """Keep each connection and each listening socket."""
    if event in ("socket.connect", "socket.bind"):
        connected.append(event)


sys.addaudithook(hook)
lz_otel.instrument(exporters="none")
calls(20)
assert threading.active_count() == 1, threading.enumerate()
assert connected == [], connected
