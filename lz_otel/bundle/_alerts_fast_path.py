"""Alerts on the fast path as such (000)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lz_otel import catalogue as c
from lz_otel.bundle import recording as r
from lz_otel.bundle._alert import (
    BURNING,
    PROVIDER_FAILING,
    Alert,
    AlertCondition,
    DiagnosisStep,
    Kit,
    Mute,
    layer_gone,
    percent,
    plain,
)
from lz_otel.bundle._labels import ELIGIBLE, FAMILIES, ROUTE
from lz_otel.bundle.dashboards import recorded as overview
from lz_otel.bundle.promql import Not, quantile_of, ratio

if TYPE_CHECKING:
    from lz_otel.bundle.promql import Expr


def _reasons(kit: Kit) -> DiagnosisStep:
    rate = kit.rate(c.FAST_PATH_FALLBACKS, "5m", "mechanism", "reason")
    return ("Why do calls fall back? (per minute)", 60 * rate)


def verdicts(kit: Kit) -> DiagnosisStep:
    """Return the step of a diagnosis that asks for the verdicts."""
    return ("What are the verdicts?", kit.rate(c.FAST_PATH_CALLS, "10m", "mechanism", "verdict"))


def _gone(kit: Kit) -> Alert:
    hits = kit.rate(c.FAST_PATH_CALLS, "5m", "mechanism", mechanism=FAMILIES, verdict="hit")
    eligible = kit.b.counter(c.FAST_PATH_CALLS, mechanism=FAMILIES, verdict=ELIGIBLE)
    share = ratio(hits, kit.rate(eligible, "5m", "mechanism"))
    now = kit.grown(eligible, "5m", "mechanism").above(kit.g.eligible_now)
    before = kit.recorded_sum(overview.VERDICTS, "1d", "mechanism", verdict="hit").above(kit.g.hits_before)
    expr = kit.guarded(share.below(kit.t.fast_path_gone), now, before, on=("mechanism",))
    # Window and `for` together are shorter than the `for` of all that it mutes: a symptom that is first has
    # been sent before the cause can mute it.
    return Alert(
        name="LLMFastPathGone", kind="cause", dashboard="families", source="C; 000 describes the outage",
        summary="A fast path that was in use serves nothing any more.",
        description="{{ $labels.mechanism }} served {{ $value | humanizePercentage }} of the eligible calls "
        f"of {{{{ $labels.job }}}} over 5 minutes (threshold: {percent(kit.t.fast_path_gone)}), and more "
        f"than {plain(kit.g.hits_before)} calls within the last day.",
        conditions=(AlertCondition("warning", expr, "3m", "30m"),),
        meaning="The layer is down, switched off, or no longer asked for. Calls take the full inference "
        "instead.",
        impact="No errors (000: the fall-back is seamless): calls take their full latency and price, 30 ms "
        "becomes 920 ms.",
        guard="Switched off on purpose looks the same: silence it, it ends by itself a day later. More than "
        f"{plain(kit.g.eligible_now)} eligible calls in 5 minutes are needed.",
        diagnosis=(
            verdicts(kit),
            _reasons(kit),
            ("Did a release come with it?", kit.b.gauge(c.BUILD_INFO).count("job", "version"))),
        mitigation=(
            ("All mechanisms of one provider at once: the provider; see its status page, and wait: calls are "
             "answered all the same."),
            "One mechanism after a release: compare the requests' headers with the last version's.",
            "symbolic (000): only `us-east-1` is fully enabled; set `anthropic-region: us-east-1`.",
            ("Switched off on purpose (`POST /v1/layer-zero/control`, 003; `x-anthropic-layer-hint: legacy`, "
             "004): silence this alert for a day."),
            "Watch cost and rate limits meanwhile: full inference uses more of both."),
        muted_by=(BURNING,),
    )  # fmt: skip


def _hit_rate(kit: Kit) -> Alert:
    symbolic = [
        kit.rate(c.FAST_PATH_CALLS, "30m", ROUTE, mechanism="symbolic", verdict=verdicts)
        for verdicts in ("hit", ELIGIBLE)
    ]
    by_route = ratio(*symbolic)
    low = kit.b.recorded(r.HITS_30M, mechanism="symbolic").below(kit.t.hit_rate_low)
    many = kit.grown(c.FAST_PATH_CALLS, "30m", "mechanism", verdict=ELIGIBLE).above(kit.g.calls)
    return Alert(
        name="LLMHitRateLow", kind="cause", dashboard="families", source="A: 000",
        summary="Fewer calls than expected are served by the symbolic engine.",
        description="{{ $labels.mechanism }} served {{ $value | humanizePercentage }} of the eligible calls "
        f"of {{{{ $labels.job }}}} over 30 minutes (threshold: {percent(kit.t.hit_rate_low)}; expected: "
        f"{percent(kit.t.hit_rate_band_low)} to {percent(kit.t.hit_rate_band_high)}).",
        conditions=(AlertCondition("warning", kit.guarded(low, many, on=("mechanism",)), "15m", "15m"),),
        meaning="Hits by all calls that could have hit (hits, misses and fallbacks; opted-out calls are in "
        "neither side).",
        impact="More calls run at full latency and price.",
        guard=f"A new route with cold fingerprints: more than {plain(kit.g.calls)} eligible calls in 30 "
        "minutes are needed.",
        diagnosis=(
            ("Which route has the lowest hit rate?", by_route.bottomk(10)),
            _reasons(kit),
            ("Evidence of the engine, of hits and others", kit.rate(c.SYMBOLIC_EVIDENCE, "30m", "signal"))),
        mitigation=(
            ("000: retune the preprocessing of the prompts. By frequency: thinking words (41 %: think, "
             "consider, step by step), vague quantifiers (28 %), unclosed `{` or `[` (15 %), contradictory "
             "demands (9 %), another region (7 %)."),
            ("000: state the output schema first, ask for true or false instead of yes or no, use one "
             "template per task."),
            ("Full-width punctuation, base64 payloads, `anyOf` in a schema and examples in the prompt all "
             "lower the rate (000).")),
        muted_by=(layer_gone(), BURNING),
    )  # fmt: skip


def _fallbacks(kit: Kit) -> Alert:
    selected = kit.b.counter(c.FAST_PATH_FALLBACKS, mechanism=Not("zeroing"))
    share = kit.b.recorded(r.FALLBACK_SHARE).above(kit.t.fallback_share_high)
    expr = kit.guarded(
        (60 * kit.rate(selected, "5m", "mechanism")).above(kit.t.fallbacks_per_minute),
        share,
        on=("mechanism",),
    )
    return Alert(
        name="LLMFallbacksHigh", kind="cause", dashboard="families",
        source="A: 000 (5 a minute); C: the share",
        summary="Many calls ask for the fast path and do not get it.",
        description='{{ $value | printf "%.1f" }} calls a minute of {{ $labels.job }} fell back from '
        f"{{{{ $labels.mechanism }}}} over 5 minutes (threshold: {plain(kit.t.fallbacks_per_minute)} a "
        f"minute, and {percent(kit.t.fallback_share_high)} of those that asked).",
        conditions=(AlertCondition("warning", expr, "10m", "10m"),),
        meaning="Calls asked for the fast path and were served in full, or gave it up half-way.",
        impact="These calls are as slow and dear as without it; hedged ones are paid twice.",
        guard=f"Five a minute is nothing at ten thousand a minute: {percent(kit.t.fallback_share_high)} of "
        "the calls that asked are needed besides. Zeroing has an alert of its own, LLMZeroingFallbackHigh.",
        diagnosis=(
            _reasons(kit),
            ("On which routes?", (60 * kit.rate(selected, "5m", "mechanism", ROUTE)).topk(10))),
        mitigation=(
            ("`schema_invalid`, `rejected`: the fast answer failed validation. Compare the schema with what "
             "the engine may return; it takes formats literally (`true`, not `True`; double quotes)."),
            ("`fast_timeout`, `hedge_lost`: 000 gives the fast attempt 300 ms and the standard one 1200 ms; "
             "look at LLMFastPathSlow."),
            ("`silent`, `no_beta`, `not_streaming`, `unsupported_model`, `wrong_header`: the request asks "
             "wrongly; see LLMIntentWrongHeader."),
            "`not_served`, `served_standard`: the provider had no room; nothing to do but wait.",
            "`gateway_fallback`, `gateway_retry`: look at the gateway."),
        muted_by=(layer_gone(), PROVIDER_FAILING),
    )  # fmt: skip


def _slow(kit: Kit) -> Alert:
    def late(limit: float, *, symbolic: bool) -> Expr:
        served = "symbolic" if symbolic else Not("symbolic")
        rates = kit.b.recorded(r.FAST_DURATION, lz_served_by=served).over_time("avg_over_time", kit.w("10m"))
        high = quantile_of(0.95, rates, (*kit.by, "lz_served_by")).above(limit)
        calls = kit.b.count(c.INFERENCE_DURATION, lz_ending="ok", lz_path="fast", lz_served_by=served)
        enough = kit.grown(calls, "10m", "lz_served_by").above(kit.g.calls)
        found = kit.guarded(high, enough, on=("lz_served_by",))
        return found.label_replace("mechanism", "$1", "lz_served_by", "(.*)")

    quick, other = kit.t.symbolic_p95_seconds, kit.t.fast_p95_seconds
    return Alert(
        name="LLMFastPathSlow", kind="symptom", dashboard="families",
        source="A: 000 (300 ms time-out of the fast attempt); C: the other mechanisms",
        summary="The fast path is slow.",
        description="The slowest 5 % of the calls of {{ $labels.job }} that {{ $labels.mechanism }} served "
        f"took {{{{ $value | humanizeDuration }}}} or longer over 10 minutes (threshold: {plain(quick)} s "
        f"for symbolic, {plain(other)} s for the others).",
        conditions=(AlertCondition("warning", late(quick, symbolic=True).or_(late(other, symbolic=False)),
                "10m", "15m"),),
        meaning="Answered calls that a mechanism served take too long, from first attempt to last byte. The "
        f"symbolic engine is judged by {plain(quick)} s, the others, which shorten an inference, by "
        f"{plain(other)} s.",
        impact="Users wait where they used not to; hedges lose against the standard attempt.",
        guard="One path holds 25 ms and 2 s, so each mechanism is judged for itself; more than "
        f"{plain(kit.g.calls)} calls are needed.",
        diagnosis=(
            ("Is it the engine? Its own p95, warm",
                kit.quantile(0.95, c.ENGINE_DURATION, "10m", "job", "mechanism", cold="false")),
            ("Or cold starts? Calls with a new fingerprint per second",
                kit.rate(c.ENGINE_DURATION, "10m", "mechanism", cold="true")),
            ("Or retries?", kit.attempts_per_call("10m"))),
        mitigation=(
            ("Engine fast, calls slow: the network, a proxy, or the client's pool. Look at connection "
             "time-outs."),
            ("Many cold starts: the first call of a fingerprint compiles for about 120 ms (000). Fix the "
             "template, so that fingerprints repeat."),
            "Engine slow: the provider. Raise the time-out of the fast attempt, or skip it for now."),
        muted_by=(BURNING, PROVIDER_FAILING),
    )  # fmt: skip


def _engine_slow(kit: Kit) -> Alert:
    warm = kit.b.count(c.ENGINE_DURATION, cold="false")
    p95 = kit.quantile(0.95, c.ENGINE_DURATION, "10m", *kit.by, "mechanism", cold="false")
    many = kit.grown(warm, "10m", "mechanism").above(kit.g.calls)
    expr = kit.guarded(p95.above(kit.t.engine_p95_seconds), many, on=("mechanism",))
    return Alert(
        name="LLMFastEngineSlow", kind="cause", dashboard="families", source="C, from 000's figures",
        summary="The fast engine itself is slow.",
        description="By its own report the engine of {{ $labels.mechanism }} needed "
        "{{ $value | humanizeDuration }} or longer for the slowest 5 % of the warm calls of "
        f"{{{{ $labels.job }}}} over 10 minutes (threshold: {plain(kit.t.engine_p95_seconds)} s).",
        conditions=(AlertCondition("warning", expr, "10m", "15m"),),
        meaning="The time in the response header, of calls whose fingerprint had been seen before. 000: 19 "
        "to 23 ms warm, p95 28 to 38 ms.",
        impact="The gain of the fast path shrinks.",
        guard=f"Cold starts are left out; more than {plain(kit.g.calls)} warm calls in 10 minutes are "
        "needed.",
        diagnosis=(
            ("Which route?",
                kit.quantile(0.95, c.ENGINE_DURATION, "10m", "job", "mechanism", ROUTE, cold="false").topk(
                    10)),
            ("Median beside it: are all slow, or a few?",
                kit.quantile(0.5, c.ENGINE_DURATION, "10m", "job", "mechanism", cold="false"))),
        mitigation=(
            "All routes: the provider is loaded; wait, and tell them.",
            "One route: its schema or template grew. Split it."),
        muted_by=(Mute("LLMFastPathSlow", ("mechanism",)), BURNING),
    )  # fmt: skip


ALERTS = (_gone, _hit_rate, _fallbacks, _slow, _engine_slow)
