"""Generators that run within a context manager, which is left while they are suspended."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Callable, Generator
    from contextlib import AbstractContextManager

    Active = Callable[[], AbstractContextManager[Any]]


def within(active: Active, steps: Generator[Any, Any, Any]) -> Generator[Any, Any, Any]:
    """Run a generator so that each of its steps is within a context manager of its own."""
    step: Callable[[], Any] = partial(next, steps)
    while True:
        try:
            with active():
                value = step()
        except StopIteration as end:
            return end.value
        try:
            step = partial(steps.send, (yield value))
        except GeneratorExit:
            with active():
                steps.close()
            raise
        except BaseException as error:  # noqa: BLE001 - it is the generator's to handle
            step = partial(steps.throw, error)


async def within_async(active: Active, steps: AsyncGenerator[Any, Any]) -> AsyncGenerator[Any, Any]:
    """Run an asynchronous generator so that each of its steps is within a context manager of its own."""
    step: Callable[[], Any] = partial(anext, steps)
    while True:
        try:
            with active():
                value = await step()
        except StopAsyncIteration:
            return
        try:
            step = partial(steps.asend, (yield value))
        except GeneratorExit:
            with active():
                await steps.aclose()
            raise
        except BaseException as error:  # noqa: BLE001 - it is the generator's to handle
            step = partial(steps.athrow, error)
