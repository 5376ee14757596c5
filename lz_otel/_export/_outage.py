"""An outage of a receiver: one warning when it begins, one line when it ends.

The SDK's exporters log every failed attempt. Their records are kept from the log where they come
from a thread of ours, and only there: what the host exports by itself is logged as ever.
"""

from __future__ import annotations

import enum
import logging
import os
import threading
from contextlib import contextmanager
from http import HTTPStatus
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

if TYPE_CHECKING:
    from collections.abc import Iterator

_LOG = logging.getLogger("lz_otel")
_NAMES = (
    "opentelemetry.exporter.otlp.proto.http.metric_exporter",
    "opentelemetry.exporter.otlp.proto.http.trace_exporter",
    "opentelemetry.exporter.otlp.proto.http._common", "opentelemetry.exporter.otlp.proto.grpc.exporter",
    "opentelemetry.exporter.otlp.proto.grpc.metric_exporter",
    "opentelemetry.exporter.otlp.proto.grpc.trace_exporter", "opentelemetry.sdk._shared_internal",
    "opentelemetry.exporter.otlp.common.http", "urllib3.connectionpool", "urllib3.util.retry",
    "opentelemetry.util.re",
)  # fmt: skip
_LONGEST_PART = 20  # characters of a part of a path that is no key (C)
_PHRASES = frozenset(status.phrase for status in HTTPStatus)
_threads: dict[int, str] = {}  # our threads, and the last reason that an exporter gave in each


class _Filter(logging.Filter):
    def filter(self, record: logging.LogRecord) -> bool:
        ident = threading.get_ident()
        if _threads.get(ident) == "":  # else what the session saw is more exact
            _remember(_reason(record))
        return ident not in _threads


_filter = _Filter()


@contextmanager
def quiet_thread() -> Iterator[None]:
    """Keep the exporters' log lines of the current thread out of the log; the last one ends the filters."""
    ident = threading.get_ident()
    if ident in _threads:
        yield
        return
    _threads[ident] = ""
    for name in _NAMES:
        logging.getLogger(name).addFilter(_filter)  # the same filter is added only once
    try:
        yield
    finally:
        _threads.pop(ident, None)
        if not _threads:
            for name in _NAMES:
                logging.getLogger(name).removeFilter(_filter)


def is_quiet() -> bool:
    """Return whether the current thread is in a `quiet_thread`."""
    return threading.get_ident() in _threads


class _Unquoted(logging.Filter):
    """Takes out of a record what it quotes, in the thread that has made this filter."""

    def __init__(self) -> None:
        super().__init__()
        self._ident = threading.get_ident()

    def filter(self, record: logging.LogRecord) -> bool:
        if threading.get_ident() == self._ident:
            record.args = ()
            record.msg = (
                "OTEL_EXPORTER_OTLP_HEADERS, or that of metrics or traces, has a part that cannot be read "
                "and is left out (not shown, it may hold a secret): write name=value,name=value, the values "
                "URL-encoded"
            )
        return True


@contextmanager
def unquoted_headers() -> Iterator[None]:
    """Say in the log what is wrong with headers, without the headers, which OpenTelemetry quotes."""
    logger, unquoted = logging.getLogger("opentelemetry.util.re"), _Unquoted()
    logger.addFilter(unquoted)
    try:
        yield
    finally:
        logger.removeFilter(unquoted)


def after_fork_in_child() -> None:
    """Forget the parent's threads: their numbers may be given to others."""
    _threads.clear()


def take_reason() -> str:
    """Return the last reason in the current thread, and forget it."""
    ident = threading.get_ident()
    reason = _threads.get(ident, "")
    if reason:
        _threads[ident] = ""
    return reason


