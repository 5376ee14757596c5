"""Finds the functions of lz_otel that some work reaches, and breaks one at a time.

A function is broken by exchanging its code, so that every reference to it (a bound method that
somebody kept, a name that was imported) is broken at once. A function that is made anew each time (a
closure) is broken inside the code of the function that makes it.
"""

from __future__ import annotations

import gc
import inspect
import sys
import threading
import warnings
from contextlib import contextmanager
from pathlib import Path
from types import CodeType, FunctionType
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

__all__ = ["Target", "broken", "forget_results", "targets"]

PACKAGE = str(Path(__file__).resolve().parents[2] / "lz_otel")


class Target(NamedTuple):
    """A function that can be broken.

    Attributes:
        name: file and qualified name.
        holders: the living functions whose code is, or holds, the function's code.
        code: the code to be replaced.
    """

    name: str
    holders: tuple[FunctionType, ...]
    code: CodeType


def targets(work: Callable[[], Any]) -> list[Target]:
    """All functions of lz_otel that are entered while ``work`` runs, in any thread,
    in the order of their names.
    """
    entered: set[CodeType] = set()

    def profile(frame: Any, event: str, argument: Any) -> None:
        if event == "call" and frame.f_code.co_filename.startswith(PACKAGE):
            entered.add(frame.f_code)

    forget_results()
    threading.setprofile(profile)
    sys.setprofile(profile)
    try:
        work()
    finally:
        sys.setprofile(None)
        threading.setprofile(None)  # type: ignore[arg-type]  # the stub does not know that None ends it
    functions: dict[CodeType, list[FunctionType]] = {}
    for one in gc.get_objects():
        if isinstance(one, FunctionType) and one.__code__.co_filename.startswith(PACKAGE):
            for code in _within(one.__code__):
                functions.setdefault(code, []).append(one)
    found = []
    for code in entered:
        if code.co_name.startswith("<") and code.co_name != "<lambda>":
            continue  # a comprehension is part of its function
        holders = functions.get(code, [])
        direct = [f for f in holders if f.__code__ is code]
        name = f"{Path(code.co_filename).relative_to(PACKAGE).as_posix()}:{code.co_qualname}"
        found.append(Target(name, tuple(direct or holders), code))
    return sorted(found, key=lambda t: (t.name, t.code.co_firstlineno))


def forget_results() -> None:
    """Empty the caches of functions of lz_otel:
    a function whose result is remembered is not reached again.
    """
    for name, module in list(sys.modules.items()):
        if name.startswith("lz_otel"):
            for one in vars(module).values():
                clear = getattr(one, "cache_clear", None)
                if clear is not None:
                    clear()


def _within(code: CodeType) -> Iterator[CodeType]:
    yield code
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from _within(constant)


@contextmanager
def broken(target: Target, boom: Callable[[], BaseException]) -> Iterator[None]:
    """Within it, the function raises what ``boom`` gives, at its call (a generator: at its first step)."""
    before = [(function, function.__code__) for function in target.holders]
    try:
        for function, code in before:
            function.__code__ = _exchanged(code, target.code, boom)
        yield
    finally:
        for function, code in before:
            function.__code__ = code


def _exchanged(code: CodeType, old: CodeType, boom: Any) -> CodeType:
    if code is old:
        return _raising(code, boom)
    constants = tuple(_exchanged(c, old, boom) if isinstance(c, CodeType) else c for c in code.co_consts)
    return code.replace(co_consts=constants)


def _raising(code: CodeType, boom: Any) -> CodeType:
    """Code with the outside of another that raises: same free variables, generator or not."""
    free = code.co_freevars
    kind = "yield" if code.co_flags & inspect.CO_GENERATOR else "pass"
    prefix = "async " if code.co_flags & inspect.CO_COROUTINE else ""
    uses = f"        if 0: {', '.join(free)}\n" if free else ""
    source = (
        "def outer():\n"
        + "".join(f"    {name} = None\n" for name in free)
        + f"    {prefix}def inner(*args, **kwargs):\n{uses}"
        + f"        raise '_BOOM_'()\n        {kind}\n    return inner\n"
    )
    scope: dict[str, Any] = {}
    with warnings.catch_warnings():
        warnings.simplefilter(
            "ignore", SyntaxWarning
        )  # a text is called, until something else stands in its place
        exec(compile(source, __file__, "exec"), scope)
    made: CodeType = scope["outer"]().__code__
    constants = tuple(boom if constant == "_BOOM_" else constant for constant in made.co_consts)
    return made.replace(co_consts=constants, co_name=code.co_name, co_qualname=code.co_qualname)
