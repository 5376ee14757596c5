"""Errors as providers state them: ``(type, code, message)``.

The type is ``error.type``, else Google's ``status``, else a ``code`` that is no number, else
AWS's ``x-amzn-errortype`` (D each). The message is judged locally and never exported.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from lz_otel._extract.values import error_word, json_object, nonempty_text

if TYPE_CHECKING:
    from collections.abc import Mapping

_MAX_MESSAGE = 4096
_NO_HEADERS: Mapping[str, str] = {}


class ProviderError(NamedTuple):
    """An error; each part may be unsaid."""

    type: str | None = None
    code: str | None = None
    message: str | None = None


def provider_error(body: Any, headers: Mapping[str, str] = _NO_HEADERS) -> ProviderError:
    """Return the error that a decoded body (any JSON value, or ``None``) and the headers state."""
    if type(body) is list and body:  # Google wraps errors of streams in a list
        body = body[0]
    top = json_object(body)
    inner = top.get("error")
    if type(inner) is dict:
        error = inner
    elif type(inner) is list and inner and type(inner[0]) is dict:
        error = inner[0]
    else:
        error = top
    code = _code(error.get("code"))
    kind = error.get("type") if error is not top or error.get("type") != "error" else None
    found = error_word(kind) or _name(error.get("status")) or _name(code) or _name(error.get("error_type"))
    if found is None:
        found = error_word(_aws(headers.get("x-amzn-errortype") or error.get("__type")))
    detail = json_object(error.get("details")).get("error_code")
    stated = (error.get("message"), inner, top.get("detail"), top.get("message"))
    message = next(filter(None, map(nonempty_text, stated)), "")
    return ProviderError(found, error_word(detail) or code, message[:_MAX_MESSAGE] or None)


def _code(value: Any) -> str | None:
    if type(value) is int:
        return str(value) if 0 <= value < 100_000 else None
    return error_word(value)


def _name(value: Any) -> str | None:
    """Return a word that is no number (``code: 429`` says no more than the status)."""
    found = error_word(value)
    return None if found is None or found.lstrip("-").isdigit() else found


def _aws(value: Any) -> Any:
    """Cut ``com.amazon#ValidationException:http://...`` to ``ValidationException``."""
    return value.partition(":")[0].rpartition("#")[2] if type(value) is str else None
