"""Overview: is the fast path working, and does it pay? Reads recorded series only."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lz_otel.bundle._labels import (
    ASKED,
    ELIGIBLE,
    FAILED_ENDINGS,
    FINISHED_ENDINGS,
    MODEL,
    NO_FAMILIES,
    SHORTENING,
)
from lz_otel.bundle.config import dashboard_uid
from lz_otel.bundle.dashboards import recorded as r
from lz_otel.bundle.dashboards import style
from lz_otel.bundle.dashboards.board import Board
from lz_otel.bundle.dashboards.panels import Column, Query, distribution, lines, stat, states, sum_up
from lz_otel.bundle.dashboards.queries import HOUR, RANGE, firing
from lz_otel.bundle.promql import DASHBOARD_SCOPE, Builder, Expr, Not, ratio

if TYPE_CHECKING:
    from lz_otel.bundle.config import Config
    from lz_otel.bundle.promql import Recorded, Value

MODEL_PAGE = (
    f"/d/{dashboard_uid('reliability')}?${{datasource:queryparam}}&${{job:queryparam}}&${{__url_time_range}}"
    "&var-model=${__value.raw}"
)
NO_CALLS = "no calls, or the recording rules are not loaded"


class OverviewQueries:
    """Expressions over recorded series, which the overview alone reads."""

    def __init__(self, config: Config) -> None:
        self.config = config
        self.b = Builder(DASHBOARD_SCOPE, config.extra_labels)
        self.every = config.interval_seconds

    def now(self, series: Recorded, *by: str, **where: Value) -> Expr:
        """Return the recorded rate as it is now."""
        return self.b.recorded(series, **where).sum(*by)

    def over(self, series: Recorded, *by: str, **where: Value) -> Expr:
        """Return the sum over the range: each sample stands for one interval of the rules."""
        return self.every * self.b.recorded(series, **where).over_time("sum_over_time", RANGE).sum(*by)

    def quantile(self, q: float, buckets: Expr, *by: str) -> Expr:
        """Return ``histogram_quantile`` of recorded bucket rates."""
        return Expr(f"histogram_quantile({q:g}, {buckets})", frozenset(by))

    def latency(self, q: float, path: str) -> Expr:
        """Return a quantile of the duration of answered calls on a path."""
        return self.quantile(q, self.now(r.DURATION, "le", lz_path=path))

    def hits(self, whole: tuple[str, ...], *by: str, span: bool = True, **where: Value) -> Expr:
        """Return the share of hits among these verdicts, over the range or now."""
        get = self.over if span else self.now
        part, among = (get(r.VERDICTS, *by, verdict=verdict, **where) for verdict in ("hit", whole))
        return ratio(part, among, zero=get(r.VERDICTS, *by, **where))


def build(config: Config) -> Board:
    """Return the dashboard."""
    q = OverviewQueries(config)
    board = Board(
        "overview",
        "Overview",
        "Is the fast path working, how fast is it, when and why do calls fall back, what does it save?",
        variables=("job", "provider", "model", "route"),
        source=Builder({"job": DASHBOARD_SCOPE["job"]}).recorded(r.CALLS).text,
    )
    _totals(board, q)
    _answers(board, q)
    _latency(board, q)
    _breakdown(board, q)
    _limits_and_alerts(board, q)
    return board


def _totals(board: Board, q: OverviewQueries) -> None:
    t = q.config.thresholds
    finished = q.now(r.CALLS, lz_ending=FINISHED_ENDINGS)
    answered = q.now(r.CALLS, lz_ending="ok")
    fast = q.now(r.CALLS, lz_ending="ok", lz_path="fast")
    # A service without any mechanism has no verdicts: then there is no fast path to be 0 % on.
    switched_on = 0 * q.now(r.VERDICTS, mechanism=Not(SHORTENING))
    cost = HOUR * q.now(r.COST)
    overspent = q.now(r.OVERSPENT)
    board.row("",
        stat("On fire", "Firing alerts of this bundle; the list is at the bottom.",
            Query(firing("critical").count().or_zero(), "page", steps=((None, style.GOOD), (1, style.BAD))),
            Query(firing("warning").count().or_zero(), "ticket", steps=((None, style.GOOD), (1, style.WARN))),
            unit="none", size=(3, 4), empty="0"),
        stat("Calls answered",
            "Share of finished calls that ended ok. Calls that the caller cancelled or abandoned are in "
            "neither side.",
            Query(1 - ratio(q.now(r.CALLS, lz_ending=FAILED_ENDINGS), finished)),
            unit="percentunit", decimals=2, empty=NO_CALLS,
            steps=((None, style.BAD), (0.95, style.WARN), (0.99, style.GOOD))),
        stat("On the fast path",
            'Share of answered calls served without a full inference. "off": no mechanism has been seen.',
            Query(fast.or_(switched_on).op("/", answered.above(0))),
            unit="percentunit", decimals=1, empty="off"),
        stat("Typical latency",
            "Median of answered calls per path, first byte sent to last byte read. Tails are in the chart "
            "below.",
            Query(q.latency(0.5, "fast"), "fast", style.FAST),
            Query(q.latency(0.5, "full"), "full", style.FULL),
            unit="s", size=(5, 4), empty="no calls"),
        stat("Fallback share",
            "Share of the calls that asked for the fast path and did not get it, or gave it up.",
            Query(1 - q.hits(ASKED, span=False, mechanism=Not(NO_FAMILIES))),
            unit="percentunit", decimals=1, steps=style.rising(t.zeroing_fallback_high, 0.2), empty="off"),
        stat("Money per hour",
            "Spend at the present rate, and what the same calls would have cost more at full price.",
            Query(cost, "spent", style.FULL),
            Query(HOUR * (q.now(r.SAVED) - overspent.or_zero()), "saved", style.FAST),
            unit="currencyUSD", decimals=2, empty="no priced calls"),
    )  # fmt: skip


def _answers(board: Board, q: OverviewQueries) -> None:
    fast = q.now(r.CALLS, lz_ending="ok", lz_path="fast")
    cost = HOUR * q.now(r.COST)
    overspent = q.now(r.OVERSPENT)
    steps = q.over(r.MODEL_FALLBACKS, "from", "to").above(0)
    steps = steps.label_join("reason", " to ", "from", "to").label_replace("mechanism", "model", "", "")
    fallbacks = q.over(r.FALLBACKS, "mechanism", "reason").above(0).or_(steps.sum("mechanism", "reason"))
    board.row("",
        lines("How are calls answered?", "Every call once, by what became of it.",
            Query(fast, "fast", style.FAST),
            Query(q.now(r.CALLS, lz_ending="ok", lz_path="full"), "full", style.FULL),
            Query(q.now(r.CALLS, lz_ending=FAILED_ENDINGS), "failed", style.BAD),
            Query(q.now(r.CALLS, lz_ending=("cancelled", "abandoned")), "given up by caller", style.GIVEN_UP),
            unit="reqps", size=(8, 8), stacked=True, empty=NO_CALLS),
        sum_up("What falls back, and why?",
            'Fallbacks in the range by mechanism and reason. "model": one model stepped in for another '
            "within an operation (not filtered by provider and model).",
            {"mechanism": "mechanism", "reason": "reason"},
            Column("calls", fallbacks.topk(10), steps=((None, style.FALLBACK),), gauge=True),
            size=(8, 8), empty="nothing fell back"),
        lines("What does it cost and save?",
            "USD per hour. Overspent: paid beyond full price for cache writes. By mechanism: see Cost.",
            Query(cost, "spent", style.FULL),
            Query(HOUR * q.now(r.SAVED), "saved", style.FAST),
            Query(HOUR * overspent, "overspent", style.FALLBACK),
            unit="currencyUSD", size=(8, 8), empty="no priced calls"),
    )  # fmt: skip


def _latency(board: Board, q: OverviewQueries) -> None:
    board.row("",
        distribution("Latency: both modes",
            "Answered calls per second in each latency bucket. Two bands mean that the fast path works.",
            q.now(r.DURATION, "le"),
            empty=NO_CALLS),
        lines("p50, p95 and p99 per path",
            "Percentiles of answered calls, computed from summed buckets; darker is higher.",
            *(
                Query(q.latency(int(p[1:]) / 100, path), f"{path} {p}", style.PERCENTILES[path][p])
                for path in ("fast", "full")
                for p in ("p50", "p95", "p99")
            ),
            unit="s", size=(12, 9), log=True, empty="no calls"),
    )  # fmt: skip


def _breakdown(board: Board, q: OverviewQueries) -> None:
    model_failed = ratio(
        q.over(r.CALLS, MODEL, lz_ending=FAILED_ENDINGS), q.over(r.CALLS, MODEL, lz_ending=FINISHED_ENDINGS)
    )
    board.row("",
        sum_up("Which mechanism does what?",
            "Over the range. Hit rate: of eligible calls. Honoured: of calls that asked. Bypass counts in "
            "neither.",
            {"mechanism": "mechanism"},
            Column("hit rate", q.hits(ELIGIBLE, "mechanism"), "percentunit", decimals=1),
            Column("honoured", q.hits(ASKED, "mechanism", mechanism=Not(NO_FAMILIES)),
                "percentunit", decimals=1),
            Column("fallbacks", q.over(r.VERDICTS, "mechanism", verdict="fallback")),
            Column("saved", q.over(r.SAVED, "mechanism"), "currencyUSD", decimals=2),
            size=(10, 9), sort="saved", empty="no mechanism seen"),
        sum_up("Which model does what?",
            "Over the range, one line per requested model; latencies are p95. The name leads to Reliability "
            "& limits of that model.",
            {MODEL: "model"},
            Column("calls/s", q.over(r.CALLS, MODEL) / Expr("$__range_s"), "reqps", decimals=2),
            Column("failed", model_failed, "percentunit",
                ((None, "text"), (0.01, style.WARN), (0.05, style.BAD)), 2),
            Column("p95", q.quantile(0.95, q.over(r.DURATION, "le", MODEL), MODEL), "s"),
            Column("first token", q.quantile(0.95, q.over(r.FIRST_TOKEN, "le", MODEL), MODEL), "s"),
            Column("from cache", ratio(q.over(r.CACHE_READ, MODEL), q.over(r.INPUT, MODEL)), "percentunit",
                decimals=1),
            Column("cost", q.over(r.COST, MODEL), "currencyUSD", decimals=2),
            size=(14, 9), sort="cost", empty=NO_CALLS,
            link=("Reliability & limits of this model", MODEL_PAGE)),
    )  # fmt: skip


def _limits_and_alerts(board: Board, q: OverviewQueries) -> None:
    t = q.config.thresholds
    board.row("",
        sum_up("Least headroom",
            "Share of the rate limit that is left, for models with traffic. Idle processes are left out: "
            "what they last read is old.",
            {MODEL: "model", "resource": "limit"},
            Column("left", q.b.recorded(r.HEADROOM).min(MODEL, "resource").bottomk(8), "percentunit",
                ((None, style.BAD), (t.headroom_low, style.WARN), (0.25, style.NEUTRAL)), 0, gauge=True,
                max=1),
            size=(10, 10), empty="no limit headers seen"),
        states("What fired, and when?",
            "Alerts of this bundle over the range, to set beside the curves above.",
            Query((2 * firing("critical")).or_(firing(("warning", "info"))).max("alertname"),
                "{{alertname}}"),
            {1: ("ticket", style.WARN), 2: ("page", style.BAD)},
            size=(14, 10), empty="nothing fired in this range"),
    )  # fmt: skip
