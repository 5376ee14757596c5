"""A step before and a step after a function of somebody else's, put into that function itself.

A wrapper in a function's place is passed by whoever took the function before: another library's wrapper on a
class or on one object, a bound method that was kept. So the function stays the object that it is and gets
other code: our steps, and between them its twin, which has its own code. Classes, objects and what others
hold of them stay as they are, and to take it off is to give the code back, whatever lies over it.
"""

from __future__ import annotations

import functools
import weakref
from inspect import CO_ASYNC_GENERATOR, CO_COROUTINE, CO_GENERATOR, CO_ITERABLE_COROUTINE
from types import CellType, FunctionType, MethodType
from typing import TYPE_CHECKING, Any, NamedTuple

from lz_otel._ground.memory import Locked

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from types import CodeType

_DEEPEST = 50  # wrappers, one in the other
_TWIN = "__lz_otel_twin__"  # held by a function that has a cell
_SHOWN = "__lz_otel_shown__"  # on what is there to be looked at only


class Steps(NamedTuple):
    """What is done around a function. Neither step may raise.

    Attributes:
        waits: the function's result is awaited, and `leave` comes after that.
        enter: takes the positional and the named arguments; gives a note, or ``None``: `leave` is left out.
        leave: takes the note, the result, and the exception in its place.
        short: other code, and what it calls, for functions that it fits: those without a cell.
    """

    waits: bool
    enter: Callable[[tuple[Any, ...], dict[str, Any]], Any]
    leave: Callable[[Any, Any, BaseException | None], None]
    short: tuple[Any, Callable[..., Any], Callable[[Any, Any, BaseException | None], None]] | None = None


class _Reference:
    """Gives a twin without holding it; once it has been let go of, the function, which has its code back."""

    __slots__ = ("_function", "_twin")

    def __init__(self, twin: Callable[..., Any], function: Callable[..., Any]) -> None:
        self._twin, self._function = weakref.ref(twin), weakref.ref(function)

    def __call__(self) -> Any:
        return self._twin() or self._function()

    def __reduce__(self) -> Any:
        """Go with the code, where that is pickled: by cloudpickle, for a class of ``__main__``."""
        return functools.partial, (_itself, self())


class HookedFunctions(Locked):
    """The functions that have our steps in them. Nothing here keeps a function alive."""

    __slots__ = ("_functions", "_replaced")

    def __init__(self) -> None:
        super().__init__()
        # Its steps, its own code, and what it got; no codes where the function itself is ours
        self._functions: weakref.WeakKeyDictionary[FunctionType, tuple[Steps, Any, Any]]
        self._functions = weakref.WeakKeyDictionary()
        self._replaced: list[tuple[weakref.ref[type], str]] = []

    def hook(self, owner: Any, name: str, steps: Steps) -> bool:
        """Put steps around what a class or an object has of its own by a name.

        Returns:
            Whether these steps are around it now.
        """
        with self._lock:
            found = owner.__dict__[name]
            function = None
            for function in _functions_under(found, steps.waits):
                known = self._functions.get(function)
                if known is not None:
                    if function.__code__ is not known[1]:
                        return known[0] is steps
                    break  # giving it our code was broken off
            if (
                function is not None
                and not _is_plain(function)
                and not (steps.waits and _is_awaited(function))
            ):
                return False  # whoever calls it here gets a generator, or what they do not await
            if function is not None and len(function.__code__.co_freevars) < 2:
                self._give(function, steps)
                return True
            return isinstance(owner, type) and self._replace(owner, name, found, steps)

    def _give(self, function: FunctionType, steps: Steps) -> None:
        """Give a function our code. Wherever this is broken off, the function works."""
        code = function.__code__
        twin: Any = _twin(function)
        has_cell = bool(code.co_freevars)
        if has_cell:
            # The collector does not see what code holds, and the cell may lead to the function: a class's
            function.__dict__[_TWIN] = twin
            twin = _Reference(twin, function)
        if steps.waits and _is_plain(function):  # it returns what is awaited
            new = _at_work(_TEMPLATES[False, has_cell], _pass, None, _awaiting(steps, twin, has_cell))
        elif steps.short and not has_cell:
            new = _at_work(*steps.short, twin)
        else:
            new = _at_work(_TEMPLATES[steps.waits, has_cell], steps.enter, steps.leave, twin)
        new = new.replace(co_freevars=code.co_freevars)
        named = _named(_twin(function), function)
        self._functions[function] = steps, code, new
        function.__code__ = new
        function.__wrapped__ = named  # type: ignore[attr-defined]

    def _replace(self, owner: type, name: str, found: Any, steps: Steps) -> bool:
        """Put a function in the place of what cannot get our code: a C function, a partial method."""
        original = _unbound(found)
        held = _Reference(original, original)
        code = _at_work(_TEMPLATES[steps.waits, True], steps.enter, steps.leave, held)
        function = FunctionType(code, globals(), name, closure=(CellType(),))
        functools.update_wrapper(function, found)
        function.__dict__[_TWIN] = original
        try:
            setattr(owner, name, function)
        except TypeError:  # a class that cannot be changed
            return False
        self._functions[function] = steps, None, None
        self._replaced.append((weakref.ref(owner), name))
        return True

    def remove(self) -> None:
        """Give functions their code back, and classes what was theirs where ours is on top.

        What others have covered, with code or with a wrapper of theirs, stays and is known again.
        """
        with self._lock:
            for reference, name in self._replaced:
                owner = reference()
                own = None if owner is None else owner.__dict__.get(name)
                if type(own) is FunctionType and self._functions.pop(own, None) is not None:
                    setattr(owner, name, own.__wrapped__)  # type: ignore[attr-defined]
            self._replaced.clear()
            for function, (_, code, ours) in list(self._functions.items()):
                if ours is None or function.__code__ not in (code, ours):
                    continue
                named = function.__dict__.get("__wrapped__")
                if type(named) is FunctionType and named.__code__ is code:
                    del function.__wrapped__, named.__dict__[_SHOWN]  # type: ignore[attr-defined]
                    function.__dict__.update(named.__dict__)  # what it wraps itself
                function.__code__ = code
                function.__dict__.pop(_TWIN, None)
                del self._functions[function]


