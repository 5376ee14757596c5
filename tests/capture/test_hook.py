"""Steps around functions of somebody else's: what they see, what stays as it was, and what lets go."""

from __future__ import annotations

import asyncio
import functools
import gc
import inspect
import os
import pickle
import sys
import threading
import weakref
from typing import TYPE_CHECKING, Any

import pytest
import wrapt

from lz_otel._capture.hook import HookedFunctions, Steps

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator


class Base:
    """Something to inherit from."""

    def work(self, number: int) -> Any:
        return number


class Sync(Base):
    """A method with a default, a keyword of its own, and a cell."""

    def plain(self, number: int, more: int = 1, *, twice: bool = False) -> int:
        """Add."""
        if number < 0:
            raise LookupError(number)
        return (number + more) * (2 if twice else 1)

    def work(self, number: int) -> Any:
        return super().work(number) + 1


class Async:
    """The same, awaited."""

    async def plain(self, number: int, more: int = 1, *, twice: bool = False) -> int:
        """Add."""
        await asyncio.sleep(0)
        if number < 0:
            raise LookupError(number)
        return (number + more) * (2 if twice else 1)

    def work(self, number: int) -> Any:
        """Return an awaitable, without being a coroutine function."""
        return self.plain(number)


def steps(notes: list[Any], waits: bool = False, note: Any = "note") -> Steps:
    """Steps that write down what they are told."""

    def enter(args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        notes.append(("enter", args[1:], kwargs))
        return note

    def leave(note: Any, result: Any, error: BaseException | None) -> None:
        notes.append((note, result, error))

    return Steps(waits, enter, leave)


def result(value: Any) -> Any:
    return asyncio.run(value) if inspect.iscoroutine(value) else value


def both(test: Callable[..., None]) -> Any:
    return pytest.mark.parametrize("kind", [Sync, Async])(test)


@both
def test_steps_around_a_method(kind: Any) -> None:
    """They see arguments, result and exception; the host gets its own, and the function its code back."""
    notes: list[Any] = []
    hooked, code = HookedFunctions(), kind.plain.__code__
    assert hooked.hook(kind, "plain", steps(notes, kind is Async))
    one = kind()
    assert 4 == result(one.plain(1, twice=True))
    with pytest.raises(LookupError) as raised:
        result(one.plain(-1))
    assert [
        ("enter", (1,), {"twice": True}),
        ("note", 4, None),
        ("enter", (-1,), {}),
        ("note", None, raised.value),
    ] == notes
    hooked.remove()
    assert kind.plain.__code__ is code
    assert 2 == result(one.plain(1))
    assert len(notes) == 4


@both
def test_without_a_note_nothing_is_left(kind: Any) -> None:
    """What `enter` does not want is passed on, and `leave` never called."""
    notes: list[Any] = []
    hooked = HookedFunctions()
    hooked.hook(kind, "plain", steps(notes, kind is Async, None))
    assert 2 == result(kind().plain(1))
    assert [("enter", (1,), {})] == notes
    hooked.remove()


@both
def test_a_hooked_function_is_what_it_was(kind: Any) -> None:
    """The same object, of the same signature, kind, name and text, which pickles; nothing stays on it."""

    def looks() -> list[Any]:
        function = kind.plain
        return [
            function,
            inspect.signature(function),
            inspect.iscoroutinefunction(function),
            function.__name__,
            function.__qualname__,
            function.__doc__,
            inspect.getsource(function),
            pickle.loads(pickle.dumps(function)),
        ]

    before = looks()
    hooked = HookedFunctions()
    hooked.hook(kind, "plain", steps([], kind is Async))
    assert before == looks()
    hooked.remove()
    assert before == looks()
    assert {} == vars(kind.plain)


@pytest.mark.parametrize("take", [lambda one: one.work, lambda one: functools.partial(type(one).work, one)])
def test_what_was_taken_before_is_hooked(take: Any) -> None:
    """A bound method that somebody kept, or the function itself, comes by our steps."""
    notes: list[Any] = []
    hooked = HookedFunctions()
    kept = take(Sync())
    hooked.hook(Sync, "work", steps(notes))
    assert 2 == kept(1)
    hooked.remove()
    assert 2 == kept(1)
    assert [("enter", (1,), {}), ("note", 2, None)] == notes


def of_wrapt(function: Any) -> Any:
    return wrapt.FunctionWrapper(function, lambda call, _, args, kwargs: call(*args, **kwargs))


def of_functools(function: Any) -> Any:
    @functools.wraps(function)
    def wrapper(*args: Any, **kwargs: Any) -> Any:
        return function(*args, **kwargs)

    return wrapper


def bare(function: Any) -> Any:
    return lambda *args, **kwargs: function(*args, **kwargs)


@pytest.mark.parametrize("wrap", [of_wrapt, of_functools, bare, staticmethod])
@pytest.mark.parametrize("later", [True, False])
def test_wrappers_of_others(wrap: Any, later: bool) -> None:
    """Under whichever there are, and under those that come later, the steps are taken once;
    what others have put on stays, and can be taken off in any order.
    """

    class Their:
        def work(self, number: int) -> int:
            return number

    notes: list[Any] = []
    hooked, own = HookedFunctions(), Their.work
    if later:
        assert hooked.hook(Their, "work", steps(notes))
    wrapper = wrap(wrap(own)) if wrap is not staticmethod else wrap(own)
    Their.work = wrapper  # type: ignore[method-assign]
    if not later:
        assert hooked.hook(Their, "work", steps(notes))
    one = Their()
    call = functools.partial(one.work, one) if wrap is staticmethod else one.work
    assert 5 == call(5)
    assert 2 == len(notes)
    assert vars(Their)["work"] is wrapper
    hooked.remove()
    assert 5 == call(5)
    assert 2 == len(notes)
    assert own.__code__.co_filename == __file__


def test_a_wrapper_of_another_kind() -> None:
    """Under a wrapper that makes a function be awaited lies one that is not: the wrapper is hooked."""

    class Their:
        def work(self, number: int) -> int:
            return number

    own = Their.work

    @functools.wraps(own)
    async def wrapper(*args: Any) -> Any:
        return own(*args)

    Their.work = wrapper  # type: ignore[assignment, method-assign]
    notes: list[Any] = []
    hooked = HookedFunctions()
    assert hooked.hook(Their, "work", steps(notes, True))
    assert 5 == result(Their().work(5))
    assert [("enter", (5,), {}), ("note", 5, None)] == notes
    hooked.remove()


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("name", ["work", "inherited"])
def test_an_awaitable_from_a_plain_function(name: str) -> None:
    """A method that returns what is awaited is left when that is done; it stays of its kind."""

    class Their(Async):
        def inherited(self, number: int) -> Any:
            return super().work(number)

    notes: list[Any] = []
    hooked, own = HookedFunctions(), inspect.getattr_static(Their, name)
    owner = next(cls for cls in Their.__mro__ if name in vars(cls))
    assert hooked.hook(owner, name, steps(notes, True))
    assert vars(owner)[name] is own
    assert not inspect.iscoroutinefunction(own)
    assert 6 == result(getattr(Their(), name)(5))
    assert [("enter", (5,), {}), ("note", 6, None)] == notes
    hooked.remove()
    assert 6 == result(getattr(Their(), name)(5))
    assert 2 == len(notes)


def test_a_function_of_another_kind() -> None:
    """Where a result is expected, a coroutine function or a generator is left alone."""

    class Their:
        async def work(self) -> int:
            return 1

        def pieces(self) -> Iterator[int]:
            yield 1

    hooked = HookedFunctions()
    assert [False, False, False] == [
        hooked.hook(Their, "work", steps([])),
        hooked.hook(Their, "pieces", steps([])),
        hooked.hook(Their, "pieces", steps([], True)),
    ]


def test_hooked_once() -> None:
    """Again, by other steps or by many threads at once: one pair of steps, and all of them know whose."""
    notes: list[Any] = []
    hooked, ours = HookedFunctions(), steps(notes)
    barrier = threading.Barrier(8, timeout=10)
    found: list[bool] = []

    def again() -> None:
        barrier.wait()
        found.append(hooked.hook(Sync, "plain", ours))

    threads = [threading.Thread(target=again) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert [True] * 8 == found
    assert not hooked.hook(Sync, "plain", steps(notes))
    assert 2 == Sync().plain(1)
    assert 2 == len(notes)
    hooked.remove()


def test_code_over_ours() -> None:
    """Other code that was put over ours stays; beneath it ours is known again, and taken no second time."""

    class Their:
        def work(self, number: int) -> int:
            return number

    notes: list[Any] = []
    hooked, ours = HookedFunctions(), steps(notes)
    hooked.hook(Their, "work", ours)
    over = (lambda self, number: "theirs").__code__
    Their.work.__code__ = over
    hooked.remove()
    assert Their.work.__code__ is over
    assert hooked.hook(Their, "work", ours)
    assert Their.work.__code__ is over


def test_what_cannot_be_hooked() -> None:
    """A class that cannot be changed, and an object with what is no function, are left alone."""
    hooked = HookedFunctions()
    assert not hooked.hook(str, "upper", steps([]))
    one = Base()
    one.work = print  # type: ignore[method-assign]
    assert not hooked.hook(one, "work", steps([]))
    assert one.work is print


def test_a_class_is_let_go_of() -> None:
    """A class that is made for one request goes with it, hooked or given back, with a cell or without."""

    def use(hooked: HookedFunctions, remove: bool) -> weakref.ref[type]:
        class Their(Base):
            def work(self, number: int) -> Any:
                return super().work(number)

            def other(self, more: Any = None) -> Any:
                return 3

            other.__annotations__["more"] = other  # as an annotation may lead to its class

            upper = functools.partialmethod(work, 1)

        for name in ("work", "other", "upper"):
            assert hooked.hook(Their, name, steps([]))
        assert (1, 3, 1) == (Their().work(1), Their().other(), Their().upper())
        if remove:
            hooked.remove()
        return weakref.ref(Their)

    hooked = HookedFunctions()
    references = [use(hooked, remove) for remove in (False, True, False)]
    gc.collect()
    assert [None] * 3 == [reference() for reference in references]
    assert 0 == len(hooked._functions)


def test_given_back_in_the_middle() -> None:
    """A call that is under way when the hooks come off, and on again, ends with its own steps."""
    notes: list[Any] = []
    hooked = HookedFunctions()

    class Their(Base):
        def work(self, number: int) -> Any:
            if number:
                hooked.remove()
                gc.collect()
                hooked.hook(Their, "work", steps(notes))
                return self.work(0) + 7
            return super().work(number)

    hooked.hook(Their, "work", steps(notes))
    assert 7 == Their().work(1)
    assert [
        ("enter", (1,), {}),
        ("enter", (0,), {}),
        ("note", 0, None),
        ("note", 7, None),
    ] == notes
    hooked.remove()


def test_calls_while_hooks_come_and_go() -> None:
    """Calls in other threads meet neither a half-hooked function nor one that is gone."""
    stop = threading.Event()
    wrong: list[Any] = []
    interval = sys.getswitchinterval()

    def call() -> None:
        while not stop.is_set():
            try:
                assert 2 == Sync().work(1)
                assert 2 == Sync().plain(1)
            except BaseException as error:
                wrong.append(error)

    threads = [threading.Thread(target=call) for _ in range(4)]
    hooked = HookedFunctions()
    sys.setswitchinterval(1e-6)
    try:
        for thread in threads:
            thread.start()
        for _ in range(500):
            hooked.hook(Sync, "work", steps([]))
            hooked.hook(Sync, "plain", steps([]))
            hooked.remove()
    finally:
        stop.set()
        for thread in threads:
            thread.join()
        sys.setswitchinterval(interval)
    assert [] == wrong


def test_let_go_of_between_two_steps() -> None:
    """A call that has begun to run our code when the function gets its own back goes on with that."""
    hooked = HookedFunctions()
    hooked.hook(Sync, "work", steps([]))
    code = Sync.work.__code__
    reference = next(const[2] for const in code.co_consts if type(const) is tuple and len(const) == 3)
    hooked.remove()
    gc.collect()
    assert reference() is Sync.work
    assert {} == vars(Sync.work)


def test_a_broken_off_start() -> None:
    """Where a signal's handler raises in the middle, the function works, and is hooked the next time."""

    class Their:
        def work(self, number: int) -> int:
            return number

    class Odd(HookedFunctions):
        fails = True

        def _give(self, function: Any, steps: Any) -> None:
            if not self.fails:
                super()._give(function, steps)
                return
            self._functions[function] = steps, function.__code__, None
            raise KeyboardInterrupt

    notes: list[Any] = []
    hooked = Odd()
    with pytest.raises(KeyboardInterrupt):
        hooked.hook(Their, "work", steps(notes))
    assert 5 == Their().work(5)
    hooked.fails = False
    assert hooked.hook(Their, "work", steps(notes))
    assert 5 == Their().work(5)
    assert 2 == len(notes)
    hooked.remove()


def test_a_fork_while_another_thread_hooks() -> None:
    """The child hooks and gives back at once, whoever held the lock."""
    hooked = HookedFunctions()
    held, done = threading.Event(), threading.Event()

    def hold() -> None:
        with hooked._lock:
            held.set()
            done.wait(10)

    thread = threading.Thread(target=hold)
    thread.start()
    held.wait(10)
    child = os.fork()
    if not child:
        hooked.hook(Sync, "plain", steps([]))
        hooked.remove()
        os._exit(0)
    done.set()
    thread.join()
    assert 0 == os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
