"""Fills an audit log from this process, a forked child and one of multiprocessing: ``auditing.py PATH``."""

from __future__ import annotations

import multiprocessing
import os
import sys

import lz_otel
from tests.export.test_audit import BODY, URL, client


def calls(name: str) -> None:
    """Make calls, each with a content of its own."""
    one = client()
    for number in range(100):
        message = {"role": "user", "content": f"{name} of {os.getppid()} {os.getpid()}: {number}"}
        one.post(URL, json=BODY | {"messages": [message]})


lz_otel.instrument(
    exporters="none", mechanisms="pruning", audit_log=sys.argv[1], audit_max_bytes=20_000, audit_backups=900
)
sys.stdin.readline()
if (pid := os.fork()) == 0:
    calls("child")
    sys.exit()
calls("parent")
child = multiprocessing.get_context("fork").Process(target=calls, args=("multiprocessing",))
child.start()
child.join()
assert (os.waitpid(pid, 0)[1], child.exitcode) == (0, 0)
