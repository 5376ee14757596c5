"""Alerts on zeroing: the article's thresholds and advice (003)."""

from __future__ import annotations

from lz_otel import catalogue as c
from lz_otel.bundle._alert import Alert, AlertCondition, Kit, layer_gone, percent, plain
from lz_otel.bundle._labels import ASKED, MODEL, ROUTE
from lz_otel.bundle.promql import ratio


def _zeroing_fallbacks(kit: Kit) -> Alert:
    fallback = kit.b.counter(c.FAST_PATH_CALLS, mechanism="zeroing", verdict="fallback")
    asked = kit.b.counter(c.FAST_PATH_CALLS, mechanism="zeroing", verdict=ASKED)
    share = ratio(kit.rate(fallback, "5m"), kit.rate(asked, "5m"))
    many = kit.grown(fallback, "5m").above(kit.g.zeroing_fallbacks)
    expr = kit.guarded(share.above(kit.t.zeroing_fallback_high), many)
    return Alert(
        name="LLMZeroingFallbackHigh", kind="cause", dashboard="families", source="A: 003",
        summary="Zeroing is given up for too many calls.",
        description="{{ $value | humanizePercentage }} of the zeroed calls of {{ $labels.job }} fell back "
        f"over 5 minutes (threshold: {percent(kit.t.zeroing_fallback_high)}). Raise zeroing_threshold by "
        f"{percent(kit.t.zeroing_step)}.",
        conditions=(AlertCondition("warning", expr, "10m", "10m", labels=(("mechanism", "zeroing"),)),),
        meaning="The report of the provider says `fallback_triggered`, or a call that asked for zeroing has "
        "no report.",
        impact="These calls run in full: slower, and the check against the full graph is paid besides.",
        guard=f"1 of 10 calls is 10 %: more than {plain(kit.g.zeroing_fallbacks)} fallbacks in the 5 minutes "
        "are needed.",
        diagnosis=(
            ("Why?", kit.rate(kit.b.counter(c.FAST_PATH_FALLBACKS, mechanism="zeroing"), "5m", "reason")),
            ("Which model and route?", kit.rate(fallback, "5m", MODEL, ROUTE).topk(10)),
            ("Confidence of the routing: a fall means odd input",
                kit.b.quantile(0.5, c.ZEROING_CONFIDENCE, kit.w("15m"), ("job",)))),
        mitigation=(
            (f"003: raise `zeroing_threshold` by {percent(kit.t.zeroing_step)} (less is zeroed); the "
             "provider does the same by itself."),
            ("003: clean the input: NUL bytes and mis-encoded text from PDF and spreadsheet parsers, very "
             "long URLs."),
            ("`too_long`: ask for `max_tokens` of at most 8192. `no_report`: the header "
             "`anthropic-layer-zero: enabled` is missing, or the model has no zeroing."),
            "In an emergency `POST /v1/layer-zero/control` switches it off."),
        muted_by=(layer_gone(),),
    )  # fmt: skip


def _zeroing_range(kit: Kit) -> Alert:
    mean = kit.b.mean(c.ZEROING_PARAMS_RATIO, kit.w("30m"), kit.by)
    outside = mean.above(kit.t.params_ratio_high).or_(mean.below(kit.t.params_ratio_low))
    many = kit.grown(kit.b.count(c.ZEROING_PARAMS_RATIO), "30m").above(kit.g.zeroing_reports)
    return Alert(
        name="LLMZeroingOutOfRange", kind="cause", dashboard="families", source="A: 003",
        summary="The share of zeroed parameters is outside the sensible range.",
        description="On average {{ $value | humanizePercentage }} of the parameters are zeroed in calls of "
        f"{{{{ $labels.job }}}} over 30 minutes (limits: {percent(kit.t.params_ratio_low)} and "
        f"{percent(kit.t.params_ratio_high)}).",
        conditions=(AlertCondition("info", kit.guarded(outside, many), "30m", "30m"),),
        meaning=f"Mean of `zeroed_params_ratio`. Healthy is {percent(kit.t.params_ratio_healthy_low)} to "
        f"{percent(kit.t.params_ratio_healthy_high)}; below the limits zeroing is too timid, above it "
        "removes too much (003).",
        impact="Too timid: no gain. Too much: subtle judgements suffer (003: 11 % on sentiment at 78 %).",
        guard=f"A handful of reports: more than {plain(kit.g.zeroing_reports)} in 30 minutes are needed.",
        diagnosis=(
            ("By route", kit.b.mean(c.ZEROING_PARAMS_RATIO, kit.w("30m"), ("job", ROUTE))),
            ("Quality of the answers", kit.b.mean(c.QUALITY, kit.w("30m"), ("job", "lz_group", "metric")))),
        mitigation=(
            ("Too much: raise `zeroing_threshold` (003: 2e-5 for legal texts, 5e-5 for social media, 1e-5 by "
             "default)."),
            "Too timid: the input is very short or simple, or the threshold too careful.",
            "003: aim at 50 % ± 10 %, and let the business figures decide."),
        muted_by=(layer_gone("zeroing"),),
    )  # fmt: skip


def _mask_stuck(kit: Kit) -> Alert:
    events = kit.b.counter(c.MASK_EVENTS)
    still = kit.rate(kit.b.counter(c.MASK_SWITCHES), "15m").or_(0 * kit.rate(events, "15m")).equal(0)
    expr = kit.guarded(still, kit.grown(events, "15m").above(kit.g.mask_events))
    return Alert(
        name="LLMZeroingMaskStuck", kind="cause", dashboard="families", source="A: 003; C: guard",
        summary="The zeroing mask never changes.",
        description=f"More than {plain(kit.g.mask_events)} masks in streams of {{{{ $labels.job }}}} over 15 "
        "minutes were all alike ({{ $value }} changes a second).",
        conditions=(AlertCondition("warning", expr, "10m", "30m"),),
        meaning="A mask that stays the same, or is true everywhere, means that the routing is broken (003: "
        "constant over 100 tokens).",
        impact="The same parts of the model are off whatever is asked: answers get worse without an error.",
        guard=f"Many short streams: {plain(kit.g.mask_events)} masks are needed, of all streams together. A "
        "mask that never switched has no series: an explicit zero stands in.",
        diagnosis=(
            ("Masks and changes per second", kit.rate(events, "15m", MODEL)),
            ("Share of parameters zeroed", kit.b.mean(c.ZEROING_PARAMS_RATIO, kit.w("15m"), ("job", MODEL))),
            ("Confidence of the routing",
                kit.b.quantile(0.5, c.ZEROING_CONFIDENCE, kit.w("15m"), ("job", MODEL)))),
        mitigation=(
            ("003: switch zeroing off (`POST /v1/layer-zero/control`, or leave out the header) and report it "
             "with request ids."),
            "003: an odd `stability_window` (11 rather than 10) avoids half-zeroed states."),
        muted_by=(layer_gone("zeroing"),),
    )  # fmt: skip


ALERTS = (_zeroing_fallbacks, _zeroing_range, _mask_stuck)