def session() -> Any:
    """Return a session of requests that remembers why a push failed; ``None`` without requests.

    The exporters do not always log it: without time for a second try, they name neither status nor error.
    """
    try:
        import netrc  # noqa: F401 - what requests would import in the thread that pushes, perhaps during a fork

        import requests
    except ImportError:
        return None

    class Session(requests.Session):
        def send(self, request: Any, **kwargs: Any) -> Any:
            try:
                response = super().send(request, **kwargs)
            except Exception as error:
                missing = [path for path in _files(kwargs) if not os.path.exists(path)]  # noqa: PTH110
                if missing:
                    _remember(f"there is no file {missing[0]}, which the settings of TLS name")
                else:
                    remember(error)
                raise
            if response.status_code >= 400:
                _remember(f"HTTP {response.status_code}")
            return response

    return Session()


def _files(arguments: dict[str, Any]) -> list[str]:
    """Return the files of TLS that a request names."""
    cert = arguments.get("cert")
    pair = cert if isinstance(cert, tuple) else (cert,)
    return [path for path in (arguments.get("verify"), *pair) if isinstance(path, str)]


def remember(error: BaseException, *, again: bool = True) -> None:
    """Keep an exception's name as the current thread's reason; if not ``again``, only where none is known."""
    if again or not _threads.get(threading.get_ident()):
        _remember(_cause(error))


def _remember(reason: str) -> None:
    ident = threading.get_ident()
    if reason and ident in _threads:
        _threads[ident] = reason


def _reason(record: logging.LogRecord) -> str:
    """Return status and names of exceptions only: a URL in an exception's text may hold a key."""
    parts: list[str] = []
    args: Any = record.args if isinstance(record.args, tuple) else ()
    for arg in args:
        if isinstance(arg, BaseException):
            parts.append(_cause(arg))
        elif isinstance(arg, int) and 100 <= arg < 600:
            parts.append(f"HTTP {arg}")
        elif isinstance(arg, enum.Enum):  # a status of gRPC
            parts.append(arg.name)
        elif isinstance(arg, str) and arg in _PHRASES and not parts:
            parts.append(arg)
    return ", ".join(parts)


def _cause(error: BaseException) -> str:
    """Return the class of the outermost exception, and the text of the system's own error inside."""
    seen: set[int] = set()
    stack: list[Any] = [error]
    while stack:
        inner = stack.pop()
        if not isinstance(inner, BaseException) or id(inner) in seen:
            continue
        seen.add(id(inner))
        if isinstance(inner, OSError) and isinstance(inner.strerror, str):
            return f"{type(error).__name__}: {inner.strerror}"
        stack += [getattr(inner, "reason", None), inner.__cause__, inner.__context__, *inner.args]
    return type(error).__name__


def endpoint(exporter: object, reason: str = "") -> str:
    """Return `` to `` and scheme, host and port of an exporter's endpoint; nothing that could be a secret.

    With a 404 its path too, which that is about; long parts, which may be keys, are hidden.
    """
    url = getattr(exporter, "_endpoint", None)
    if not isinstance(url, str):
        return ""
    try:
        parts = urlsplit(url if "//" in url else f"//{url}")
        host, port = parts.hostname or "", parts.port
    except ValueError:
        return ""
    scheme = f"{parts.scheme}://" if parts.scheme else ""
    segments = parts.path.split("/") if "404" in reason else ()
    path = "/".join(segment if len(segment) <= _LONGEST_PART else "***" for segment in segments)
    return f" to {scheme}{host}{f':{port}' if port else ''}{path}"


class Outage:
    """The state of one receiver, called ``target`` in the log, logged when it changes."""

    def __init__(self, target: str) -> None:
        self._target = target
        self.on = False

    def note(self, ok: bool, exporter: object, retry_in: float, last: bool = False) -> None:
        """Note that a push went well or not; ``last``: there is no next one."""
        if ok == (not self.on) and (ok or not last):
            return
        self.on = not ok
        if ok:
            # On the level of the outage: where its beginning is logged, its end is.
            _LOG.warning("%s: pushing%s works again; nothing was lost", self._target, endpoint(exporter))
            return
        next_try = f"trying again every {retry_in:g} s, in silence until it works"
        outlook = "the last values are lost" if last else next_try
        reason = take_reason() or "no answer in time"
        text = "%s: pushing%s fails (%s); the service is not affected, %s"
        _LOG.warning(text, self._target, endpoint(exporter, reason), reason, outlook)
