"""The numbers of what the application reports: operations, rejected answers, quality, its own cache."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any

from lz_otel import catalogue
from lz_otel._capture.call import current_operation
from lz_otel.mechanisms import ALL

if TYPE_CHECKING:
    from collections.abc import Callable

    from lz_otel._measure.labels import Labels
    from lz_otel._measure.store import Store
    from lz_otel._operation import Operation
    from lz_otel.model import EndedCall

# The mechanism that a fast attempt of a hedged pair is for, while nothing says which served it
_HEDGED = next(row.name for row in ALL if "hedge_lost" in row.reasons)
# The mechanism that an application's own cache counts as
_REPLAYING = "response_cache"
_LOG = logging.getLogger("lz_otel")


class Reports:
    """Turns what the application reports into numbers.

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
        """Count a call to another model after one failed."""
        labels = (*self._scope(operation), self._labels.model(source), self._labels.model(target), reason)
        self._store.add(((catalogue.OPERATION_FALLBACKS, labels, 1.0),))

    def fast_path_given_up(
        self, operation: Operation, call: EndedCall, reason: str, *, verdict: bool
    ) -> None:
        """Count a fast answer that was rejected, or a fast attempt that was given up."""
        mechanism = call.served_by or _HEDGED
        if mechanism not in self._awake():
            return  # without Layer Zero a hedge is no fallback of it
        common = self._labels.common("chat", call.common[1], call.common[2], operation.name, operation.group)
        rows: list[Any] = [(catalogue.FAST_PATH_FALLBACKS, (*common, mechanism, reason), 1.0)]
        if verdict:
            rows.append((catalogue.FAST_PATH_CALLS, (*common, mechanism, "fallback"), 1.0))
        self._store.add(rows)

    def operation_ended(self, operation: Operation, seconds: float, calls: int, outcome: str) -> None:
        """Count an operation that was left and whose last call has ended."""
        labels = (*self._scope(operation), outcome)
        self._store.add(
            (
                (catalogue.OPERATION_DURATION, labels, seconds),
                (catalogue.OPERATION_CALLS, labels, float(calls)),
            )
        )

    def quality(self, score: Any, metric: str, group: str | None, route: str | None) -> None:
        """Record a score of the application's own."""
        if isinstance(score, bool) or not isinstance(score, (int, float)) or not 0 <= score <= 1:
            if not self._warned:
                self._warned = True
                _LOG.warning(
                    "lz_otel: record_quality(score) wants a number from 0 to 1, "
                    "not this (of type %s); dropped",
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
        """Count an answer, or a miss, of the application's own response cache."""
        active = current_operation.get()
        if active is not None:
            active.cache_answered(hit)
        route, group = ("", "") if active is None else (active.name, active.group)
        common = self._labels.common("chat", provider, model, route, group)
        decision = "hit" if hit else "miss"
        self._store.add(((catalogue.FAST_PATH_CALLS, (*common, _REPLAYING, decision), 1.0),))
