"""Cost: who spends what on which tokens, is it worth it, and can the figures be trusted?"""

from __future__ import annotations

from typing import TYPE_CHECKING

from lz_otel import catalogue as c
from lz_otel.bundle import recording
from lz_otel.bundle._labels import MODEL, ROUTE
from lz_otel.bundle.dashboards import style
from lz_otel.bundle.dashboards.board import Board, text_box
from lz_otel.bundle.dashboards.panels import Column, Query, lines, stat, sum_up
from lz_otel.bundle.dashboards.queries import HOUR, Queries
from lz_otel.bundle.promql import variable

if TYPE_CHECKING:
    from lz_otel.bundle.config import Config

NONE = "no priced calls"


def build(config: Config) -> Board:
    """Return the dashboard."""
    q = Queries(config)
    board = Board(
        "cost",
        "Cost",
        "Who spends what on which tokens, is it worth it, and can the figures be trusted? All by list price.",
        hours=24,
        extra=[text_box("budget", "budget, USD a day", f"{config.budget_usd_per_day or 100:g}")],
    )
    _totals(board, q)
    _spenders(board, q)
    _token_kinds(board, q)
    _savings(board, q)
    return board


def _totals(board: Board, q: Queries) -> None:
    t = q.config.thresholds
    spent, answered = q.over(c.COST_USD), q.calls_over(lz_ending="ok")
    uncounted = q.over(c.COST_UNPRICED).or_zero() + q.over(c.USAGE_MISSING_CALLS).or_zero()
    board.row("How much?",
        stat("Spent", "In the selected range, by list price.",
            Query(spent),
            unit="currencyUSD", decimals=2, empty=NONE),
        stat("Saved", "Against full price, less what cache writes cost beyond it.",
            Query(q.saved_over()),
            unit="currencyUSD", decimals=2, steps=((None, style.BAD), (0, style.GOOD)),
            empty="nothing saved"),
        stat("At this pace, 30 days", "The last 24 hours, 30 times: a pace, not a forecast.",
            Query(30 * q.over(c.COST_USD, window="24h")),
            unit="currencyUSD", decimals=0, empty=NONE),
        stat("Daily budget used", "Last 24 hours / the budget typed in above (USD a day).",
            Query(q.over(c.COST_USD, window="24h") / variable("budget")),
            unit="percentunit", decimals=0, steps=style.rising(t.budget_early, 1), empty=NONE),
        stat("Per 1000 answered calls", "Money for failed and repeated calls is in it.",
            Query(1000 * spent / answered.above(0)),
            unit="currencyUSD", decimals=2, empty="no calls"),
        stat("Calls without a price or usage",
            "Above zero, every figure on this page is too low by about this share.",
            Query(uncounted / q.calls_over().above(0)),
            unit="percentunit", decimals=2, steps=style.rising(0.01, t.cost_incomplete), empty="no calls"),
    )  # fmt: skip


def _spenders(board: Board, q: Queries) -> None:
    by_route = q.over(c.COST_USD, ROUTE)
    operations = q.b.count(c.OPERATION_DURATION, outcome=("fast", "full", "fallback"))
    good = operations.increase("$__range").sum(ROUTE)
    board.row("Who and what?",
        lines("Spend per hour by model", "USD per hour; the eight dearest models.",
            Query(q.per_hour(c.COST_USD, MODEL).topk(8), "{{gen_ai_request_model}}"),
            unit="currencyUSD", size=(12, 8), stacked=True, empty=NONE),
        lines("Spend per hour by route", "A route is the name of an operation; calls outside one have none.",
            Query(q.per_hour(c.COST_USD, ROUTE).label_replace(ROUTE, "(no operation)", ROUTE, "").topk(8),
                "{{lz_route}}"),
            unit="currencyUSD", size=(12, 8), stacked=True, empty=NONE),
        sum_up("Which routes earn their money?",
            "Over the range. A good operation had any outcome but error. An empty route: calls outside an "
            "operation.",
            {ROUTE: "route"},
            Column("spent", by_route, "currencyUSD", decimals=2),
            Column("saved", q.over(c.SAVED_USD, ROUTE), "currencyUSD", decimals=2),
            Column("calls", q.calls_over(ROUTE), decimals=1),
            Column("per 1000 calls", 1000 * by_route / q.calls_over(ROUTE, lz_ending="ok").above(0),
                "currencyUSD", decimals=2),
            Column("per 1000 good operations", 1000 * by_route / good.above(0), "currencyUSD", decimals=2),
            size=(24, 7), empty=NONE),
    )  # fmt: skip


def _token_kinds(board: Board, q: Queries) -> None:
    tokens, output = style.INPUT_TOKENS, style.OUTPUT_TOKENS
    reasoning = q.per_second(c.REASONING_TOKENS)
    board.row("Which tokens?",
        lines("Tokens per second by kind", "Each token once; the kinds differ in price by up to fifty times.",
            Query(q.full_price_input(), "input, full price", tokens["full"]),
            Query(q.per_second(c.CACHE_READ_TOKENS), "input, from cache", tokens["read"]),
            Query(q.per_second(c.CACHE_WRITE_TOKENS), "input, written", tokens["written"]),
            Query((q.per_second(c.OUTPUT_TOKENS) - reasoning.or_zero()).clamp_min(0), "output, visible",
                output["visible"]),
            Query(reasoning, "output, reasoning", output["reasoning"]),
            unit="cps", size=(12, 8), stacked=True, empty="no tokens"),
        lines("Cost of 1000 output tokens", "All money / output tokens: compares models for the same work.",
            Query(1000 * q.per_second(c.COST_USD, MODEL) / q.per_second(c.OUTPUT_TOKENS, MODEL).above(0),
                "{{gen_ai_request_model}}"),
            unit="currencyUSD", size=(12, 8), interval="5m", empty="no output tokens"),
    )  # fmt: skip


def _savings(board: Board, q: Queries) -> None:
    hour = q.b.recorded(recording.COST_1H)
    board.row("Savings and trust",
        lines("Saved by mechanism", "USD per hour at list price; overspent (cache writes) below zero.",
            Query(q.per_hour(c.SAVED_USD, "mechanism").above(0), "{{mechanism}}"),
            Query(-HOUR * q.per_second(c.OVERSPENT_USD, "mechanism").above(0), "{{mechanism}}, overspent",
                style.FALLBACK),
            unit="currencyUSD", size=(8, 7), axis=(None, None), colours=style.MECHANISMS,
            empty="nothing saved"),
        lines("Dearest hour of the week?", "The cost alert compares these two. Follows the job filter only.",
            Query(hour.sum("job"), "{{job}}, this hour"),
            Query(hour.over_time("max_over_time", "7d", "1h").max("job"), "{{job}}, dearest of 7 days"),
            unit="currencyUSD", size=(8, 7), patterns={**style.OPEN_HUES, "dearest": style.QUIET},
            empty="recording rules not loaded"),
        lines("Calls not counted, by reason", "Why the money figures are too low, if they are.",
            Query(q.per_minute(c.USAGE_MISSING_CALLS, "reason").above(0), "no usage: {{reason}}"),
            Query(q.per_minute(c.COST_UNPRICED, MODEL, "part").above(0),
                "no price: {{gen_ai_request_model}}, {{part}}"),
            unit="cpm", size=(8, 7), stacked=True, interval="1m", empty="every call was counted"),
    )  # fmt: skip
