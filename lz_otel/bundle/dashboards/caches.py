"""Prompt & response cache: does caching pay, why do calls miss, and where?"""

from __future__ import annotations

from typing import TYPE_CHECKING

from lz_otel import catalogue as c
from lz_otel.bundle._labels import MODEL, ROUTE
from lz_otel.bundle.dashboards import style
from lz_otel.bundle.dashboards.board import Board
from lz_otel.bundle.dashboards.panels import Column, Query, lines, stat, sum_up
from lz_otel.bundle.dashboards.queries import HOUR, Queries

if TYPE_CHECKING:
    from lz_otel.bundle.config import Config

NONE = "no cache in use"


def build(config: Config) -> Board:
    """Return the dashboard."""
    q = Queries(config)
    board = Board(
        "caches", "Prompt & response cache", "Does caching pay, why do calls miss, and where?", hours=6
    )
    _prompt_cache(board, q)
    _misses(board, q)
    _tokens(board, q)
    _response_cache(board, q)
    return board


def _prompt_cache(board: Board, q: Queries) -> None:
    misses = q.per_minute(c.PROMPT_CACHE_MISSES)
    reads = q.over(c.CACHE_READ_TOKENS) / q.over(c.PROMPT_CACHE_WRITE_TOKENS).above(0)
    board.row("Prompt cache",
        stat("Input tokens from cache",
            "Tokens read from the cache / all input tokens (which include them): what the bill sees.",
            Query(q.from_cache()),
            unit="percentunit", decimals=1, empty="no tokens"),
        stat("Calls that hit",
            "Of calls that could have hit. One long miss can cost more than many short hits.",
            Query(q.hit(mechanism="prompt_cache")),
            unit="percentunit", decimals=1, empty=NONE),
        stat("Reads per token written",
            "Over the range. Break-even at list price: 0.28 for writes of 5 minutes, 1.1 for 1 hour.",
            Query(reads),
            unit="none", decimals=2, steps=((None, style.BAD), (0.3, style.WARN), (1.2, style.GOOD)),
            empty="no paid writes"),
        stat("Net saving per hour", "Saved by reads, less what writes cost beyond full price.",
            Query(HOUR * q.saved(mechanism="prompt_cache")),
            unit="currencyUSD", decimals=2, steps=((None, style.BAD), (0, style.GOOD)), empty=NONE),
        stat("Misses per minute", "Calls that could have hit and did not.",
            Query(misses.or_(0 * q.per_second(c.FAST_PATH_CALLS, mechanism="prompt_cache"))),
            unit="cpm", decimals=1, empty=NONE),
        stat("Response cache hits", "Answers that a gateway gave from its own store; no model ran.",
            Query(q.hit(mechanism="response_cache")),
            unit="percentunit", decimals=1, empty="off"),
    )  # fmt: skip


def _misses(board: Board, q: Queries) -> None:
    worst = q.over(c.PROMPT_CACHE_MISSES, ROUTE, MODEL, "reason").above(0).topk(10)
    board.row("",
        lines("Why do calls miss?",
            "Misses per minute by reason, the vendor's own where it gives one. A new colour after a release "
            "names what the release broke.",
            Query(q.per_minute(c.PROMPT_CACHE_MISSES, "reason").above(0), "{{reason}}"),
            unit="cpm", size=(12, 8), stacked=True, colours=style.MISSES, empty="no misses"),
        sum_up("Where do they miss?", "The ten worst of route, model and reason over the range.",
            {ROUTE: "route", MODEL: "model", "reason": "reason"},
            Column("misses", worst, gauge=True),
            size=(12, 8), empty="no misses"),
    )  # fmt: skip


def _tokens(board: Board, q: Queries) -> None:
    tokens = style.INPUT_TOKENS
    board.row("",
        lines("Input tokens by price",
            "All input tokens once, by the second: full price, cheap reads, dear writes.",
            Query(q.full_price_input(), "full price", tokens["full"]),
            Query(q.per_second(c.CACHE_READ_TOKENS), "read from cache", tokens["read"]),
            Query(q.per_second(c.CACHE_WRITE_TOKENS), "written", tokens["written"]),
            unit="cps", size=(12, 8), stacked=True, empty="no tokens"),
        lines("Share from cache by model", "Weighted by tokens, per model; zero is drawn as zero.",
            Query(q.from_cache(MODEL), "{{gen_ai_request_model}}"),
            unit="percentunit", size=(12, 8), axis=(0, 1), interval="5m", empty="no tokens"),
    )  # fmt: skip


def _response_cache(board: Board, q: Queries) -> None:
    board.row("Response cache",
        lines("Verdicts", "What the gateway said of each call.",
            Query(q.per_second(c.FAST_PATH_CALLS, "verdict", mechanism="response_cache"), "{{verdict}}"),
            unit="reqps", size=(12, 7), stacked=True, colours=style.VERDICTS, empty="no response cache seen"),
        lines("Saved per hour", "What the stored answers would have cost again.",
            Query(q.per_hour(c.SAVED_USD, MODEL, mechanism="response_cache"), "{{gen_ai_request_model}}"),
            unit="currencyUSD", size=(12, 7), stacked=True, empty="no response cache seen"),
        collapsed=True,
    )  # fmt: skip
