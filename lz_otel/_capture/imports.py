"""Hooking modules that the host imports later: nothing is imported that the host does not import."""

from __future__ import annotations

import importlib.util
import sys
from typing import TYPE_CHECKING, Any

from lz_otel._ground.guard import guard

if TYPE_CHECKING:
    from collections.abc import Callable
    from importlib.machinery import ModuleSpec
    from types import ModuleType


class WhenImported:
    """Calls back with a module as soon as it is imported, or at once if it is.

    Args:
        callbacks: absolute module name to what is done with the module.
    """

    def __init__(self, callbacks: dict[str, Callable[[ModuleType], None]]) -> None:
        self._waiting = dict(callbacks)
        self._busy = False

    def install(self) -> None:
        """Do what can be done now, and wait for the rest."""
        for name in list(self._waiting):
            module = sys.modules.get(name)
            if module is not None and not getattr(getattr(module, "__spec__", None), "_initializing", False):
                self._waiting.pop(name)(module)
        if self._waiting:
            sys.meta_path.insert(0, self)

    def remove(self) -> None:
        """Wait no more."""
        if self in sys.meta_path:
            sys.meta_path.remove(self)

    @property
    def waiting(self) -> tuple[str, ...]:
        """Return the modules that have not been imported yet."""
        return tuple(self._waiting)

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> ModuleSpec | None:
        """Let the other finders find, and add our step after loading (part of the import system)."""
        if name not in self._waiting or self._busy:
            return None
        self._busy = True
        try:
            spec = importlib.util.find_spec(name)
        except (ImportError, ValueError):
            return None
        finally:
            self._busy = False
        if spec is None or spec.loader is None or not hasattr(spec.loader, "exec_module"):
            return None
        callback = self._waiting.pop(name)
        execute = spec.loader.exec_module

        def exec_module(module: ModuleType) -> None:
            execute(module)
            try:
                callback(module)
            except Exception as fault:  # noqa: BLE001 - an import of the host must not fail for us
                guard.fault("capture", fault)

        spec.loader.exec_module = exec_module  # type: ignore[method-assign]  # this spec's own loader object
        return spec
