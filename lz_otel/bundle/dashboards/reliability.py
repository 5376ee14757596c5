"""Reliability & limits: are users served, who refuses, how near is the limit?"""

from __future__ import annotations

from typing import TYPE_CHECKING

from lz_otel import catalogue as c
from lz_otel.bundle import recording
from lz_otel.bundle._labels import FAILED_ENDINGS, FINISHED_ENDINGS, MODEL, PROVIDER
from lz_otel.bundle.config import burn_windows
from lz_otel.bundle.dashboards import recorded as r
from lz_otel.bundle.dashboards import style
from lz_otel.bundle.dashboards.board import Board, choice
from lz_otel.bundle.dashboards.panels import Column, Query, lines, stat, sum_up
from lz_otel.bundle.dashboards.queries import NOW, RANGE, Queries
from lz_otel.bundle.promql import Not, ratio, variable

if TYPE_CHECKING:
    from lz_otel.bundle.config import Config
    from lz_otel.bundle.promql import Expr

THIRD = (8, 7)
NONE = "no calls"
# Refused for now, not broken: the rest of the statuses are failures.
REFUSALS = {"429": "yellow", "529": style.WARN, "503": "dark-orange"}
BURN_SHADES = {"5m": "#e0c0f0", "1h": "#b877d9", "6h": "#7c2ea3"}


def build(config: Config) -> Board:
    """Return the dashboard."""
    q = Queries(config)
    objectives = dict.fromkeys([f"{config.slo.objective:g}", "0.99", "0.995", "0.999"])
    board = Board(
        "reliability",
        "Reliability & limits",
        "Are users served, who refuses, how near is the limit?",
        extra=[choice("slo", "objective", *objectives)],
    )
    _service_level(board, q)
    _endings(board, q)
    _limits(board, q)
    _operations(board, q)
    _streams(board, q)
    return board


def _allowed() -> Expr:
    return 1 - variable("slo")


def _burn(q: Queries, window: str) -> Expr:
    """Return failed share / allowed share, from recorded calls: cheap over long windows, too."""

    def over(endings: tuple[str, ...]) -> Expr:
        return q.b.recorded(r.CALLS, lz_ending=endings).over_time("avg_over_time", window).sum()

    return ratio(over(FAILED_ENDINGS), over(FINISHED_ENDINGS)).op("/", _allowed())


def _service_level(board: Board, q: Queries) -> None:
    t, config = q.config.thresholds, q.config
    period = config.slo.period
    good = q.b.recorded(recording.GOOD).over_time("avg_over_time", period).sum()
    finished = q.b.recorded(recording.CALLS).over_time("avg_over_time", period).sum()
    refused = ratio(q.per_second(c.ATTEMPTS, status="429"), q.per_second(c.ATTEMPTS))
    tries = q.per_second(c.ATTEMPTS, gen_ai_operation_name=Not("embeddings")) / q.calls().above(0)
    factors = sorted({w.factor for w in burn_windows(config.slo)})
    board.row("Service level",
        stat(f"Error budget left, {period}",
            "Share of the allowed failures still unspent. Follows the job filter only. Negative: spent.",
            Query(1 - (1 - good / finished.above(0)) / _allowed()),
            unit="percentunit", decimals=0, steps=((None, style.BAD), (0, style.WARN), (0.25, style.GOOD)),
            empty="recording rules not loaded"),
        stat("Budget burn, last hour",
            f"1 uses the budget up in exactly {period}; {max(factors):g} raises a page.",
            Query(_burn(q, "1h")),
            unit="none", decimals=1, steps=style.rising(1, max(factors)),
            empty="no calls, or the recording rules are not loaded"),
        stat("Calls in flight", "Begun and not ended.",
            Query(q.b.gauge(c.CALL_ACTIVE).sum()),
            unit="short", decimals=0, empty="idle"),
        stat("Attempts per call", "1 means no retries.",
            Query(tries),
            unit="none", decimals=2, steps=style.rising(1.2, t.attempts_per_call), empty=NONE),
        stat("Rate limited", "Attempts answered 429 / all attempts.",
            Query(refused),
            unit="percentunit", decimals=2, steps=style.rising(0.01, t.rate_limited), empty=NONE),
        stat("Least headroom", "The tightest limit among models with traffic.",
            Query(q.headroom().min()),
            unit="percentunit", decimals=0, empty="no limit headers",
            steps=((None, style.BAD), (t.headroom_low, style.WARN), (0.25, style.GOOD))),
    )  # fmt: skip
    board.row("",
        lines("How fast is the budget burning?",
            "Failed share / allowed share over three windows; a page when 5m and 1h are both above the "
            "highest line.",
            *(Query(_burn(q, w).clamp_min(0.01), w, colour) for w, colour in BURN_SHADES.items()),
            unit="none", size=(12, 7), log=True, limits=style.target_line(*factors), empty=NONE),
        lines("Which errors?",
            "Failed calls by the provider's own error type, also from inside a 200 stream.",
            Query(q.calls("error_type", lz_ending=FAILED_ENDINGS, error_type=Not("")).topk(8),
                "{{error_type}}"),
            unit="reqps", size=(12, 7), stacked=True, shades=style.BAD, empty="no errors"),
    )  # fmt: skip


