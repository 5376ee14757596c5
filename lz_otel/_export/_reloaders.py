"""Development servers that reload: the process that watches the files hands the port of ``/metrics`` on.

It has imported the application (and so has called `instrument`) before it starts the process that serves,
which would find the port taken.
"""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Any

from lz_otel._ground.guard import guarded

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from types import ModuleType

# What the watching process calls to start the one that serves: module, class (or none), function
_STARTS = (
    ("werkzeug._reloader", "ReloaderLoop", "restart_with_reloader"),
    ("django.utils.autoreload", "", "restart_with_reloader"),
    ("uvicorn.supervisors.basereload", "BaseReload", "startup"),
)


class Reloaders:
    """Lets exporters release their port in a process that is going to watch another one.

    Attributes:
        callbacks: what is to be done with each module, once it is imported.
    """

    def __init__(self, exporters: Iterable[Any]) -> None:
        self._exporters = exporters
        self._undo: list[tuple[Any, str, Any, Any]] = []
        self.callbacks: dict[str, Callable[[ModuleType], None]] = {
            module: functools.partial(self._hook, owner, name) for module, owner, name in _STARTS
        }

    def _hook(self, owner: str, name: str, module: ModuleType) -> None:
        holder = getattr(module, owner, None) if owner else module
        original = vars(holder).get(name) if holder is not None else None
        if original is None:
            return

        @functools.wraps(original)
        def start(*args: Any, **kwargs: Any) -> Any:
            self._release()
            return original(*args, **kwargs)

        setattr(holder, name, start)
        self._undo.append((holder, name, start, original))

    @guarded("export")
    def _release(self) -> None:
        for exporter in [one for one in self._exporters if hasattr(one, "release")]:
            exporter.release()

    def remove(self) -> None:
        """Take the hooks off again; one that somebody has wrapped since stays."""
        while self._undo:
            holder, name, ours, original = self._undo.pop()
            if vars(holder).get(name) is ours:
                setattr(holder, name, original)
