"""lz-otel itself: can the other six dashboards be trusted?"""

from __future__ import annotations

from typing import TYPE_CHECKING

from lz_otel import catalogue as c
from lz_otel.bundle._labels import MODEL
from lz_otel.bundle.dashboards import style
from lz_otel.bundle.dashboards.board import Board
from lz_otel.bundle.dashboards.panels import Column, Query, distribution, lines, stat, sum_up
from lz_otel.bundle.dashboards.queries import NOW, Queries
from lz_otel.bundle.promql import Var

if TYPE_CHECKING:
    from lz_otel.bundle.config import Config

QUARTER = (6, 7)
NOTHING = "nothing reports"


def build(config: Config) -> Board:
    """Return the dashboard."""
    q = Queries(config, {"job": Var("job"), "instance": Var("instance")})
    board = Board(
        "internals", "lz-otel itself", "Can the other dashboards be trusted?", variables=("job", "instance")
    )
    _health(board, q)
    _overhead(board, q)
    _faults(board, q)
    _cardinality(board, q)
    return board


def _health(board: Board, q: Queries) -> None:
    t = q.config.thresholds
    up = q.b.gauge(c.BUILD_INFO)
    models = q.b.gauge(c.CALL_ACTIVE).count(MODEL).count()
    cap = c.REQUEST_MODEL.cap
    board.row("Can the other dashboards be trusted?",
        stat("Processes reporting", "Processes with lz_otel that are scraped, or push, now.",
            Query(up.count()),
            unit="short", decimals=0, empty=NOTHING),
        stat("Internal errors", "Faults of lz_otel in the range; the application never sees them.",
            Query(q.over(c.INTERNAL_ERRORS).or_(0 * up.count())),
            unit="short", decimals=0, steps=((None, style.GOOD), (1, style.BAD)), empty=NOTHING),
        stat("Overhead per call", "Time inside lz_otel per call, sampled.",
            Query(q.b.quantile(0.5, c.INTERNAL_OVERHEAD, NOW), "p50", style.FULL),
            Query(q.b.quantile(0.99, c.INTERNAL_OVERHEAD, NOW), "p99",
                steps=style.rising(t.overhead_p99_seconds * 0.4, t.overhead_p99_seconds)),
            unit="s", empty="no sample"),
        stat("Unreadable signals", "Signals that could not be read / calls, over the range.",
            Query(q.over(c.MALFORMED).or_zero() / q.calls_over().above(0)),
            unit="percentunit", decimals=3, steps=style.rising(t.malformed * 0.1, t.malformed),
            empty="no calls"),
        stat("Label sets over the limit",
            "Label sets beyond a metric's limit in the range, counted into one of 'other': sums stay right, "
            "splits do not.",
            Query(q.over(c.INTERNAL_OVERFLOW).or_(0 * up.count())),
            unit="short", decimals=0, steps=((None, style.GOOD), (1, style.BAD)), empty=NOTHING),
        stat(f"Models, of {cap}",
            f"Distinct requested models; beyond {cap} per process they are called other.",
            Query(models),
            unit="short", decimals=0, steps=style.rising(cap * 0.8, cap), empty="no calls"),
    )  # fmt: skip


def _overhead(board: Board, q: Queries) -> None:
    overhead, call = q.b.mean(c.INTERNAL_OVERHEAD, NOW), q.b.mean(c.INFERENCE_DURATION, NOW)
    board.row("",
        distribution("Overhead", "Sampled calls per second in each bucket.",
            q.b.bucket(c.INTERNAL_OVERHEAD).rate(NOW).sum("le"),
            size=(12, 8), empty="no sample"),
        lines("Overhead against call time",
            "Mean overhead / mean call, each from its own count, since overhead is sampled.",
            Query(overhead / call, "share", style.FULL),
            unit="percentunit", size=(12, 8), decimals=4, empty="no sample"),
    )  # fmt: skip


def _faults(board: Board, q: Queries) -> None:
    missing = q.per_second(c.USAGE_MISSING_CALLS, "reason").op(
        "/", q.calls().above(0), ignoring=("reason",), group_left=()
    )
    board.row("",
        lines("Internal errors by place", "Which part of lz_otel failed, per minute.",
            Query(q.per_minute(c.INTERNAL_ERRORS, "where").above(0), "{{where}}"),
            unit="cpm", size=QUARTER, stacked=True, shades=style.BAD, empty="no errors"),
        lines("Lost, by place", "Calls, audit entries and spans that could not be kept, per minute.",
            Query(q.per_minute(c.INTERNAL_LOST, "what").above(0), "{{what}}"),
            unit="cpm", size=QUARTER, stacked=True, shades=style.BAD, empty="nothing was lost"),
        lines("Unreadable signals",
            "Per minute, by signal; a jump after a vendor's change means a new format.",
            Query(q.per_minute(c.MALFORMED, "signal").above(0), "{{signal}}"),
            unit="cpm", size=QUARTER, stacked=True, empty="all signals were readable"),
        lines("Calls without usage", "Share of calls whose usage the provider never said, by reason.",
            Query(missing.above(0), "{{reason}}"),
            unit="percentunit", size=QUARTER, stacked=True, interval="5m", empty="all calls had usage"),
    )  # fmt: skip


def _cardinality(board: Board, q: Queries) -> None:
    every = q.b.every_series()
    board.row("Cardinality (an expensive query)",
        sum_up("Largest metrics", "Series per metric, for the storage bill.",
            {"__name__": "metric"},
            Column("series", every.count("__name__").topk(15), gauge=True),
            size=(24, 10), empty=NOTHING),
        collapsed=True,
    )  # fmt: skip