def _endings(board: Board, q: Queries) -> None:
    board.row("",
        lines("How do calls end?", "Incomplete: the stream stopped without its last event.",
            Query(q.calls("lz_ending"), "{{lz_ending}}"),
            unit="reqps", size=THIRD, stacked=True, colours=style.ENDINGS, empty=NONE),
        lines("Attempts by status", "HTTP attempts that were not 200, by status or transport error.",
            Query(q.per_second(c.ATTEMPTS, "status", status=Not("200")).above(0), "{{status}}"),
            unit="reqps", size=THIRD, stacked=True, shades=style.BAD, colours=REFUSALS,
            empty="every attempt was 200"),
        lines("Why are calls tried again?", "Retries per minute by the status of the attempt before.",
            Query(q.per_minute(c.CALL_RETRIES, "reason").above(0), "{{reason}}"),
            unit="cpm", size=THIRD, stacked=True, shades=style.BAD, colours=REFUSALS, empty="no retries"),
    )  # fmt: skip


def _limits(board: Board, q: Queries) -> None:
    t = q.config.thresholds
    by = (PROVIDER, MODEL, "resource")
    names = {PROVIDER: "provider", MODEL: "model", "resource": "limit on"}
    board.row("Limits",
        lines("Headroom by provider",
            "The tightest limit of each provider, as last seen, only while there is traffic; the table names "
            "it.",
            Query(q.headroom().min(PROVIDER), "{{gen_ai_provider_name}}"),
            unit="percentunit", size=(10, 8), axis=(0, 1), limits=style.target_line(t.headroom_low, 0.25),
            empty="no limit headers seen"),
        sum_up("Where are the limits?", "Per provider, model and resource, now.",
            names,
            Column("left", q.headroom().min(*by), "percentunit",
                ((None, style.BAD), (t.headroom_low, style.WARN), (0.25, style.NEUTRAL)), 0, gauge=True,
                max=1),
            Column("limit", q.b.gauge(c.RATE_LIMIT_LIMIT).max(*by), decimals=1),
            Column("refilled in", q.b.gauge(c.RATE_LIMIT_RESET).max(*by), "s", decimals=0),
            size=(14, 8), sort="limit", empty="no limit headers seen"),
    )  # fmt: skip


def _operations(board: Board, q: Queries) -> None:
    empty = "no operations declared"
    ends = q.b.count(c.OPERATION_DURATION).rate(NOW).sum("outcome")
    board.row("Operations and fallbacks between models",
        lines("How do operations end?", "What the application wanted, one per operation.",
            Query(ends, "{{outcome}}"),
            unit="ops", size=(7, 7), stacked=True, colours=style.OUTCOMES, empty=empty),
        sum_up("Which model steps in for which?", "Within one operation, over the range, and why.",
            {"from": "from", "to": "to", "reason": "reason"},
            Column("fallbacks", q.over(c.OPERATION_FALLBACKS, "from", "to", "reason").above(0), gauge=True,
                steps=((None, style.FALLBACK),)),
            size=(10, 7), empty="no model stepped in"),
        lines("What does a fallback cost in time?", "p95 of whole operations per outcome.",
            Query(q.b.quantile(0.95, c.OPERATION_DURATION, NOW, ("outcome",)), "{{outcome}}"),
            unit="s", size=(7, 7), log=True, colours=style.OUTCOMES, interval="5m", empty=empty),
        collapsed=True,
    )  # fmt: skip


def _streams(board: Board, q: Queries) -> None:
    t = q.config.thresholds
    given_up = q.calls("lz_ending", lz_stream="true", lz_ending=("incomplete", "abandoned", "cancelled")).op(
        "/", q.calls(lz_stream="true").above(0), ignoring=("lz_ending",), group_left=()
    )

    def first(path: str, p: str) -> Query:
        expr = q.recorded_quantile(int(p[1:]) / 100, r.FIRST_TOKEN, lz_path=path)
        return Query(expr, f"{path} {p}", style.PERCENTILES[path][p])

    full = {"lz_ending": "ok", "lz_path": "full"}
    answered = q.calls_over(PROVIDER, lz_ending="ok").above(0)
    board.row("Streams and providers",
        lines("First token", "Call start to the first content, per path.",
            *(first(path, p) for path in ("fast", "full") for p in ("p50", "p95")),
            unit="s", size=THIRD, log=True, limits=style.target_line(t.first_token_p95_seconds),
            empty="no streams"),
        lines("Output tokens per second", "Median speed of one call after its first token, full path.",
            Query(q.b.quantile(0.5, c.OUTPUT_RATE, NOW, (MODEL,), lz_path="full"),
                "{{gen_ai_request_model}}"),
            unit="cps", size=THIRD, empty="no streams"),
        lines("Broken or abandoned streams", "Share of streams. Users who wait too long abandon.",
            Query(given_up, "{{lz_ending}}"),
            unit="percentunit", size=THIRD, colours=style.ENDINGS, limits=style.target_line(t.broken_streams),
            interval="5m", empty="every stream was read to its end"),
        sum_up("Which provider does best?",
            "Over the range; latencies of the full path only, so that the mixture of paths does not decide. "
            "Filter to one route to compare like with like.",
            {PROVIDER: "provider"},
            Column("calls/s", q.calls(PROVIDER, window=RANGE), "reqps", decimals=2),
            Column("answered", 1 - q.failed(PROVIDER, window=RANGE), "percentunit",
                ((None, style.BAD), (0.95, style.WARN), (0.99, style.GOOD)), 2),
            Column("p50", q.b.quantile(0.5, c.INFERENCE_DURATION, RANGE, (PROVIDER,), **full), "s"),
            Column("p95", q.b.quantile(0.95, c.INFERENCE_DURATION, RANGE, (PROVIDER,), **full), "s"),
            Column("first token p95",
                q.b.quantile(0.95, c.TIME_TO_FIRST_TOKEN, RANGE, (PROVIDER,), lz_path="full"), "s"),
            Column("per 1000 calls", 1000 * q.over(c.COST_USD, PROVIDER) / answered, "currencyUSD",
                decimals=2),
            size=(24, 6), empty=NONE),
        collapsed=True,
    )  # fmt: skip
