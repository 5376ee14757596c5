"""Generators that are an operation: around all of their steps, and current only while a step runs."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any, ParamSpec, Protocol

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Callable, Generator
    from contextlib import AbstractContextManager

P = ParamSpec("P")


class Attachable(Protocol):
    """What is current while a step runs."""

    def attach(self) -> AbstractContextManager[Any]:
        """Make it current for the time of a ``with`` block."""


def within(
    around: Callable[[], AbstractContextManager[Attachable]], function: Callable[P, Generator[Any, Any, Any]]
) -> Callable[P, Generator[Any, Any, Any]]:
    """Decorate a generator function: what is sent, thrown and returned passes, and so does closing."""

    def run(*args: P.args, **kwargs: P.kwargs) -> Generator[Any, Any, Any]:
        with around() as whole:
            steps = function(*args, **kwargs)
            step: Callable[[], Any] = partial(next, steps)
            while True:
                try:
                    with whole.attach():
                        value = step()
                except StopIteration as end:
                    return end.value
                try:
                    step = partial(steps.send, (yield value))
                except GeneratorExit:
                    with whole.attach():
                        steps.close()
                    raise
                except BaseException as error:  # noqa: BLE001 - it is the generator's to handle
                    step = partial(steps.throw, error)

    return run


def within_async(
    around: Callable[[], AbstractContextManager[Attachable]], function: Callable[P, AsyncGenerator[Any, Any]]
) -> Callable[P, AsyncGenerator[Any, Any]]:
    """Decorate an asynchronous generator function, as `within` does a generator function."""

    async def run(*args: P.args, **kwargs: P.kwargs) -> AsyncGenerator[Any, Any]:
        with around() as whole:
            steps = function(*args, **kwargs)
            step: Callable[[], Any] = partial(anext, steps)
            while True:
                try:
                    with whole.attach():
                        value = await step()
                except StopAsyncIteration:
                    return
                try:
                    step = partial(steps.asend, (yield value))
                except GeneratorExit:
                    with whole.attach():
                        await steps.aclose()
                    raise
                except BaseException as error:  # noqa: BLE001 - it is the generator's to handle
                    step = partial(steps.athrow, error)

    return run
