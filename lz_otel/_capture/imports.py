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
        callbacks: absolute module name to what is done with the module; a name that begins with a dot is the
            end of those of any number of modules.
    """

    def __init__(self, callbacks: dict[str, Callable[[ModuleType], None]]) -> None:
        self._waiting = {name: done for name, done in callbacks.items() if name[0] != "."}
        self._ends = {name: done for name, done in callbacks.items() if name[0] == "."}
        self._busy = False

    def install(self) -> None:
        """Do what can be done now, and wait for the rest."""
        ends = [name for name in list(sys.modules) if name[name.rfind(".") :] in self._ends]
        for name in (*list(self._waiting), *ends):
            module = sys.modules.get(name)
            if module is not None and not getattr(getattr(module, "__spec__", None), "_initializing", False):
                self._taken(name)(module)
        if self._waiting or self._ends:
            sys.meta_path.insert(0, self)

    def _taken(self, name: str) -> Callable[[ModuleType], None]:
        """Return what is to be done with a module, once for a name of its own."""
        done = self._ends.get(name[name.rfind(".") :])
        return self._waiting.pop(name) if done is None else done

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
        if self._busy or (name not in self._waiting and name[name.rfind(".") :] not in self._ends):
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
        callback = self._taken(name)
        execute = spec.loader.exec_module

        def exec_module(module: ModuleType) -> None:
            execute(module)
            try:
                callback(module)
            except Exception as fault:  # noqa: BLE001 - an import of the host must not fail for us
                guard.fault("capture", fault)

        spec.loader.exec_module = exec_module  # type: ignore[method-assign]  # this spec's own loader object
        return spec
