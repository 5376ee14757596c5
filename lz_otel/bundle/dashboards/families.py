"""Layer Zero families: what each mechanism of the articles does, and whether it is in its healthy range."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lz_otel import catalogue as c
from lz_otel.bundle._labels import ASKED, FAMILIES, MODEL, ROUTE
from lz_otel.bundle.dashboards import recorded as r
from lz_otel.bundle.dashboards import style
from lz_otel.bundle.dashboards.board import Board, label_values
from lz_otel.bundle.dashboards.panels import Query, Tile, lines
from lz_otel.bundle.dashboards.queries import NOW, Queries
from lz_otel.bundle.promql import (
    VENDOR_CACHE_HIT_RATE,
    VENDOR_DECOMPRESSION_P95,
    VENDOR_SLICE_EFFICIENCY,
    Builder,
    Regex,
    Var,
    ratio,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

    from lz_otel.bundle.config import Config

THIRD, QUARTER, LOW = (8, 7), (6, 7), (8, 6)
OFF = "not seen"


def build(config: Config) -> Board:
    """Return the dashboard."""
    t = config.thresholds
    q = Queries(config)
    chosen, one = Var("mechanism"), Var("mechanism", exact=True)
    job = Builder({"job": Var("job")})
    board = Board(
        "families",
        "Layer Zero families",
        (
            "What each family does, and whether it is in its healthy range. Rows of families that are off "
            "stay empty."
        ),
        extra=[
            label_values(
                "mechanism",
                "mechanism",
                job.counter(c.FAST_PATH_CALLS).text,
                title="family",
                everything="|".join(FAMILIES),
                regex=f"/^({'|'.join(FAMILIES)})$/",
            )
        ],
    )
    board.row("All families that are on",
        lines("Hit rate of eligible calls",
            "Hits / (hits + misses + fallbacks); what opted out is left out. The line is the alert of "
            "symbolic.",
            Query(q.hit("mechanism", mechanism=chosen), "{{mechanism}}"),
            unit="percentunit", size=THIRD, axis=(0, 1), limits=style.target_line(t.hit_rate_low),
            interval="5m", colours=style.of(style.MECHANISMS, FAMILIES),
            empty="no family seen in this range"),
        lines("Of those that asked, how many got it?",
            "Hits / (hits + fallbacks): is the request honoured? Misses did not ask.",
            Query(q.got("mechanism", mechanism=chosen), "{{mechanism}}"),
            unit="percentunit", size=THIRD, axis=(0, 1),
            limits=style.target_line(1 - t.zeroing_fallback_high), interval="5m",
            colours=style.of(style.MECHANISMS, FAMILIES), empty="no family seen in this range"),
        lines("Fallbacks per minute by reason",
            "A closed list of reasons; those that do not occur are left out.",
            Query(q.per_minute(c.FAST_PATH_FALLBACKS, "mechanism", "reason", mechanism=chosen).above(0),
                "{{mechanism}}: {{reason}}"),
            unit="cpm", size=THIRD, stacked=True, limits=style.target_line(t.fallbacks_per_minute),
            patterns={f"^{name}:": style.MECHANISMS[name] for name in FAMILIES}, empty="nothing fell back"),
    )  # fmt: skip
    board.row("$mechanism",
        lines("Verdicts", "One verdict per call on which this mechanism had something to say.",
            Query(q.per_second(c.FAST_PATH_CALLS, "verdict", mechanism=one), "{{verdict}}"),
            unit="reqps", size=LOW, stacked=True, colours=style.VERDICTS, empty="no verdicts"),
        lines("Hit rate by route", "The six best routes; use the route filter for others.",
            Query(q.hit(ROUTE, mechanism=one).topk(6), "{{lz_route}}"),
            unit="percentunit", size=LOW, axis=(0, 1), interval="5m", empty="no verdicts"),
        lines("Saved per hour by model",
            "What this mechanism saves at list price. Empty: it saves time, or its price is not known.",
            Query(q.per_hour(c.SAVED_USD, MODEL, mechanism=one).above(0), "{{gen_ai_request_model}}"),
            unit="currencyUSD", size=LOW, stacked=True, empty="saves no money by itself"), repeat="mechanism",
    )  # fmt: skip
    for title, tiles in _details(q):
        board.row(title, *tiles, collapsed=True)
    return board


def _details(q: Queries) -> Iterator[tuple[str, list[Tile]]]:
    """Yield title and panels of each family's row."""
    yield "symbolic (000): details", _symbolic(q)
    yield "pruning (001): details", _pruning(q)
    yield "intent (002): details", _intent(q)
    yield "zeroing (003): details", _zeroing(q)
    yield "scheduling (004): details", _scheduling(q)


