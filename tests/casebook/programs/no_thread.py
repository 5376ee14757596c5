"""Observes without an exporter: there is no thread of ours, in the parent or in a child."""

from __future__ import annotations

import threading

import lz_otel
from tests.casebook.programs.calling import calls, fork, wait


def child() -> int:
    """Make a call; the number of threads besides this one."""
    calls(1)
    return threading.active_count() - 1


lz_otel.instrument(exporters="none")
calls(1)
assert threading.active_count() == 1
wait(fork(child))
