"""PromQL from catalogue objects, so that a name cannot drift.

A query starts at a :class:`Builder`, which knows the labels every series may carry and the filters
every query gets (``$job`` and so on for dashboards, the configured selectors for rules)::

    b = Builder()
    failed = b.count(INFERENCE_DURATION, lz_ending=("error", "incomplete")).rate("5m").sum("job")
    all_ = b.count(INFERENCE_DURATION).rate("5m").sum("job")
    str(ratio(failed, all_).above(0.05))

Unknown metrics, labels, and literals outside a closed list raise
:class:`~lz_otel.errors.CatalogueError`. A counter or a histogram part is a :class:`Range` and must pass
through ``rate`` or ``increase`` before it can be aggregated, so raw counters and quotients are never
summed. Bucket bounds cannot be matched: scraped series say ``le="1.0"``, series that came by OTLP
``le="1"``.

Every :class:`Expr` knows its labels; ``sum("jbo")`` is refused, as is a match ``on`` a label that one
side has lost.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, NamedTuple

from lz_otel import catalogue
from lz_otel.bundle._expr import (
    LABEL,
    Expr,
    Not,
    Range,
    Regex,
    Value,
    Var,
    check_value,
    literal,
    matcher,
    quantile_of,
    ratio,
    variable,
    vector,
)
from lz_otel.bundle._labels import VARIABLES
from lz_otel.catalogue import COUNTER, GAUGE, HISTOGRAM, UP_DOWN, Attribute, Metric
from lz_otel.errors import CatalogueError

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

__all__ = [
    "ALERTS", "DASHBOARD_SCOPE", "EXTERNAL", "VENDOR_CACHE_HIT_RATE", "VENDOR_DECOMPRESSION_P95",
    "VENDOR_SLICE_EFFICIENCY", "Builder", "Expr", "Not", "Range", "Recorded", "Regex", "Value", "Var",
    "literal", "pretty", "quantile_of", "ratio", "variable", "vector",
]  # fmt: skip

_SET_OPERATOR = re.compile(r"(and|or|unless)\b")

# Labels that the scrape or the receiver gives to every series.
TARGET = ("job", "instance")

# Series that are not ours. The vendor gauges are named by article 004 (A); their unit and that they are
# gauges is our choice (C): ratios from 0 to 1, the decompression p95 in milliseconds.
VENDOR_CACHE_HIT_RATE = Metric(
    "cache_hit_rate", GAUGE, "{ratio}", (Attribute("layer"),), "Vendor: share of slices shared.", "A"
)
VENDOR_DECOMPRESSION_P95 = Metric(
    "decompression_latency_p95", GAUGE, "{ms}", (Attribute("precision"),), "Vendor: decompression p95.", "A"
)
VENDOR_SLICE_EFFICIENCY = Metric(
    "kv_slice_efficiency", GAUGE, "{ratio}", (Attribute("block_type"),), "Vendor: slice efficiency.", "A"
)
ALERTS = Metric(
    "ALERTS", GAUGE, "{alert}",
    (Attribute("alertname"), Attribute("alertstate", ("firing", "pending")),
     Attribute("severity", ("critical", "warning", "info", "none"))),
    "What Prometheus itself reports of alerts.", "D",
)  # fmt: skip
UP = Metric("up", GAUGE, "{target}", (), "Whether the last scrape of a target worked.", "D")
EXTERNAL = (VENDOR_CACHE_HIT_RATE, VENDOR_DECOMPRESSION_P95, VENDOR_SLICE_EFFICIENCY, ALERTS, UP)


class Recorded(NamedTuple):
    """A series that a recording rule makes; ``recording.py`` is the one place that names them."""

    name: str
    labels: tuple[str, ...]


DASHBOARD_SCOPE: dict[str, Value] = {label: Var(name) for name, label in VARIABLES.items()}


class Builder:
    """Makes selectors over catalogue metrics.

    Args:
        scope: filters for every selector, each used where the metric has that label (so operations, which
            have no model, are not filtered by model). Dashboards give :data:`DASHBOARD_SCOPE`.
        extra_labels: labels that the users' set-up puts on all series, such as ``cluster``.
    """

    def __init__(self, scope: Mapping[str, Value] | None = None, extra_labels: Iterable[str] = ()) -> None:
        self.scope = dict(scope or {})
        self.extra = tuple(extra_labels)
        for label in (*self.scope, *self.extra):
            if not LABEL.fullmatch(label):
                raise CatalogueError(f"{label!r} is no name of a label")

    def counter(self, metric: Metric, **where: Value) -> Range:
        """Return the selector of a counter."""
        return Range(*self._select(metric, (COUNTER,), "", where))

    def count(self, metric: Metric, **where: Value) -> Range:
        """Return the selector of a histogram's number of samples."""
        return Range(*self._select(metric, (HISTOGRAM,), "_count", where))

    def total(self, metric: Metric, **where: Value) -> Range:
        """Return the selector of a histogram's sum of samples."""
        return Range(*self._select(metric, (HISTOGRAM,), "_sum", where))

    def bucket(self, metric: Metric, **where: Value) -> Range:
        """Return the selector of a histogram's buckets, with the label ``le``."""
        text, labels = self._select(metric, (HISTOGRAM,), "_bucket", where)
        return Range(text, labels | {"le"})

    def gauge(self, metric: Metric, **where: Value) -> Expr:
        """Return the selector of a gauge or an up-down counter."""
        return Expr(*self._select(metric, (GAUGE, UP_DOWN), "", where))

    def recorded(self, series: Recorded, **where: Value) -> Expr:
        """Return the selector of a recorded series."""
        known = {label: Attribute(label) for label in (*series.labels, *self.extra)}
        return Expr(series.name + self._matchers(series.name, known, where), frozenset(known))

    def every_series(self) -> Expr:
        """Return all series of this library: expensive, for counting them."""
        known = {label: Attribute(label) for label in (*TARGET, *self.extra)}
        rest = self._matchers("every series", known, {}).strip("{}")
        text = '{__name__=~"(lz|gen_ai)_.+"' + (f",{rest}" if rest else "") + "}"
        return Expr(text, frozenset((*known, "__name__")))

    def quantile(
        self, q: float, metric: Metric, window: str, by: Iterable[str] = (), offset: str = "", **where: Value
    ) -> Expr:
        """Return ``histogram_quantile`` over summed buckets, in the unit of the metric."""
        return quantile_of(q, self.bucket(metric, **where).rate(window, offset), by)

    def mean(
        self, metric: Metric, window: str, by: Iterable[str] = (), offset: str = "", **where: Value
    ) -> Expr:
        """Return the mean of a histogram: sum of samples by their number."""
        names = tuple(by)
        total = self.total(metric, **where).rate(window, offset).sum(*names)
        return total / self.count(metric, **where).rate(window, offset).sum(*names).above(0)

    def _select(
        self, metric: Metric, kinds: tuple[str, ...], suffix: str, where: Mapping[str, Value]
    ) -> tuple[str, frozenset[str]]:
        if not any(metric is known for known in (*catalogue.ALL, *EXTERNAL)):
            raise CatalogueError(f"{metric.name!r} is not a metric of the catalogue")
        if metric.kind not in kinds:
            raise CatalogueError(f"{metric.name} is a {metric.kind}, wanted here: {' or '.join(kinds)}")
        known = {label: Attribute(label) for label in (*TARGET, *self.extra, *self._own_scope())}
        known.update({a.label: a for a in metric.attributes})
        text = metric.prometheus + suffix + self._matchers(metric.prometheus, known, where)
        return text, frozenset(known)

    def _own_scope(self) -> tuple[str, ...]:
        """Return the labels of the scope that no metric of ours has: they come from the users' set-up."""
        ours = {a.label for m in catalogue.ALL for a in m.attributes}
        return tuple(label for label in self.scope if label not in ours)

    def _matchers(self, name: str, known: Mapping[str, Attribute], where: Mapping[str, Value]) -> str:
        for label, value in where.items():
            if label not in known:
                raise CatalogueError(f"{name} has no label {label!r}: it has {', '.join(known)}")
            check_value(name, known[label], value)
        merged = [(k, v) for k, v in self.scope.items() if k in known and k not in where]
        merged += where.items()
        return "{" + ",".join(matcher(k, v) for k, v in merged) + "}" if merged else ""


def pretty(expression: str) -> str:
    """Break lines of PromQL before every set operator that is in at most one pair of brackets."""
    out, depth, quoted = [], 0, False
    for position, character in enumerate(expression):
        before = expression[position - 1] if position else ""
        if character == '"' and before != "\\":
            quoted = not quoted
        elif not quoted:
            depth += character in "([{"
            depth -= character in ")]}"
            if character == " " and depth <= 1 and _SET_OPERATOR.match(expression, position + 1):
                out.append("\n" + "  " * depth)
                continue
        out.append(character)
    return "".join(out)
