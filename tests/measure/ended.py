"""Ended calls as the rules get them: the only place of the tests of `_measure` that builds one."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from lz_otel._judge.result import Result
from lz_otel._measure.rules import path_of
from lz_otel.model import EndedCall, Facts, Request, Verdict

if TYPE_CHECKING:
    from collections.abc import Iterable

__all__ = ["ANSWERED", "COMMON", "ended", "facts", "hit"]

COMMON = ("chat", "anthropic", "claude-opus-5", "route", "group")
ANSWERED = "claude-opus-5-20260101"  # the model that answered


def facts(*, inference: bool = True, llm_call: bool = True, **stated: Any) -> Facts:
    """Return the facts of a chat; what is not given was not stated."""
    return Facts("anthropic", "chat", inference=inference, llm_call=llm_call, **stated)


def ended(of: Facts, *, results: Iterable[Result] = (), **more: Any) -> EndedCall:
    """Return a good call of two seconds, with the first byte after half a second; ``more`` overrides that."""
    results = list(results)
    path, served_by, stored = path_of(results)
    given: dict[str, Any] = {
        "started_at": 100.0,
        "first_byte_at": 100.5,
        "ended_at": 102.0,
        "status": 200,
        **more,
    }
    return EndedCall(
        Request("POST", "api.anthropic.com", "/v1/messages"),
        of,
        common=COMMON,
        response_model=ANSWERED,
        results=results,
        path=path,
        served_by=served_by,
        stored=stored,
        **given,
    )


def hit(mechanism: str, saved_usd: float | None = None, **more: Any) -> Result:
    """Return a mechanism's conclusion that it served the call."""
    return Result(Verdict(mechanism, "hit", **more), saved_usd=saved_usd)
