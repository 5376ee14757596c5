"""Hooks on urllib3, and so on requests and botocore: each request that a connection pool sends is an attempt.

The function ``HTTPConnectionPool._make_request`` (urllib3 2) sends one request and returns the response,
whose body is read later, by whoever has it. That response gets a class with our steps in it, until its body
is over: pieces are noted as they come from the socket, before they are decoded.
"""

from __future__ import annotations

import inspect
import logging
from functools import partial
from time import perf_counter
from typing import TYPE_CHECKING, Any

from lz_otel._capture.attempt import Attempt, take_notes, take_piece
from lz_otel._capture.exchange import ForeignRequest, RawHeaders, observed
from lz_otel._capture.hook import HookedFunctions, Steps
from lz_otel._capture.transports import begin_attempt
from lz_otel._ground.guard import guard

if TYPE_CHECKING:
    from collections.abc import Iterator
    from types import ModuleType

    from lz_otel._capture.transports import Hooks

_LOG = logging.getLogger("lz_otel")
MODULE = "urllib3.connectionpool"
_ATTEMPT = "_lz_otel_attempt"


class Urllib3Hooks:
    """The hook on urllib3's connection pools."""

    def __init__(self, hooks: Hooks) -> None:
        self._functions = HookedFunctions()
        self._steps = Steps(False, partial(_begin, hooks), _head)

    def install(self, module: ModuleType) -> bool:
        """Hook the module ``urllib3.connectionpool``. Returns whether its version can be observed."""
        pool = module.HTTPConnectionPool
        if "response_conn" not in inspect.signature(pool._make_request).parameters:
            text = "urllib3 is older than 2.0: calls by requests and boto3 are not observed. Upgrade it"
            _LOG.warning("lz_otel: %s", text)
            return False
        return self._functions.hook(pool, "_make_request", self._steps)

    def remove(self) -> None:
        """Take off what is ours."""
        self._functions.remove()


def _begin(hooks: Hooks, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Attempt | None:
    """Begin an attempt; ``None`` for a request that is no LLM call. Never raises."""
    if hooks.begin is None or (args[2] if len(args) > 2 else kwargs.get("method")) != "POST":
        return None
    try:
        pool, _, method, url, body, headers = (*args, *_rest(len(args), kwargs))[:6]
        target = url if url.startswith("/") else "/" + url.partition("://")[2].partition("/")[2]  # by a proxy
        items = RawHeaders(() if headers is None else headers.items())
        return begin_attempt(hooks, ForeignRequest(method, pool.host, target, items, body), perf_counter())
    except Exception as fault:  # noqa: BLE001 - the boundary to the host
        guard.fault("capture", fault)
        return None


def _rest(given: int, kwargs: dict[str, Any]) -> list[Any]:
    return [kwargs.get(name) for name in ("self", "conn", "method", "url", "body", "headers")[given:]]


def _head(attempt: Attempt, response: Any, error: BaseException | None) -> None:
    """Note the head of a response, and its body as it is read, or what was raised. Never raises."""
    if error is not None:
        take_notes(Attempt.fail, attempt, error)
        return
    try:
        attempt.head(response.status, RawHeaders(response.headers.items()))
    except Exception as fault:  # noqa: BLE001 - the boundary to the host
        guard.fault("extract", fault)
    try:
        if getattr(response, "_body", None) is None and hasattr(response, "_raw_read"):
            response.__dict__[_ATTEMPT] = attempt
            response.__class__ = observed(_Observed, type(response))
            return
        attempt.whole(response.data)
    except Exception as fault:  # noqa: BLE001 - the boundary to the host
        guard.fault("capture", fault)
    take_notes(Attempt.end, attempt)


class _Observed:
    """Steps around the methods by which a response's body comes, and around its end."""

    _lz_otel_class: type

    def _raw_read(self, *args: Any, **kwargs: Any) -> Any:
        data = _noted(self, super()._raw_read, args, kwargs)  # type: ignore[misc]
        fp = self._fp  # type: ignore[attr-defined]
        if fp is None or getattr(fp, "fp", fp) is None or getattr(fp, "closed", False):
            _over(self, Attempt.end)
        return data

    def _handle_chunk(self, *args: Any, **kwargs: Any) -> Any:
        return _noted(self, super()._handle_chunk, args, kwargs)  # type: ignore[misc]

    def _update_chunk_length(self, *args: Any, **kwargs: Any) -> None:
        try:
            super()._update_chunk_length(*args, **kwargs)  # type: ignore[misc]
        except BaseException as error:
            _over(self, Attempt.fail, error)
            raise
        if self.chunk_left == 0:  # type: ignore[attr-defined]
            _over(self, Attempt.end)

    def read_chunked(self, *args: Any, **kwargs: Any) -> Iterator[bytes]:
        try:
            yield from super().read_chunked(*args, **kwargs)  # type: ignore[misc]
        except GeneratorExit:  # urllib3 closes the connection then, and not by `close`
            _over(self, Attempt.close)
            raise

    def close(self) -> None:
        close = super().close  # type: ignore[misc]
        _over(self, Attempt.close)
        close()

    def __del__(self) -> None:
        finalize = super().__del__  # type: ignore[misc]
        _over(self, Attempt.drop)
        finalize()


def _noted(response: Any, read: Any, args: Any, kwargs: Any) -> Any:
    """Read, and note what came."""
    attempt = response.__dict__.get(_ATTEMPT)
    try:
        data = read(*args, **kwargs)
    except BaseException as error:
        _over(response, Attempt.fail, error)
        raise
    if data and attempt is not None:
        take_piece(attempt, data)
    return data


def _over(response: Any, method: Any, *arguments: Any) -> None:
    """Note how a body ended, and let its response be an ordinary one again."""
    attempt = response.__dict__.pop(_ATTEMPT, None)
    if attempt is not None:
        response.__class__ = response._lz_otel_class
        take_notes(method, attempt, *arguments)
