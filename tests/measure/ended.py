"""Ended calls as the rules get them: the only place of the tests of `_measure` that builds one."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from lz_otel._judge.result import Result
from lz_otel._measure.rules import Ended
from lz_otel.model import Ending, Facts, Verdict

if TYPE_CHECKING:
    from collections.abc import Iterable

__all__ = ["ANSWERED", "COMMON", "ended", "facts", "hit"]

COMMON = ("chat", "anthropic", "claude-opus-5", "route", "group")
ANSWERED = "claude-opus-5-20260101"  # the model that answered


def facts(*, inference: bool = True, llm_call: bool = True, **stated: Any) -> Facts:
    """Return the facts of a chat; what is not given was not stated."""
    made = Facts("anthropic", "chat", inference=inference, llm_call=llm_call)
    for name, value in stated.items():
        if not hasattr(made, name):
            raise AttributeError(name)
        setattr(made, name, value)
    return made


def ended(
    of: Facts,
    *,
    results: Iterable[Result] = (),
    cost: Any = None,
    started_at: float = 100.0,
    first_byte_at: float | None = 100.5,
    ended_at: float = 102.0,
    ending: str = Ending.OK,
    error_type: str = "",
    status: int | None = 200,
    compressed: bool = False,
) -> Ended:
    """Return a call that took two seconds, with the first byte after half a second, unless told otherwise."""
    return Ended(
        of,
        COMMON,
        started_at,
        ended_at,
        first_byte_at,
        ending,
        error_type,
        status,
        ANSWERED,
        compressed,
        list(results),
        cost,
    )


def hit(mechanism: str, saved_usd: float | None = None, **more: Any) -> Result:
    """Return a mechanism's conclusion that it served the call."""
    return Result(Verdict(mechanism, "hit", **more), saved_usd=saved_usd)
