"""Operations go along into the threads of a ``ThreadPoolExecutor``, which context variables do not.

Its ``submit``, which ``map`` and asyncio's ``run_in_executor`` call too, is hooked with the first operation
that is entered: a service without operations does not pay for it. Outside of an operation what is submitted
stays as it is.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

from lz_otel._capture.call import current_operation
from lz_otel._capture.hook import HookedFunctions, Steps
from lz_otel._ground.guard import guarded

if TYPE_CHECKING:
    from collections.abc import Callable

_functions = HookedFunctions()


class _Within:
    """A function that is called within an operation, in whatever thread."""

    def __init__(self, function: Callable[..., Any], operation: Any) -> None:
        self._function = function
        self._operation = operation

    def __call__(self, /, *args: Any, **kwargs: Any) -> Any:
        token = current_operation.set(self._operation)
        try:
            return self._function(*args, **kwargs)
        finally:
            current_operation.reset(token)

    def __getattr__(self, name: str) -> Any:
        if name in ("_function", "_operation"):
            raise AttributeError(name)
        return getattr(self._function, name)


def _within(function: Any) -> Any:
    operation = current_operation.get()
    return function if operation is None else _Within(function, operation)


# The code that ``submit`` gets: it runs with that function's globals, see `hook`.


def _submit(self: Any, fn: Any, /, *args: Any, **kwargs: Any) -> Any:
    tools: Any = ("enter", "leave", "original")
    within, _, original = tools
    return original(self, within(fn), *args, **kwargs)


def _nothing(*_: Any) -> None:
    """Do nothing."""


_STEPS = Steps(False, _nothing, _nothing, (_submit, _within, _nothing))


@guarded("operation")
def carry() -> None:
    """Hook ``ThreadPoolExecutor``, if the host has it and it is not hooked yet."""
    module = sys.modules.get("concurrent.futures.thread")
    if module is not None and _on is not module:
        _hook(module)


_on: Any = None


def _hook(module: Any) -> None:
    global _on
    _on = module
    _functions.hook(module.ThreadPoolExecutor, "submit", _STEPS)


def remove() -> None:
    """Give ``submit`` its code back."""
    global _on
    _on = None
    _functions.remove()
