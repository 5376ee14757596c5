"""Alerts on money and on the prompt cache."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lz_otel import catalogue as c
from lz_otel.bundle import recording as r
from lz_otel.bundle._alert import (
    PROVIDER_FAILING,
    Alert,
    AlertCondition,
    DiagnosisStep,
    Kit,
    Mute,
    percent,
    plain,
)
from lz_otel.bundle._labels import MODEL, PROVIDER, ROUTE
from lz_otel.bundle.config import seconds
from lz_otel.bundle.dashboards import recorded as overview
from lz_otel.bundle.promql import ratio

if TYPE_CHECKING:
    from lz_otel.bundle.promql import Expr


def _dearest(kit: Kit) -> tuple[DiagnosisStep, ...]:
    cost = kit.b.counter(c.COST_USD)
    calls = kit.rate(c.INFERENCE_DURATION, "1h", ROUTE)
    return (
        ("Which route? USD in the last hour", kit.grown(cost, "1h", ROUTE).topk(10)),
        ("Which model?", kit.grown(cost, "1h", MODEL).topk(10)),
        ("More calls, or dearer ones? Calls a second", calls),
        ("Output tokens per call",
            kit.rate(c.OUTPUT_TOKENS, "1h", ROUTE).op("/", calls.above(0))),
        ("Share of input from the prompt cache",
            ratio(kit.b.recorded(r.CACHE_READ_1H), kit.b.recorded(r.INPUT_1H))),
    )  # fmt: skip


_SPEND_ADVICE = (
    ("The first two queries name the route and the model. More calls: a loop, a retry storm "
     "(LLMRetriesHigh), or success."),
    ("Dearer calls: a larger model, longer answers or prompts, or a prompt cache that broke "
     "(LLMPromptCacheCollapsed)."),
    "Cap `max_tokens`, move what is not urgent to a batch API, or switch the route off.",
)  # fmt: skip


def _budget(limit: float) -> str:
    return f"{plain(limit)} USD" if limit else "0: none is set, so this alert is off; set what you mean"


def _spike(kit: Kit) -> Alert:
    now = kit.b.recorded(r.COST_1H)
    week, hour = kit.w("7d"), kit.w("1h")
    dearest = now.over_time("max_over_time", week, hour)
    samples = kit.g.cost_hours * seconds(kit.w("1h")) / kit.config.interval_seconds
    known = now.over_time("count_over_time", week, hour).above(samples)
    high = now.op(">", kit.t.cost_spike_factor * dearest).and_(now.above(kit.g.cost_usd)).and_(known)
    return Alert(
        name="LLMCostSpike", kind="symptom", dashboard="cost", source="C",
        summary="LLM calls cost more in this hour than in any hour of the last week.",
        description='{{ $labels.job }} spent {{ $value | printf "%.2f" }} USD within an hour: more than '
        f"{plain(kit.t.cost_spike_factor)} times the dearest hour of the last 7 days, and more than "
        f"{plain(kit.g.cost_usd)} USD.",
        conditions=(AlertCondition("warning", high, "10m", "30m"),),
        meaning="Spend by list price grew beyond anything of the last week.",
        impact="Money, from now on.",
        guard="A mean over idle nights makes every morning a spike: it is held against the dearest hour of 7 "
        f"days, in money, above a floor, and only with {plain(kit.g.cost_hours)} hours of history.",
        diagnosis=_dearest(kit),
        mitigation=_SPEND_ADVICE,
    )  # fmt: skip


def _hourly(kit: Kit) -> Alert:
    limit = kit.config.budget_usd_per_hour
    return Alert(
        name="LLMHourlyBudget", kind="symptom", dashboard="cost", source="C: set by the operator",
        summary="LLM calls cost more in an hour than the budget allows.",
        description='{{ $labels.job }} spent {{ $value | printf "%.2f" }} USD within an hour (budget: '
        f"{plain(limit)} USD an hour).",
        conditions=(AlertCondition("warning", kit.b.recorded(r.COST_1H).above(limit), "5m", "30m"),)
        if limit
        else (),
        meaning="A job spent more within an hour than `budget_usd_per_hour` of the configuration "
        f"({_budget(limit)}) allows, by list price.",
        impact="Money, from now on.",
        guard="A window, never the raw counter: spend since the start would fire for ever.",
        diagnosis=_dearest(kit),
        mitigation=_SPEND_ADVICE,
    )  # fmt: skip


def _daily(kit: Kit) -> Alert:
    budget = kit.config.budget_usd_per_day
    spent = kit.recorded_sum(overview.COST, "1d")

    def text(share: float) -> str:
        return (
            '{{ $labels.job }} spent {{ $value | printf "%.2f" }} USD within 24 hours: '
            f"over {percent(share)} of its budget of {plain(budget)} USD a day."
        )

    early = kit.t.budget_early
    return Alert(
        name="LLMDailyBudget", kind="symptom", dashboard="cost", source="C: set by the operator",
        summary="The daily budget for LLM calls is nearly or wholly spent.",
        conditions=(
            AlertCondition("warning", spent.above(early * budget), "0m", "1h", description=text(early)),
            AlertCondition("critical", spent.above(budget), "0m", "1h", description=text(1)),
        )
        if budget
        else (),
        meaning=f"`budget_usd_per_day` of the configuration ({_budget(budget)}) is used up to "
        f"{percent(early)} (ticket) or wholly (page).",
        impact="Money; soon perhaps a spend limit at the provider, which ends all calls "
        "(LLMSpendLimitReached).",
        guard="A window of 24 hours, never the raw counter. Recorded rates are added up, so a gap in the "
        "rules reads low.",
        diagnosis=_dearest(kit),
        mitigation=_SPEND_ADVICE,
    )  # fmt: skip


def _unpriced(kit: Kit) -> Alert:
    calls = kit.grown(c.COST_UNPRICED, "1h", PROVIDER, MODEL)
    return Alert(
        name="LLMUnpricedModel", kind="cause", dashboard="cost", source="C",
        summary="Calls in use have no price, so they are missing from every cost figure.",
        description='{{ $value | printf "%.0f" }} calls of {{ $labels.job }} to '
        f"{{{{ $labels.{MODEL} }}}} ({{{{ $labels.{PROVIDER} }}}}) in the last hour have no price "
        f"(threshold: more than {plain(kit.g.unpriced_calls)}).",
        conditions=(AlertCondition("warning", calls.above(kit.g.unpriced_calls), "15m", "1h"),),
        meaning="A part of what these calls are billed for has no price: the model, or (label `part`) audio, "
        "images, a hosted tool, a cache, a tier, a gateway's fallback. Nothing is guessed: the calls cost "
        "nothing in the figures.",
        impact="Cost, budget and savings read too low.",
        guard=f"A try by hand: more than {plain(kit.g.unpriced_calls)} calls in the hour are needed.",
        diagnosis=(
            ("Which models have no price?", calls.topk(10)),
            ("Which part has none?", kit.grown(c.COST_UNPRICED, "1h", MODEL, "part").topk(10)),
            ("Which names do they answer under?",
                kit.rate(c.INFERENCE_DURATION, "1h", MODEL, "gen_ai_response_model"))),
        mitigation=(
            ("`part=\"model\"`: add the model to your own price table, or update lz-otel; then check the "
             "name: aliases count as their own model. `lz-otel prices NAME` tells what is known."),
            ("Other parts: state the price or the fee in your own table, or let the gateway say what the "
             "call cost.")),
    )  # fmt: skip


def _incomplete(kit: Kit) -> Alert:
    calls = kit.grown(c.INFERENCE_DURATION, "1h")

    def part(metric: c.Metric) -> Expr:
        return kit.grown(metric, "1h").or_(0 * calls)

    share = (part(c.COST_UNPRICED) + part(c.USAGE_MISSING_CALLS)).op("/", calls.above(0))
    expr = kit.guarded(share.above(kit.t.cost_incomplete), calls.above(kit.g.calls))
    return Alert(
        name="LLMCostIncomplete", kind="cause", dashboard="cost", source="C",
        summary="Cost figures leave out many calls.",
        description="{{ $value | humanizePercentage }} of the calls of {{ $labels.job }} in the last hour "
        f"have no price or no usage (threshold: {percent(kit.t.cost_incomplete)}): every cost figure is too "
        "low by about as much.",
        conditions=(AlertCondition("info", expr, "1h", "1h"),),
        meaning="The provider did not say how many tokens were used, or the model has no price.",
        impact="Cost, budget and savings read too low.",
        guard=f"Abandoned streams carry no usage: an hour, and more than {plain(kit.g.calls)} calls.",
        diagnosis=(
            ("Why is usage missing?", kit.rate(c.USAGE_MISSING_CALLS, "1h", "reason")),
            ("Which models have no price?", kit.grown(c.COST_UNPRICED, "1h", MODEL).topk(10))),
        mitigation=(
            ("`not_requested`: streams of OpenAI and compatible APIs send usage only with `stream_options: "
             "{include_usage: true}`."),
            ("`ended_early`: users leave, or streams break (LLMStreamsBroken). `malformed`, `compressed`: "
             "see LLMOtelUnreadableSignals."),
            "No price: see LLMUnpricedModel."),
        muted_by=(Mute("LLMUnpricedModel"),),
    )  # fmt: skip


def _cache_collapsed(kit: Kit) -> Alert:
    read, tokens = kit.b.recorded(r.CACHE_READ_1H), kit.b.recorded(r.INPUT_1H)
    day, hour, week = kit.w("1d"), kit.w("1h"), kit.w("7d")
    now = read.op("/", tokens.above(0))
    yesterday = read.over_time("avg_over_time", day, hour).op(
        "/", tokens.over_time("avg_over_time", day, hour).above(0)
    )
    last_week = read.at_offset(week).op("/", tokens.at_offset(week).above(0))
    drop = kit.t.prompt_cache_drop
    fallen = now.below(drop * yesterday).or_(now.below(drop * last_week))
    # The hour may be shorter by configuration; what counts is tokens in it.
    many = (tokens * seconds(hour)).above(kit.g.cache_tokens)
    return Alert(
        name="LLMPromptCacheCollapsed", kind="symptom", dashboard="caches", source="C",
        summary="Much less input comes from the prompt cache than before.",
        description="{{ $value | humanizePercentage }} of the input tokens of {{ $labels.job }} to "
        f"{{{{ $labels.{MODEL} }}}} came from the cache in the last hour: less than {percent(drop)} of the "
        "share of the day before, or of the same hour a week ago.",
        conditions=(AlertCondition("warning", fallen.and_(many), "15m", "30m"),),
        meaning="Tokens read from the cache by all input tokens. Both sides are averages of tokens, so an "
        "idle hour does not weigh.",
        impact="Dearer input (up to ten times) and later first tokens.",
        guard=f"Night traffic misses more: more than {plain(kit.g.cache_tokens)} input tokens in the hour "
        "are needed.",
        diagnosis=(
            ("Why do calls miss?", kit.rate(c.PROMPT_CACHE_MISSES, "15m", MODEL, "reason")),
            ("Where?", kit.rate(c.PROMPT_CACHE_MISSES, "15m", ROUTE, "reason").topk(10)),
            ("With a release?", kit.b.gauge(c.BUILD_INFO).count("job", "version"))),
        mitigation=(
            ("`system_changed`, `tools_changed`: something in the fixed part now varies: a date, an id, the "
             "order of tools or keys. Move it behind the breakpoint."),
            "`history_changed`: earlier messages are rewritten, shortened or reordered between turns.",
            ("`expired`: calls come further apart than the entry lives. Use the longer lifetime, or keep it "
             "warm."),
            "`model_changed`: caches are per model; do not switch within a conversation.",
            "`below_minimum`, `no_breakpoint`: the cached part is too short, or `cache_control` is missing."),
        muted_by=(PROVIDER_FAILING,),
    )  # fmt: skip


def _cache_never_read(kit: Kit) -> Alert:
    written = kit.grown(c.PROMPT_CACHE_WRITE_TOKENS, "6h", MODEL)
    read = kit.grown(c.CACHE_READ_TOKENS, "6h", MODEL)
    low = ratio(read, written).below(kit.t.cache_reads_per_write)
    expr = kit.guarded(low, written.above(kit.g.cache_write_tokens), on=(MODEL,))
    return Alert(
        name="LLMPromptCacheNeverRead", kind="cause", dashboard="caches",
        source="C; break-even: D (price lists)",
        summary="The prompt cache is written and hardly ever read.",
        description="For each token that {{ $labels.job }} wrote to the prompt cache of "
        f'{{{{ $labels.{MODEL} }}}} within 6 hours, {{{{ $value | printf "%.2f" }}}} were read (threshold: '
        f"{plain(kit.t.cache_reads_per_write)}).",
        conditions=(AlertCondition("warning", expr, "30m", "1h"),),
        meaning="Writes cost more than plain input; they pay only when they are read again. At list price "
        "break-even is 0.28 reads per token written for entries of 5 minutes, and 1.1 for those of an hour.",
        impact="Every call is dearer than without a cache.",
        guard=f"A release writes all entries anew: 6 hours, and more than {plain(kit.g.cache_write_tokens)} "
        "tokens written.",
        diagnosis=(
            ("Why do calls miss?", kit.rate(c.PROMPT_CACHE_MISSES, "1h", MODEL, "reason")),
            ("Which routes write?", kit.grown(c.CACHE_WRITE_TOKENS, "6h", ROUTE).topk(10)),
            ("Which routes read?", kit.grown(c.CACHE_READ_TOKENS, "6h", ROUTE).topk(10))),
        mitigation=(
            "Put the breakpoint behind the part that stays the same, not behind the user's own text.",
            "One-off prompts (batch, evaluation): leave `cache_control` out.",
            "`expired`: a longer lifetime, or none."),
        muted_by=(Mute("LLMPromptCacheCollapsed", (MODEL,)),),
    )  # fmt: skip


def _cache_loses(kit: Kit) -> Alert:
    over = kit.grown(c.OVERSPENT_USD, "6h", MODEL, mechanism="prompt_cache")
    saved = kit.grown(c.SAVED_USD, "6h", MODEL, mechanism="prompt_cache").or_(0 * over)
    loss = (over - saved).above(0)
    return Alert(
        name="LLMPromptCacheLosesMoney", kind="symptom", dashboard="caches", source="C",
        summary="The prompt cache costs more than it saves.",
        description='The prompt cache cost {{ $labels.job }} {{ $value | printf "%.2f" }} USD more than it '
        f"saved on {{{{ $labels.{MODEL} }}}} within 6 hours (judged from {plain(kit.g.overspent_usd)} USD of "
        "writes on).",
        conditions=(AlertCondition("info", kit.guarded(loss, over.above(kit.g.overspent_usd), on=(MODEL,)),
                "1h", "1h"),),
        meaning="What writes cost beyond plain input, less what reads saved, is above zero.",
        impact="Money, a little on every call.",
        guard=f"A release writes all entries anew: 6 hours, and {plain(kit.g.overspent_usd)} USD.",
        diagnosis=(
            ("By route, USD saved less overspent",
                kit.grown(c.SAVED_USD, "6h", ROUTE, mechanism="prompt_cache")
                - kit.grown(c.OVERSPENT_USD, "6h", ROUTE, mechanism="prompt_cache")),
            ("Writes by lifetime", kit.rate(c.PROMPT_CACHE_WRITE_TOKENS, "6h", MODEL, "ttl"))),
        mitigation=(
            ("As for LLMPromptCacheNeverRead. The hour's lifetime costs twice plain input: use it only where "
             "calls come that far apart."),),
        muted_by=(Mute("LLMPromptCacheNeverRead", (MODEL,)), Mute("LLMPromptCacheCollapsed", (MODEL,))),
    )  # fmt: skip


# Those on a budget have conditions only where one is set.
ALERTS = (_spike, _hourly, _daily, _unpriced, _incomplete, _cache_collapsed, _cache_never_read, _cache_loses)
