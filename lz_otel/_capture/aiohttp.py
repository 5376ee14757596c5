"""Hooks on aiohttp's client: each request that is sent is an attempt.

The functions ``ClientRequest.send``, which sends, and ``ClientResponse.start``, which waits for the head. The
body is noted as it arrives: its stream reader gets a class with our steps in it, until the body is over.
"""

from __future__ import annotations

import sys
from functools import partial
from time import perf_counter
from typing import TYPE_CHECKING, Any

from lz_otel._capture.attempt import Attempt, take_notes, take_piece
from lz_otel._capture.exchange import ForeignRequest, RawHeaders, observed
from lz_otel._capture.hook import HookedFunctions, Steps
from lz_otel._capture.transports import begin_attempt
from lz_otel._ground.guard import guard

if TYPE_CHECKING:
    from types import ModuleType

    from lz_otel._capture.transports import Hooks

MODULES = ("aiohttp.client_reqrep", "aiohttp.connector")
_ATTEMPT = "_lz_otel_attempt"


class AiohttpHooks:
    """The hooks on aiohttp's requests, responses and connectors."""

    def __init__(self, hooks: Hooks) -> None:
        self._functions = HookedFunctions()
        self._steps = {
            ("ClientRequest", "send"): Steps(True, partial(_begin, hooks), _sent),
            ("ClientResponse", "start"): Steps(True, _started, _head),
            ("BaseConnector", "connect"): Steps(
                True, partial(_connecting, hooks), partial(_connected, hooks)
            ),
        }

    def install(self, module: ModuleType) -> bool:
        """Hook one of the modules. Returns whether there was anything."""
        hooked = False
        for (class_name, method), steps in self._steps.items():
            cls: Any = getattr(module, class_name, None)
            if getattr(cls, "__module__", "") == module.__name__:
                owner = next(base for base in cls.__mro__ if method in base.__dict__)
                hooked = self._functions.hook(owner, method, steps) or hooked
        return hooked

    def remove(self) -> None:
        """Take off what is ours."""
        self._functions.remove()


def _begin(hooks: Hooks, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Attempt | None:
    """Begin an attempt; ``None`` for a request that is no LLM call. Never raises."""
    return _attempt_of(hooks, args[0], perf_counter())


def _connecting(hooks: Hooks, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[Any, float] | None:
    """Note a request that waits for a connection. Never raises."""
    request = args[1] if len(args) > 1 else kwargs.get("req")
    return (request, perf_counter()) if getattr(request, "method", "") == "POST" else None


def _connected(hooks: Hooks, note: tuple[Any, float], _: Any, error: BaseException | None) -> None:
    """Note the attempt that has got no connection. Never raises."""
    if error is not None:
        attempt = _attempt_of(hooks, *note)
        if attempt is not None:
            take_notes(Attempt.fail, attempt, error)


def _attempt_of(hooks: Hooks, request: Any, started_at: float) -> Attempt | None:
    try:
        if hooks.begin is None or request.method != "POST":
            return None
        url, body = request.url, request.body
        raw = getattr(body, "_value", body)  # of a payload that is bytes
        made = ForeignRequest(
            "POST", url.host or "", url.raw_path_qs, RawHeaders(request.headers.items()), raw or None
        )
        return begin_attempt(hooks, made, started_at)
    except Exception as fault:  # noqa: BLE001 - the boundary to the host
        guard.fault("capture", fault)
        return None


def _sent(attempt: Attempt, response: Any, error: BaseException | None) -> None:
    """Hand the attempt to the response that has no head yet. Never raises."""
    if error is not None:
        take_notes(Attempt.fail, attempt, error)
        return
    try:
        session = getattr(response, "_session", None)  # it forgets that as soon as the body has arrived
        response.__dict__[_ATTEMPT] = attempt, getattr(session, "_auto_decompress", True)
    except Exception as fault:  # noqa: BLE001 - the boundary to the host
        guard.fault("capture", fault)
        take_notes(Attempt.end, attempt)


def _started(args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    return args[0].__dict__.pop(_ATTEMPT, None)


def _head(sent: tuple[Attempt, bool], response: Any, error: BaseException | None) -> None:
    """Note the head of a response, and its body as it arrives, or what was raised. Never raises."""
    attempt, decoded = sent
    if error is not None:
        take_notes(Attempt.fail, attempt, error)
        return
    content: Any = None
    try:
        attempt.head(response.status, RawHeaders(response.raw_headers))
        content = response.content
        if decoded and "content-encoding" in attempt.headers:
            attempt.decoded()
    except Exception as fault:  # noqa: BLE001 - the boundary to the host
        guard.fault("extract", fault)
    try:
        for piece in list(content._buffer):  # what came with the head
            take_piece(attempt, bytes(piece))
        error = content.exception()
        if error is not None:
            take_notes(Attempt.fail, attempt, error)
        elif content._eof:
            take_notes(Attempt.end, attempt)
        else:
            cls = observed(_Observed, type(content), __slots__=())
            _attempts[id(content)] = attempt
            content.__class__ = cls
        return
    except Exception as fault:  # noqa: BLE001 - the boundary to the host
        guard.fault("capture", fault)
    take_notes(Attempt.end, attempt)


class _Observed:
    """Steps around the methods by which a body arrives, and around its end."""

    __slots__ = ()
    _lz_otel_class: type

    def feed_data(self, data: Any, *args: Any, **kwargs: Any) -> Any:
        attempt = _attempts.get(id(self))
        if attempt is not None and data:
            take_piece(attempt, bytes(data))
        return super().feed_data(data, *args, **kwargs)  # type: ignore[misc]

    def feed_eof(self, *args: Any, **kwargs: Any) -> Any:
        feed_eof = super().feed_eof  # type: ignore[misc]
        _over(self, Attempt.end)
        return feed_eof(*args, **kwargs)

    def set_exception(self, error: Any, *args: Any, **kwargs: Any) -> Any:
        set_exception = super().set_exception  # type: ignore[misc]
        context = sys.exc_info()[1]
        if isinstance(context, TimeoutError):  # aiohttp's own, of a read; it closes the response then
            _over(self, Attempt.fail, context)
        elif str(error) == "Connection closed" and error.__cause__ is None:  # the host has closed it
            _over(self, Attempt.close)
        else:
            _over(self, Attempt.fail, error if isinstance(error, BaseException) else error())
        return set_exception(error, *args, **kwargs)

    def __del__(self) -> None:
        _over(self, Attempt.drop)


# By the identity of their stream readers, which have no room for more and cannot be referred to weakly: an
# entry goes with the class that is put on such a reader, before the reader itself
_attempts: dict[int, Attempt] = {}


def _over(reader: Any, method: Any, *arguments: Any) -> None:
    """Note how a body ended, and let its reader be an ordinary one again."""
    attempt = _attempts.pop(id(reader), None)
    reader.__class__ = reader._lz_otel_class
    if attempt is not None:
        take_notes(method, attempt, *arguments)
