"""What the application reports itself: operations, rejected answers, quality, its own response cache."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any

from lz_otel import catalogue
from lz_otel._capture.calls import current_operation

if TYPE_CHECKING:
    from collections.abc import Callable

    from lz_otel._measure.labels import Labels
    from lz_otel._measure.store import Store
    from lz_otel._operation import CallRecord, Operation

__all__ = ["Reports"]

_LOG = logging.getLogger("lz_otel")


class Reports:
    """Turns what the application tells into measurements.

    Args:
        store: where numbers go.
        labels: caps on open attributes.
        awake: the mechanisms that are on.
    """

    def __init__(self, store: Store, labels: Labels, awake: Callable[[], tuple[str, ...]]) -> None:
        self._store = store
        self._labels = labels
        self._awake = awake
        self._warned = False

    def _scope(self, operation: Operation) -> tuple[str, str]:
        return self._labels.route(operation.name), self._labels.group(operation.group)

    def model_fallback(self, operation: Operation, source: str, target: str, reason: str) -> None:
        """Another model stepped in within an operation."""
        labels = (*self._scope(operation), self._labels.model(source), self._labels.model(target), reason)
        self._store.add(((catalogue.OP_FALLBACKS, labels, 1.0),))

    def fast_path_given_up(
        self, operation: Operation, record: CallRecord, reason: str, *, verdict: bool
    ) -> None:
        """The application gave up a fast answer (rejected), or a fast attempt (hedge)."""
        mechanism = record.served_by or "symbolic"
        if mechanism not in self._awake():
            return  # a hedge of somebody without Layer Zero is no fallback of it
        common = self._labels.common("chat", record.provider, record.model, operation.name, operation.group)
        rows: list[Any] = [(catalogue.FAST_PATH_FALLBACKS, (*common, mechanism, reason), 1.0)]
        if verdict:
            rows.append((catalogue.FAST_PATH_CALLS, (*common, mechanism, "fallback"), 1.0))
        self._store.add(rows)

    def operation_ended(self, operation: Operation, seconds: float, calls: int, outcome: str) -> None:
        """An operation was left and its last call has ended."""
        labels = (*self._scope(operation), outcome)
        self._store.add(
            ((catalogue.OP_DURATION, labels, seconds), (catalogue.OP_CALLS, labels, float(calls)))
        )

    def quality(self, score: Any, metric: str, group: str | None, route: str | None) -> None:
        """A score of the application's own."""
        if isinstance(score, bool) or not isinstance(score, (int, float)) or not 0 <= score <= 1:
            if not self._warned:
                self._warned = True
                _LOG.warning(
                    "lz_otel: record_quality(score) wants a number from 0 to 1, not this (of type %s); dropped",
                    type(score).__name__,
                )
            return
        active = current_operation.get()
        name = route if route is not None else ("" if active is None else active.name)
        stage = group if group is not None else ("" if active is None else active.group)
        labels = self._labels
        values = (labels.route(name), labels.group(stage), labels.other("metric", 20, metric))
        self._store.add(((catalogue.QUALITY, values, float(score)),))

    def response_cache(self, hit: bool, model: str, provider: str) -> None:
        """The application's own response cache answered, or not."""
        active = current_operation.get()
        if active is not None:
            active.cache_answered(hit)
        route, group = ("", "") if active is None else (active.name, active.group)
        common = self._labels.common("chat", provider, model, route, group)
        decision = "hit" if hit else "miss"
        self._store.add(((catalogue.FAST_PATH_CALLS, (*common, "response_cache", decision), 1.0),))
