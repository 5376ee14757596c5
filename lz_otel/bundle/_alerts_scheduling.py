"""Alerts on sharing between requests, and on the vendor's own gauges (004)."""

from __future__ import annotations

from lz_otel import catalogue as c
from lz_otel.bundle._alert import Alert, AlertCondition, DiagnosisStep, Kit, layer_gone, percent, plain
from lz_otel.bundle._alerts_fast_path import verdicts
from lz_otel.bundle._labels import ELIGIBLE, MODEL, ROUTE
from lz_otel.bundle.promql import VENDOR_CACHE_HIT_RATE, VENDOR_DECOMPRESSION_P95, VENDOR_SLICE_EFFICIENCY


def _ghost(kit: Kit) -> Alert:
    seen = kit.grown(c.GHOST_ENTITIES, "10m")

    def text(limit: float) -> str:
        return (
            '{{ $value | printf "%.0f" }} details of another request turned up in answers to '
            f"{{{{ $labels.job }}}} within 10 minutes (threshold: more than "
            f"{plain(limit)}). They may be other people's data."
        )

    return Alert(
        name="LLMGhostContext", kind="symptom", dashboard="families", source="A: 004; C: how many page",
        summary="Answers hold details that come from another request.",
        conditions=(AlertCondition("warning", seen.above(0), "0m", "30m", description=text(0)),
            AlertCondition("critical", seen.above(kit.g.ghost_entities), "0m", "30m",
                description=text(kit.g.ghost_entities))),
        meaning="An e-mail address, phone or order number was in an answer, not in its own request, and in "
        "another recent request of the same process: the ghost context of 004. It is an estimate by digests; "
        "no text is kept.",
        impact="A user may be reading another user's data. Treat it as a breach until you know better.",
        guard="A support address or an order number that two users share looks the same: one makes a ticket, "
        f"more than {plain(kit.g.ghost_entities)} in 10 minutes page.",
        diagnosis=(
            ("Which model and route?", kit.grown(c.GHOST_ENTITIES, "1h", MODEL, ROUTE).topk(10)),
            ("How many requests are similar enough to share work?",
                kit.grown(c.SIMILAR_CALLS, "1h", ROUTE).topk(10))),
        mitigation=(
            "Stop sharing on that route at once: send `x-anthropic-layer-hint: legacy` (004).",
            ("004: a fuse on similarity: a request that resembles one of the last 100 by more than 0.92 "
             "takes the standard path."),
            "004: clean answers of foreign entities before they leave the service.",
            "Find the answers by the trace id in spans and logs, and tell those who guard personal data.",
            "If it was a shared address or number, put it on the allow-list."),
    )  # fmt: skip


def _vendor_queries(kit: Kit) -> tuple[DiagnosisStep, ...]:
    return (("Sharing between requests", kit.b.gauge(VENDOR_CACHE_HIT_RATE)),
        ("Decompression p95 in ms", kit.b.gauge(VENDOR_DECOMPRESSION_P95)),
        ("Efficiency of slices", kit.b.gauge(VENDOR_SLICE_EFFICIENCY)),
        verdicts(kit))  # fmt: skip


def _vendor_cache(kit: Kit) -> Alert:
    low = (
        kit.b.gauge(VENDOR_CACHE_HIT_RATE, layer="zero")
        .min(*kit.by, "layer")
        .below(kit.t.vendor_cache_hit_low)
    )
    scheduling = kit.b.counter(c.FAST_PATH_CALLS, mechanism="scheduling", verdict=ELIGIBLE)
    expr = low.unless(kit.grown(scheduling, "15m").below(kit.g.calls), on=kit.by)
    return Alert(
        name="LLMVendorCacheHitLow", kind="cause", dashboard="families", source="A: 004",
        summary="Few requests share work with others in the provider's layer.",
        description="cache_hit_rate of {{ $labels.job }} is {{ $value | humanizePercentage }} (threshold: "
        f"{percent(kit.t.vendor_cache_hit_low)}).",
        conditions=(AlertCondition("warning", expr, "15m", "30m"),),
        meaning="Fewer requests than healthy (004: above 30 %) were served by work shared across requests, "
        "by the provider's gauge, or, without a scrape of it, by this service's own verdicts on scheduling.",
        impact="The price and latency of scheduling (004) are not reached.",
        guard=f"Gauges jump at restarts: 15 minutes. A service's own figure needs {plain(kit.g.calls)} calls "
        "in 15 minutes.",
        diagnosis=_vendor_queries(kit),
        mitigation=(
            ("004: name anchor, drift and transient blocks in `x-anthropic-cache-policy`; anchors are what "
             "all requests share."),
            "004: route similar requests (same intent words) to the same group of instances."),
        muted_by=(layer_gone("scheduling"),),
    )  # fmt: skip


def _vendor_decompression(kit: Kit) -> Alert:
    p95 = kit.b.gauge(VENDOR_DECOMPRESSION_P95, precision="fp16").max(*kit.by, "precision")
    return Alert(
        name="LLMVendorDecompressionSlow", kind="cause", dashboard="families", source="A: 004",
        summary="The provider's decompression of weights is slow.",
        description='decompression_latency_p95 of {{ $labels.precision }} is {{ $value | printf "%.1f" }} ms '
        f"at {{{{ $labels.job }}}} (threshold: {plain(kit.t.decompression_p95_ms)} ms).",
        conditions=(AlertCondition("warning", p95.above(kit.t.decompression_p95_ms), "15m", "30m"),),
        meaning="A gauge of the provider's `/v1/metrics` (004). The worst instance counts: a p95 cannot be "
        "averaged.",
        impact="First tokens come later on the fast path.",
        guard="Gauges jump at restarts: 15 minutes.",
        diagnosis=_vendor_queries(kit),
        mitigation=(
            ("004: leave precision to the provider where determinism is not needed: "
             "`x-anthropic-precision-mode` with `fp16-deterministic` costs about 15 % of latency."),
            "It is the provider's: report it with trace ids (`x-anthropic-trace-id`)."),
        muted_by=(layer_gone("scheduling"),),
    )  # fmt: skip


def _vendor_anchor(kit: Kit) -> Alert:
    low = kit.b.gauge(VENDOR_SLICE_EFFICIENCY, block_type="anchor").min(*kit.by, "block_type")
    return Alert(
        name="LLMVendorAnchorInefficient", kind="cause", dashboard="families", source="A: 004",
        summary="Anchor blocks in the provider's cache are used inefficiently.",
        description="kv_slice_efficiency of {{ $labels.block_type }} blocks is "
        "{{ $value | humanizePercentage }} at {{ $labels.job }} (threshold: "
        f"{percent(kit.t.anchor_efficiency_low)}).",
        conditions=(AlertCondition("warning", low.below(kit.t.anchor_efficiency_low), "15m", "30m"),),
        meaning="A gauge of the provider's `/v1/metrics` (004): what was declared an anchor is not what "
        "requests have in common.",
        impact="Less is shared: slower and dearer calls.",
        guard="Gauges jump at restarts: 15 minutes.",
        diagnosis=_vendor_queries(kit),
        mitigation=(
            ("004: declare as anchor only what really stays the same (profile, policy), and what moves as "
             "drift or transient block."),
            "Did a release put something that changes, such as a date, into the anchored part?"),
        muted_by=(layer_gone("scheduling"),),
    )  # fmt: skip


ALERTS = (_ghost, _vendor_cache, _vendor_decompression, _vendor_anchor)
