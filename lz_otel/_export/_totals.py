"""Sums that go on where `instrument` is called again in one process, for the same registry or provider.

A counter that began at 0 again would be missed where it has outgrown its old value by the next scrape.
A push needs none of this: its instance id is a new one (`_resource`).
"""

from __future__ import annotations

import contextlib
import os
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary

from lz_otel._measure.store import HistogramValue, Series
from lz_otel.catalogue import COUNTER, HISTOGRAM

if TYPE_CHECKING:
    from collections.abc import Iterable


class Totals:
    """What was counted before a store began.

    Args:
        snapshot: all that was counted; only counters and histograms are kept.

    Attributes:
        kept: their series, by the metric's identity.
    """

    def __init__(self, snapshot: Iterable[Series] = ()) -> None:
        sums = [series for series in snapshot if series.metric.kind in (COUNTER, HISTOGRAM)]
        self.kept = {id(series.metric): series for series in sums}

    def added_to(self, snapshot: list[Series]) -> list[Series]:
        """Return what a store has counted, with what was kept added to it."""
        if not self.kept:
            return snapshot
        joined = {id(series.metric): series for series in snapshot}
        for ident, kept in self.kept.items():
            points = dict(kept.points)
            for labels, value in joined[ident].points if ident in joined else ():
                points[labels] = _sum(points[labels], value) if labels in points else value
            joined[ident] = Series(kept.metric, list(points.items()))
        return list(joined.values())


def _sum(one: Any, other: Any) -> Any:
    if not isinstance(one, HistogramValue):
        return one + other
    counts = tuple(a + b for a, b in zip(one.counts, other.counts, strict=True))
    return HistogramValue(counts, one.sum + other.sum, one.count + other.count)


_of: WeakKeyDictionary[Any, Totals] = WeakKeyDictionary()


def totals_of(owner: object) -> Totals:
    """Return what a registry or a provider has shown before."""
    try:
        return _of.get(owner) or Totals()
    except TypeError:  # it cannot be referred to weakly
        return Totals()


def keep(owner: object, snapshot: list[Series]) -> None:
    """Keep what a registry or a provider has shown, for the next store that it shows."""
    with contextlib.suppress(TypeError):
        _of[owner] = Totals(snapshot)


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_of.clear)  # they are the parent's
