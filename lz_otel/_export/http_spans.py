"""HTTP spans of the OpenTelemetry instrumentors of httpx and httpx2, without what may be a secret.

They put the whole URL on a span (C: a key may be in its query, ``…:generateContent?key=…``), and the text
of an exception as an event and as the status (C: it may quote a URL or a header, "Illegal header value
b'sk-…'"). Where lz_otel has switched them on, neither leaves: they are given a tracer that takes it out
before a span is made, so no sampler and no processor of the application's provider sees it either. One that
the application has switched on itself is left as it is.
"""

from __future__ import annotations

import inspect
import logging
import re
from contextlib import contextmanager
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

from opentelemetry import trace
from opentelemetry.trace import Status, StatusCode

from lz_otel._ground.guard import guarded

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from opentelemetry.instrumentation.instrumentor import (  # type: ignore[attr-defined]  # it opts out of types
        BaseInstrumentor,
    )
    from opentelemetry.trace import Span

_LOG = logging.getLogger("lz_otel")
# Attributes of both generations of the HTTP conventions that hold a URL or a part of one.
_URLS = frozenset({"http.url", "http.target", "url.full", "url.original"})
_NEVER = frozenset({"url.query", "url.fragment"})
_USER = re.compile(r"^((?:[a-zA-Z][a-zA-Z0-9+.-]*:)?//)[^/\\]*@")


def bare_url(url: str) -> str:
    """Return a URL, or the path of one, without user, password, query and fragment."""
    return _USER.sub(r"\1", re.split(r"[?#]", url, maxsplit=1)[0])


@guarded("export")  # without attributes is better than with a key
def _bare(attributes: Mapping[str, Any] | None) -> dict[str, Any] | None:
    if attributes is None:
        return None
    return {
        name: bare_url(str(value)) if name in _URLS else value
        for name, value in attributes.items()
        if name not in _NEVER
    }


@guarded("export")
def _failed(span: Span, error: Exception) -> None:
    """Record what the SDK would of an exception, but for its text and its traceback (which ends with it)."""
    if not span.is_recording():
        return
    kind = type(error)
    name = kind.__qualname__ if kind.__module__ == "builtins" else f"{kind.__module__}.{kind.__qualname__}"
    span.add_event("exception", {"exception.type": name})
    span.set_status(Status(StatusCode.ERROR, kind.__name__))


def _without_secrets(method: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> dict[str, Any]:
    """Return the arguments of a method that starts a span, with bare attributes and no exceptions."""
    arguments = inspect.signature(method).bind(None, *args, **kwargs).arguments
    arguments |= {"record_exception": False, "set_status_on_exception": False}
    arguments["attributes"] = _bare(arguments.get("attributes"))
    return {name: value for name, value in arguments.items() if name != "self"}


class _Tracer(trace.Tracer):
    """Makes the spans of another tracer without secrets."""

    def __init__(self, tracer: trace.Tracer) -> None:
        self._tracer = tracer

    def start_span(self, *args: Any, **kwargs: Any) -> Span:
        return self._tracer.start_span(**_without_secrets(trace.Tracer.start_span, args, kwargs))

    @contextmanager
    def start_as_current_span(self, *args: Any, **kwargs: Any) -> Iterator[Span]:  # type: ignore[override]  # the API's own kind of context manager is private
        arguments = _without_secrets(trace.Tracer.start_as_current_span, args, kwargs)
        with self._tracer.start_as_current_span(**arguments) as span:
            try:
                yield span
            except Exception as error:
                _failed(span, error)
                raise


class _Provider(trace.TracerProvider):
    """The global provider, whichever it is or is going to be."""

    def get_tracer(self, *args: Any, **kwargs: Any) -> trace.Tracer:
        return _Tracer(trace.get_tracer_provider().get_tracer(*args, **kwargs))


def switch_on() -> list[BaseInstrumentor]:
    """Switch on the instrumentors of httpx and httpx2 that are installed and off. What fails is a warning.

    Returns:
        Those that were switched on.
    """
    on: list[BaseInstrumentor] = []
    try:
        from opentelemetry.instrumentation import httpx as package
    except Exception as error:  # noqa: BLE001 - installed, and broken
        _LOG.warning("lz_otel: no HTTP spans (%s)", type(error).__name__)
        return on
    for name, client in (("HTTPXClientInstrumentor", "httpx"), ("HTTPX2ClientInstrumentor", "httpx2")):
        cls = getattr(package, name, None)
        if cls is None:  # 0.65b0 was the first to know httpx2
            if find_spec(client) is not None:
                text = "lz_otel: no HTTP spans of %s: opentelemetry-instrumentation-httpx is too old for it"
                _LOG.warning(text, client)
            continue
        try:
            instrumentor = cls()
            if not instrumentor.is_instrumented_by_opentelemetry:
                instrumentor.instrument(tracer_provider=_Provider())
                on.append(instrumentor)
        except Exception as error:  # noqa: BLE001 - e.g. the client's version is not supported
            _LOG.warning("lz_otel: no HTTP spans by %s (%s)", name, type(error).__name__)
    return on
