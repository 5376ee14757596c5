"""Public functions that an application calls while it works. All do nothing before ``instrument()``."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lz_otel import _runtime
from lz_otel._ground.guard import guarded
from lz_otel._operation import Operation

if TYPE_CHECKING:
    from lz_otel._reports import Reports


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
