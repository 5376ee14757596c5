"""Celery: its pool's processes are killed by a signal, as soon as they have nothing to do.

So what a task has counted is sent as it ends, before its worker says so. A task without calls sends nothing.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

from lz_otel._ground.guard import guarded
from lz_otel.catalogue import ATTEMPTS

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import ModuleType

    from lz_otel._export._threads import Flush
    from lz_otel._measure.store import Store

LIMIT = 0.5  # seconds that the end of a task may be held up (C)
_NAME = "lz_otel"


class CeleryHooks:
    """Sends what each task has counted, in the processes of Celery's pool.

    Args:
        store: what has been counted.
        ask: begins to send it; ``None`` where that cannot be done.

    Attributes:
        callbacks: what is to be done with each module, once it is imported.
    """

    def __init__(self, store: Store, ask: Callable[[], list[Flush] | None]) -> None:
        self._store, self._ask = store, ask
        self._signals: Any = None
        self._sent = 0.0
        self._late: list[Flush] = []  # did not arrive in time: no task waits until they have
        self.callbacks: dict[str, Callable[[ModuleType], None]] = {"celery.signals": self._connect}

    def _connect(self, module: Any) -> None:
        self._signals = module
        module.task_postrun.connect(self.task_ended, weak=False, dispatch_uid=_NAME)

    def remove(self) -> None:
        """Hear of no more tasks."""
        signals, self._signals = self._signals, None
        if signals is not None:
            signals.task_postrun.disconnect(dispatch_uid=_NAME)

    @guarded("export")
    def task_ended(self, **_: object) -> None:
        """Send what is new, if this is a process of the pool (the worker itself ends in its own time)."""
        process = sys.modules.get("billiard.process")
        if process is None or process.current_process().name == "MainProcess":
            return
        for bring_in in self._store.before_snapshot:
            bring_in()
        counted = float(sum(self._store.points(ATTEMPTS).values()))
        if counted == self._sent:
            return
        self._sent = counted
        asked = self._ask() or []
        if all(flush.is_set() for flush in self._late):
            self._late = [] if all(flush.arrived(LIMIT) for flush in asked) else asked
