"""Expressions that several dashboards share.

Two denominators, two names: :meth:`Queries.hit` is of *eligible* calls (hits, misses, fallbacks),
:meth:`Queries.got` of calls that *asked* (hits, fallbacks). What opted out is in neither.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from lz_otel import catalogue as c
from lz_otel.bundle._labels import ASKED, ELIGIBLE, FAILED_ENDINGS, FINISHED_ENDINGS, ROUTE
from lz_otel.bundle.dashboards.recorded import headroom
from lz_otel.bundle.promql import ALERTS, DASHBOARD_SCOPE, Builder, Regex, Var, quantile_of, ratio

if TYPE_CHECKING:
    from lz_otel.bundle.config import Config
    from lz_otel.bundle.promql import Expr, Recorded, Value
    from lz_otel.catalogue import Metric

NOW = "$__rate_interval"
RANGE = "$__range"
HOUR = 3600


class Queries:
    """The shared expressions, filtered by the dashboard's variables.

    Args:
        config: thresholds and names of groups.
        scope: filters; by default all common variables.
    """

    def __init__(self, config: Config, scope: dict[str, Value] | None = None) -> None:
        self.config = config
        self.scope = DASHBOARD_SCOPE if scope is None else scope
        self.b = Builder(self.scope, config.extra_labels)

    def per_second(
        self, metric: Metric, *by: str, window: str = NOW, offset: str = "", **where: Value
    ) -> Expr:
        """Return the rate of a counter."""
        return self.b.counter(metric, **where).rate(window, offset).sum(*by)

    def per_minute(self, metric: Metric, *by: str, window: str = NOW, **where: Value) -> Expr:
        """Return the rate of a counter by the minute."""
        return 60 * self.per_second(metric, *by, window=window, offset="", **where)

    def per_hour(self, metric: Metric, *by: str, window: str = NOW, **where: Value) -> Expr:
        """Return the rate of a counter by the hour."""
        return HOUR * self.per_second(metric, *by, window=window, offset="", **where)

    def over(self, metric: Metric, *by: str, window: str = RANGE, **where: Value) -> Expr:
        """Return the increase of a counter over the range."""
        return self.b.counter(metric, **where).increase(window).sum(*by)

    def calls(self, *by: str, window: str = NOW, offset: str = "", **where: Value) -> Expr:
        """Return the calls per second."""
        return self.b.count(c.INFERENCE_DURATION, **where).rate(window, offset).sum(*by)

    def calls_over(self, *by: str, window: str = RANGE, **where: Value) -> Expr:
        """Return the calls over the range."""
        return self.b.count(c.INFERENCE_DURATION, **where).increase(window).sum(*by)

    def failed(self, *by: str, window: str = NOW) -> Expr:
        """Return the share of finished calls that failed; what the caller gave up is in neither side."""
        bad = self.calls(*by, window=window, lz_ending=FAILED_ENDINGS)
        return ratio(bad, self.calls(*by, window=window, lz_ending=FINISHED_ENDINGS))

    def hit(self, *by: str, window: str = NOW, **where: Value) -> Expr:
        """Return the hits of eligible calls."""
        return self._verdicts(ELIGIBLE, by, window, where)

    def got(self, *by: str, window: str = NOW, **where: Value) -> Expr:
        """Return the hits of the calls that asked for the fast path."""
        return self._verdicts(ASKED, by, window, where)

    def saved(self, *by: str, window: str = NOW, **where: Value) -> Expr:
        """Return USD per second saved, less what cache writes cost beyond full price."""
        gain = self.per_second(c.SAVED_USD, *by, window=window, offset="", **where)
        loss = self.per_second(c.OVERSPENT_USD, *by, window=window, offset="", **where)
        return gain - (loss.or_(0 * gain) if by else loss.or_zero())

    def saved_over(self) -> Expr:
        """Return USD over the range saved, less what cache writes cost beyond full price."""
        return self.over(c.SAVED_USD) - self.over(c.OVERSPENT_USD).or_zero()

    def from_cache(self, *by: str, window: str = NOW) -> Expr:
        """Return the input tokens read from the prompt cache, of all input tokens (which include them)."""
        read = self.per_second(c.CACHE_READ_TOKENS, *by, window=window)
        return ratio(read, self.per_second(c.INPUT_TOKENS, *by, window=window))

    def full_price_input(self, window: str = NOW) -> Expr:
        """Return the input tokens per second that were neither read from a cache nor written to one."""
        read = self.per_second(c.CACHE_READ_TOKENS, window=window).or_zero()
        written = self.per_second(c.CACHE_WRITE_TOKENS, window=window).or_zero()
        return (self.per_second(c.INPUT_TOKENS, window=window) - read - written).clamp_min(0)

    def quality(self, *by: str, window: str = "30m", **where: Value) -> Expr:
        """Return the mean of the application's scores, from sums and counts."""
        total = self.b.total(c.QUALITY, **where).rate(window).sum(*by)
        return total / self.b.count(c.QUALITY, **where).rate(window).sum(*by).above(0)

    def recorded_quantile(
        self, q: float, buckets: Recorded, *by: str, window: str = "", offset: str = "", **where: Value
    ) -> Expr:
        """Return ``histogram_quantile`` of recorded bucket rates: cheap for many processes."""
        series = self.b.recorded(buckets, **where)
        if window:
            series = series.over_time("sum_over_time", window, offset)
        return quantile_of(q, series, by)

    def headroom(self) -> Expr:
        """Return the share of each limit that is left, of processes that make attempts now."""
        scope = {k: v for k, v in self.scope.items() if k != ROUTE}
        return headroom(Builder(scope, self.config.extra_labels), NOW)

    def _verdicts(
        self, whole: tuple[str, ...], by: tuple[str, ...], window: str, where: dict[str, Value]
    ) -> Expr:
        def some(**more: Value) -> Expr:
            return self.b.counter(c.FAST_PATH_CALLS, **where, **more).rate(window).sum(*by)

        return ratio(some(verdict="hit"), some(verdict=whole), zero=some())


def firing(severity: Value) -> Expr:
    """Return the alerts of this bundle that fire."""
    alerts = Builder({"job": Var("job")})
    return alerts.gauge(ALERTS, alertname=Regex("LLM.+"), alertstate="firing", severity=severity)
