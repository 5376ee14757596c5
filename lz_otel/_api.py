"""Public functions that an application calls while it works. All do nothing before ``instrument()``."""

from __future__ import annotations

import asyncio
import functools
import inspect
import time
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import TYPE_CHECKING, Any, ParamSpec, TypeVar, overload

from lz_otel import _runtime
from lz_otel._capture.transports import hook_client
from lz_otel._export import _ends
from lz_otel._ground.guard import guarded
from lz_otel._operation import Operation

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable

    from lz_otel._export._threads import Flush
    from lz_otel._reports import Reports

_P = ParamSpec("_P")
_R = TypeVar("_R")
_LOOK_EVERY = 0.005  # seconds between two looks, while an event loop waits for what is sent


def _reports() -> Reports | None:
    runtime = _runtime.current()
    return None if runtime is None else runtime.reports


def operation(name: str, *, session: str | None = None, group: str | None = None) -> Operation:
    """Group the calls of what the application wants; a context manager (sync and async) and a decorator.

    Args:
        name: reported as ``lz.route``; at most 100 different ones per process.
        session: conversation, for consecutive calls; hashed, never exported.
        group: A/B group or roll-out stage, reported as ``lz.group``; at most 10 different ones.
    """
    return Operation(_reports, name, session=session, group=group)


@guarded("operation")
def record_quality(
    score: float, *, metric: str = "quality", group: str | None = None, route: str | None = None
) -> None:
    """Report the application's own score of an answer.

    Args:
        score: 0 to 1; anything else is dropped with one warning.
        metric: name of the score, for example ``summary_f1``; at most 20 different ones.
        group: by default that of the current operation.
        route: by default that of the current operation.
    """
    reports = _reports()
    if reports is not None:
        reports.quality(score, metric, group, route)


@guarded("operation")
def record_response_cache(*, hit: bool, model: str = "", provider: str = "other") -> None:
    """Report an answer (or a miss) of the application's own response cache.

    Args:
        hit: whether the cache answered. A hit is no call: no tokens, no cost, no duration.
        model: the model that would have been asked.
        provider: ``gen_ai.provider.name`` of it.
    """
    reports = _reports()
    if reports is not None:
        reports.response_cache(hit, model, provider)


def instrument_client(client: Any) -> int:
    """Observe one client with a transport of its own (MockTransport, ASGITransport, httpx-aiohttp ...).

    Clients with the ordinary transports need nothing. Does nothing before `instrument`.

    Args:
        client: a ``Client`` or ``AsyncClient`` of httpx or httpx2, or an SDK's client that holds one.

    Returns:
        How many transports are observed because of this call.
    """
    runtime = _runtime.current()
    if runtime is None:
        return 0
    inner = getattr(client, "_client", None)
    return hook_client(runtime.clients.http, client if inner is None else inner)


# --- the end of an application or an invocation ---


def flush(timeout: float = 2.0) -> bool:
    """Send what was counted until now: calls that have ended, by OTLP, and spans of our own making.

    For a process that ends, or is frozen, before the next push: a serverless function, a signal's handler.
    Files of worker processes are written, too. ``/metrics`` is scraped as ever; providers that the
    application has set are flushed by the application.

    Args:
        timeout: most seconds that it may take.

    Returns:
        Whether all of it has arrived. What has not goes with the next push.
    """
    end = time.monotonic() + timeout
    asked = _ask()
    return asked is not None and all(one.arrived(end - time.monotonic()) for one in asked)


async def _flush(limit: float) -> bool:
    """Do as `flush` does, and let an event loop of asyncio go on."""
    try:
        asyncio.get_running_loop()
    except RuntimeError:  # another kind of loop
        return flush(limit)
    end = time.monotonic() + limit
    asked = _ask()
    for one in asked or ():
        while not one.is_set() and time.monotonic() < end:  # noqa: ASYNC110 - a thread sets it
            await asyncio.sleep(_LOOK_EVERY)
    return asked is not None and all(one.ok for one in asked)


def _ask() -> list[Flush] | None:
    """Begin to send; ``None`` where something cannot be sent."""
    runtime = _runtime.current()
    asked: list[Flush] | None = []
    if runtime is not None:
        asked = None
        with guarded("export"):
            asked = runtime.ask()
    return asked


class _Lifespan(AbstractAsyncContextManager[Any]):
    """What `lifespan` returns: of an application a context, of another lifespan a lifespan."""

    def __init__(self, inner: Any) -> None:
        self._inner = inner

    def __call__(self, app: Any) -> AbstractAsyncContextManager[Any]:
        """Enter the other lifespan for an application, and flush after its end."""
        inner = self._inner
        return _around(asynccontextmanager(inner) if inspect.isasyncgenfunction(inner) else inner, app)

    async def __aenter__(self) -> None:
        """Nothing is set up."""

    async def __aexit__(self, *_: object) -> None:
        """Flush."""
        await _application_ends()


@asynccontextmanager
async def _around(inner: Any, app: Any) -> AsyncIterator[Any]:
    try:
        async with inner(app) as state:
            yield state
    finally:
        await _application_ends()


async def _application_ends() -> None:
    began = time.monotonic()
    if not await _flush(_ends.LIMIT):
        _ends.waited(time.monotonic() - began)


def lifespan(app: Any) -> _Lifespan:
    """Flush as an ASGI application ends: ``FastAPI(lifespan=lz_otel.lifespan)``.

    An application that has a lifespan of its own wraps it: ``FastAPI(lifespan=lz_otel.lifespan(mine))``; we
    flush after its end. What it yields is passed on.

    Args:
        app: the application, which hands itself over; or the other lifespan.
    """
    return _Lifespan(app)


@overload
def handler(function: Callable[_P, _R]) -> Callable[_P, _R]: ...
@overload
def handler(*, timeout: float = 2.0) -> Callable[[Callable[_P, _R]], Callable[_P, _R]]: ...
def handler(function: Any = None, *, timeout: float = 2.0) -> Any:
    """Flush after each invocation of a function as a service, which is frozen between two of them.

    A decorator for functions and coroutine functions: ``@lz_otel.handler`` or
    ``@lz_otel.handler(timeout=1)``. What the function returns or raises is passed on.

    Args:
        function: the handler.
        timeout: most seconds that each invocation may be held up.
    """
    if function is None:
        return functools.partial(handler, timeout=timeout)
    if inspect.iscoroutinefunction(function):

        @functools.wraps(function)
        async def invoke_async(*args: Any, **kwargs: Any) -> Any:
            try:
                return await function(*args, **kwargs)
            finally:
                await _flush(timeout)

        return invoke_async

    @functools.wraps(function)
    def invoke(*args: Any, **kwargs: Any) -> Any:
        try:
            return function(*args, **kwargs)
        finally:
            flush(timeout)

    return invoke
