"""Generators within a context manager: each step is inside it, and the caller sees the generator as it is."""

from __future__ import annotations

import asyncio
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import pytest

from lz_otel._ground.generators import within, within_async

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Generator, Iterator


class Context:
    """A context manager that can be entered again, and says whether it is entered."""

    def __init__(self) -> None:
        self.inside = False

    @contextmanager
    def around(self) -> Iterator[Context]:
        yield self

    @contextmanager
    def attach(self) -> Iterator[None]:
        assert not self.inside
        self.inside = True
        try:
            yield
        finally:
            self.inside = False


def echo(context: Context, seen: list[Any]) -> Generator[Any, Any, str]:
    """Yield what was sent before, note what was thrown, and return at the word stop."""
    sent: Any = "first"
    try:
        while sent != "stop":
            assert context.inside
            try:
                sent = yield sent
            except KeyError as error:
                sent = error.args[0]
    finally:
        seen.append(context.inside)
    return "result"


async def echo_async(context: Context, seen: list[Any]) -> AsyncGenerator[Any, Any]:
    """Do as `echo` does, without a result."""
    sent: Any = "first"
    try:
        while sent != "stop":
            assert context.inside
            await asyncio.sleep(0)
            try:
                sent = yield sent
            except KeyError as error:
                sent = error.args[0]
    finally:
        seen.append(context.inside)


def test_steps_are_inside_and_the_caller_is_not() -> None:
    """Values, what is sent, what is thrown and the result pass through,
    and the context is left in between.
    """
    context, seen = Context(), []
    steps = within(context.around, echo)(context, seen)
    assert (next(steps), context.inside) == ("first", False)
    assert (steps.send("second"), context.inside) == ("second", False)
    assert (steps.throw(KeyError("third")), context.inside) == ("third", False)
    with pytest.raises(StopIteration) as end:
        steps.send("stop")
    assert (end.value.value, context.inside, seen) == ("result", False, [True])


def test_an_exception_of_the_generator_passes() -> None:
    """What it does not handle reaches the caller unchanged, and the context is left."""
    context, seen = Context(), []
    steps = within(context.around, echo)(context, seen)
    next(steps)
    error = ValueError("not handled")
    with pytest.raises(ValueError, match="not handled") as raised:
        steps.throw(error)
    assert (raised.value, context.inside, seen) == (error, False, [True])


def test_closing_closes_inside() -> None:
    """The generator's own cleaning up is a step, too."""
    context, seen = Context(), []
    steps = within(context.around, echo)(context, seen)
    next(steps)
    steps.close()
    assert (context.inside, seen) == (False, [True])


def test_asynchronous_steps_are_inside_and_the_caller_is_not() -> None:
    """An asynchronous generator behaves as the other one does."""
    context, seen = Context(), []

    async def run() -> None:
        steps = within_async(context.around, echo_async)(context, seen)
        assert (await anext(steps), context.inside) == ("first", False)
        assert (await steps.asend("second"), context.inside) == ("second", False)
        assert (await steps.athrow(KeyError("third")), context.inside) == ("third", False)
        with pytest.raises(StopAsyncIteration):
            await steps.asend("stop")

    asyncio.run(run())
    assert (context.inside, seen) == (False, [True])


def test_an_asynchronous_generator_is_closed_inside() -> None:
    """Its own cleaning up is a step, and what it does not handle passes."""
    context, seen = Context(), []

    async def run() -> None:
        steps = within_async(context.around, echo_async)(context, seen)
        await anext(steps)
        await steps.aclose()
        assert (context.inside, seen) == (False, [True])
        steps = within_async(context.around, echo_async)(context, seen)
        await anext(steps)
        with pytest.raises(ValueError, match="not handled"):
            await steps.athrow(ValueError("not handled"))

    asyncio.run(run())
    assert (context.inside, seen) == (False, [True, True])