def _itself(function: Callable[..., Any]) -> Callable[..., Any]:
    return function


def _is_plain(function: FunctionType) -> bool:
    """Return whether it is neither a generator nor a coroutine function (by its code, not by a mark)."""
    kinds = CO_GENERATOR | CO_COROUTINE | CO_ITERABLE_COROUTINE | CO_ASYNC_GENERATOR
    return not function.__code__.co_flags & kinds


def _is_awaited(function: FunctionType) -> bool:
    return bool(function.__code__.co_flags & CO_COROUTINE)


def _functions_under(found: Any, waits: bool) -> Iterator[FunctionType]:
    """Return the plain functions that wrappers, one in the other, come to, the innermost one last.

    Whoever takes a wrapper off, or has passed it, comes to the innermost one. One of another kind than what
    was found (under a wrapper that makes a function be awaited, or not) is passed over.
    """
    first = found
    for _ in range(_DEEPEST):
        if found is None or (type(found) is FunctionType and _SHOWN in found.__dict__):
            return
        # not isinstance: a wrapper of wrapt claims to be what it wraps
        if type(found) is FunctionType and (found is first or waits == _is_awaited(found)):
            yield found
        found = getattr(found, "__func__" if type(found) is MethodType else "__wrapped__", None)


def _twin(function: FunctionType) -> FunctionType:
    """Return another function that does the same. It holds no more than that takes."""
    twin = FunctionType(
        function.__code__,
        function.__globals__,
        function.__name__,
        function.__defaults__,
        function.__closure__,
    )
    twin.__kwdefaults__ = function.__kwdefaults__
    return twin


def _named(twin: FunctionType, function: FunctionType) -> FunctionType:
    """Give a twin all else that the function has, for those who ask for its signature or its source."""
    functools.update_wrapper(twin, function)
    del twin.__wrapped__  # type: ignore[attr-defined]  # they would go in a circle
    twin.__dict__.update(function.__dict__, **{_SHOWN: True})
    return twin


def _unbound(found: Any) -> Callable[..., Any]:
    """Return what was found on a class, to be called with its instance first."""

    def call(owner: Any, *args: Any, **kwargs: Any) -> Any:
        bind = getattr(type(found), "__get__", None)
        return (found if bind is None else bind(found, owner, type(owner)))(*args, **kwargs)

    return call


# --- the code that a function gets --------------------------------------------------------------------
# It runs with that function's globals, not with ours: all that it works with is put into it as a constant, in
# the place of these names.

_PLACES = ("enter", "leave", "original")


def _at_work(template: FunctionType, *tools: Any) -> CodeType:
    """Return a template's code with what it works with."""
    code = template.__code__
    return code.replace(co_consts=tuple(tools if const == _PLACES else const for const in code.co_consts))


def _awaiting(steps: Steps, twin: Any, has_cell: bool) -> Any:
    """Return a coroutine function around a twin that returns what is awaited; as templates find it."""
    code = _at_work(_TEMPLATES[True, has_cell], steps.enter, steps.leave, twin)
    function = FunctionType(code, globals(), closure=(CellType(),) if has_cell else ())
    return (lambda: function) if has_cell else function


def _pass(args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
    """Do nothing."""


def _around(*args: Any, **kwargs: Any) -> Any:
    tools: Any = ("enter", "leave", "original")
    enter, leave, original = tools
    note = enter(args, kwargs)
    if note is None:
        return original(*args, **kwargs)
    try:
        result = original(*args, **kwargs)
    except BaseException as error:
        leave(note, None, error)
        raise
    leave(note, result, None)
    return result


async def _around_async(*args: Any, **kwargs: Any) -> Any:
    tools: Any = ("enter", "leave", "original")
    enter, leave, original = tools
    note = enter(args, kwargs)
    if note is None:
        return await original(*args, **kwargs)
    try:
        result = await original(*args, **kwargs)
    except BaseException as error:
        leave(note, None, error)
        raise
    leave(note, result, None)
    return result


def _with_a_cell(cell: Any) -> tuple[Any, Any]:
    """Return both for a function with one cell, as a method with ``super()`` is: code must have as many."""

    def around(*args: Any, **kwargs: Any) -> Any:
        tools: Any = ("enter", "leave", "original")
        enter, leave, reference = tools
        original = reference()
        note = enter(args, kwargs)
        if note is None:
            return original(*args, **kwargs)
        try:
            result = original(*args, **kwargs)
        except BaseException as error:
            leave(note, None, error)
            raise
        leave(note, result, None)
        return result
        return cell  # never reached; it makes the cell one of this function

    async def around_async(*args: Any, **kwargs: Any) -> Any:
        tools: Any = ("enter", "leave", "original")
        enter, leave, reference = tools
        original = reference()
        note = enter(args, kwargs)
        if note is None:
            return await original(*args, **kwargs)
        try:
            result = await original(*args, **kwargs)
        except BaseException as error:
            leave(note, None, error)
            raise
        leave(note, result, None)
        return result
        return cell

    return around, around_async


_TEMPLATES: dict[tuple[bool, bool], Any] = {
    (False, False): _around,
    (True, False): _around_async,
    (False, True): _with_a_cell(None)[0],
    (True, True): _with_a_cell(None)[1],
}