def _symbolic(q: Queries) -> list[Tile]:
    t = q.config.thresholds
    empty = f"symbolic {OFF}"

    def engine(p: float, cold: str) -> Query:
        shades = style.PERCENTILES["fast"]
        colour = style.WARN if cold == "true" else shades[f"p{round(p * 100)}"]
        word = "cold" if cold == "true" else "warm"
        expr = q.b.quantile(p, c.ENGINE_DURATION, NOW, mechanism="symbolic", cold=cold)
        return Query(expr, f"{word} p{round(p * 100)}", colour)

    return [
        lines("Inside the expected band?",
            f"Article 000 expects {t.hit_rate_band_low:.1%} to {t.hit_rate_band_high:.1%}; under "
            f"{t.hit_rate_low:.0%} an alert fires.",
            Query(q.hit(mechanism="symbolic"), "hit rate", style.FAST),
            unit="percentunit", size=THIRD, axis=(0, 1), empty=empty,
            limits=style.target_line(t.hit_rate_low, t.hit_rate_band_low, t.hit_rate_band_high)),
        lines("Time in the engine",
            "What the engine itself reports (000): warm 19 to 23 ms, cold about 120 ms more.",
            engine(0.5, "false"),
            engine(0.95, "false"),
            engine(0.5, "true"),
            unit="s", size=THIRD, interval="5m", limits=style.target_line(t.engine_p95_seconds), empty=empty),
        lines("Evidence per minute",
            "Signals seen, of hits and others. A contradiction says hit, and bills output all the same.",
            Query(q.per_minute(c.SYMBOLIC_EVIDENCE, "signal"), "{{signal}}"),
            unit="cpm", size=THIRD, empty=empty,
            colours={"header": style.FAST, "zero_output": style.FULL, "input_match": "purple",
                "contradiction": style.BAD})]  # fmt: skip


def _pruning(q: Queries) -> list[Tile]:
    t, config = q.config.thresholds, q.config
    pruned = q.per_second(c.PRUNED_TOKENS, "lz_group") / q.per_second(c.ORIGINAL_TOKENS, "lz_group").above(0)
    against = q.quality(lz_group=config.pruned_group).op("/", q.quality(lz_group=config.control_group))
    return [
        lines("Tokens pruned",
            f"Pruned / original tokens by group, beside the prune_ratio asked for; {t.pruned_share_low:.0%} "
            f"to {t.pruned_share_high:.0%} is healthy (001).",
            Query(pruned, "{{lz_group}}"),
            Query(q.b.quantile(0.5, c.REQUESTED_RATIO, NOW), "asked for, p50", style.GIVEN_UP),
            unit="percentunit", size=THIRD, limits=style.target_line(t.pruned_share_low, t.pruned_share_high),
            empty=f"pruning {OFF}"),
        lines("Effectiveness",
            f"Mean quality of the group {config.pruned_group} / that of {config.control_group}. Below "
            f"{t.effectiveness_tune:g}: tune. Below {t.effectiveness_low:g} for 5 minutes: an alert (001).",
            Query(against, "pruned / control", style.FULL),
            unit="none", size=THIRD, axis=(0.94, 1.02), decimals=3,
            limits=style.target_line(t.effectiveness_low, t.effectiveness_tune), empty="no quality reported"),
        lines("Context preservation", "Absent or zero: no <context> tag is in use.",
            Query(q.b.quantile(0.95, c.CONTEXT_PRESERVATION, NOW), "p95", style.FULL),
            unit="s", size=THIRD, interval="5m", empty="no <context> tag in use")]  # fmt: skip


def _intent(q: Queries) -> list[Tile]:
    t = q.config.thresholds
    shades = style.PERCENTILES["fast"]

    def same(intent: str) -> Query:
        part = q.per_second(c.INTENT_REPEATS, window="1h", intent=intent, result="same")
        whole = q.per_second(c.INTENT_REPEATS, window="1h", intent=intent)
        return Query(
            ratio(part, whole), "deterministic" if intent == "deterministic" else "creative, same answer"
        )

    def first(p: float) -> Query:
        expr = q.recorded_quantile(p, r.FIRST_TOKEN, lz_path="fast")
        return Query(expr, f"p{round(p * 100)}", shades[f"p{round(p * 100)}"])

    upper = q.recorded_quantile(0.8413, r.FIRST_TOKEN, lz_path="fast")
    lower = q.recorded_quantile(0.1587, r.FIRST_TOKEN, lz_path="fast")
    share = q.per_second(c.INTENT_CALLS, "intent").op(
        "/", q.per_second(c.INTENT_CALLS).above(0), ignoring=("intent",), group_left=()
    )
    changed = ratio(
        q.per_second(c.INTENT_TRANSITIONS, window="1h", changed="true"),
        q.per_second(c.INTENT_TRANSITIONS, window="1h"),
    )
    return [
        lines("Share of each intent", "A jump of creative is load to come (002).",
            Query(share.above(0), "{{intent}}"),
            unit="percentunit", size=QUARTER, stacked=True, axis=(0, 1), empty=f"intent {OFF}",
            colours={"deterministic": "blue", "creative": "purple", "balanced": "#37c8c3",
                "other": style.GIVEN_UP}),
        lines("Same answer to the same question?",
            f"Share of repeated deterministic requests with the same output: {t.consistency_expected:.2%} "
            f"expected, an alert below {t.consistency_low:.1%} (002).",
            same("deterministic")._replace(colour=style.FULL),
            unit="percentunit", size=QUARTER, axis=(0.99, 1), decimals=2,
            limits=style.target_line(t.consistency_low), empty="no repeated request"),
        lines("Creative repeats, changes of intent",
            f"Creative answers should repeat in at most {t.creative_same_high:.0%}. Changes are of "
            "consecutive calls of a session.",
            same("creative")._replace(colour="purple"),
            Query(changed, "intent changed in session", style.GIVEN_UP),
            unit="percentunit", size=QUARTER, limits=style.target_line(t.creative_same_high),
            empty="no repeats, no sessions"),
        lines("First token on the fast path",
            "A classic histogram has no standard deviation; half of p84 - p16 stands in for it.",
            first(0.5),
            first(0.95),
            Query((upper - lower) / 2, "spread (about 1 sd)", style.GIVEN_UP),
            unit="s", size=QUARTER, empty="no streams")]  # fmt: skip


def _zeroing(q: Queries) -> list[Tile]:
    t = q.config.thresholds
    empty = f"zeroing {OFF}"
    shades = style.PERCENTILES["full"]
    fallbacks = ratio(
        q.per_second(c.FAST_PATH_CALLS, mechanism="zeroing", verdict="fallback"),
        q.per_second(c.FAST_PATH_CALLS, mechanism="zeroing", verdict=ASKED),
    )
    switches = q.per_second(c.MASK_SWITCHES) / q.per_second(c.MASK_EVENTS).above(0)
    layers = q.per_second(c.ZEROING_LAYERS, state="zeroed") / q.per_second(
        c.ZEROING_LAYERS, state="all"
    ).above(0)
    return [
        lines("Share of parameters zeroed",
            f"{t.params_ratio_healthy_low:g} to {t.params_ratio_healthy_high:g} is healthy, under "
            f"{t.params_ratio_low:g} timid, over {t.params_ratio_high:g} too much (003).",
            Query(q.b.mean(c.ZEROING_PARAMS_RATIO, NOW), "mean", shades["p95"]),
            Query(q.b.quantile(0.1, c.ZEROING_PARAMS_RATIO, NOW), "p10", shades["p50"]),
            Query(q.b.quantile(0.9, c.ZEROING_PARAMS_RATIO, NOW), "p90", shades["p99"]),
            unit="percentunit", size=QUARTER, axis=(0, 1), empty=empty,
            limits=style.target_line(t.params_ratio_low, t.params_ratio_healthy_low,
                t.params_ratio_healthy_high, t.params_ratio_high)),
        lines("Zeroing fallback rate",
            f"Over {t.zeroing_fallback_high:.0%} for 5 minutes: raise zeroing_threshold by "
            f"{t.zeroing_step:.0%} (003).",
            Query(fallbacks, "fallback", style.FALLBACK),
            unit="percentunit", size=QUARTER, limits=style.target_line(t.zeroing_fallback_high),
            interval="5m", empty=empty),
        lines("Mask switches per event", "Near zero with many events: the routing is stuck.",
            Query(switches, "switches", style.FULL),
            unit="none", size=QUARTER, empty="no masks seen"),
        lines("Routing confidence and layers", "Confidence of the router, and the share of layers zeroed.",
            Query(q.b.quantile(0.5, c.ZEROING_CONFIDENCE, NOW), "confidence p50", style.FULL),
            Query(layers, "layers zeroed", "purple"),
            unit="percentunit", size=QUARTER, axis=(0, 1), empty=empty)]  # fmt: skip


def _scheduling(q: Queries) -> list[Tile]:
    t = q.config.thresholds
    vendor = Builder()
    empty = "vendor endpoint not scraped"
    return [
        lines("Sharing and anchors",
            f"Gauges of the vendor endpoint (004): shared above {t.vendor_cache_hit_low:.0%}, anchors above "
            f"{t.anchor_efficiency_low:.0%}. Not filtered: the endpoint is scraped as a job of its own; "
            "beside it the share that each service saw itself.",
            Query(vendor.gauge(VENDOR_CACHE_HIT_RATE, layer="zero").min("job"), "shared, {{job}}"),
            Query(vendor.gauge(VENDOR_SLICE_EFFICIENCY, block_type="anchor").min("block_type"),
                "anchor block efficiency", "purple"),
            unit="percentunit", size=THIRD, axis=(0, 1), patterns={"^shared": style.FULL}, empty=empty,
            limits=style.target_line(t.vendor_cache_hit_low, t.anchor_efficiency_low)),
        lines("Decompression p95 (vendor)", "The worst of the instances; a p95 cannot be averaged.",
            Query(vendor.gauge(VENDOR_DECOMPRESSION_P95, precision=Regex(".+")).max("precision"),
                "{{precision}}"),
            unit="ms", size=THIRD, limits=style.target_line(t.decompression_p95_ms), empty=empty),
        lines("Risk of sharing",
            "Estimates per minute: near-equal prompts, and entities of another request in an answer.",
            Query(q.per_minute(c.SIMILAR_CALLS), "similar calls", style.FULL),
            Query(q.per_minute(c.GHOST_ENTITIES), "ghost entities", style.BAD),
            unit="cpm", size=THIRD, interval="5m", empty=f"scheduling {OFF}")]  # fmt: skip
