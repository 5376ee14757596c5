"""Alerts on limits and retries: how near the provider's limits are, and what refusals cost."""

from __future__ import annotations

from lz_otel import catalogue as c
from lz_otel.bundle._alert import (
    BURNING,
    PROVIDER_FAILING,
    Alert,
    AlertCondition,
    Kit,
    Mute,
    by_error,
    by_status,
    percent,
    plain,
)
from lz_otel.bundle._labels import MODEL, PROVIDER, ROUTE
from lz_otel.bundle.dashboards import recorded as overview
from lz_otel.bundle.promql import Expr, ratio


def _limited(kit: Kit, status: tuple[str, ...], limit: float) -> Expr:
    refused = kit.b.counter(c.ATTEMPTS, status=status)
    share = ratio(kit.rate(refused, "10m", PROVIDER, MODEL), kit.rate(c.ATTEMPTS, "10m", PROVIDER, MODEL))
    many = kit.grown(refused, "10m", PROVIDER, MODEL).above(kit.g.rate_limited)
    return kit.guarded(share.above(limit), many, on=(PROVIDER, MODEL))


def _rate_limited(kit: Kit) -> Alert:
    return Alert(
        name="LLMRateLimited", kind="symptom", dashboard="reliability", source="C",
        summary="The LLM provider answers many attempts with 429.",
        description=f"{{{{ $labels.{PROVIDER} }}}} answered {{{{ $value | humanizePercentage }}}} of the "
        f"attempts of {{{{ $labels.job }}}} for {{{{ $labels.{MODEL} }}}} with 429 over 10 minutes "
        f"(threshold: {percent(kit.t.rate_limited)}).",
        conditions=(AlertCondition("warning", _limited(kit, ("429",), kit.t.rate_limited), "10m", "15m"),),
        meaning="The service asks for more than its limit of requests or tokens per minute.",
        impact="Calls wait for their retries; once these are used up, they fail.",
        guard=f"Short bursts that retries absorb: 10 minutes and more than {plain(kit.g.rate_limited)} "
        "refusals.",
        diagnosis=(
            ("How much of which limit is left?", kit.b.recorded(overview.HEADROOM).bottomk(10)),
            ("Which routes ask most?", kit.rate(c.ATTEMPTS, "10m", MODEL, ROUTE).topk(10)),
            ("Do the retries help, or do calls fail?", by_error(kit)[1])),
        mitigation=(
            "Throttle the route that grew, or move its batch work to off-peak hours or a batch API.",
            "Spread over models, or ask the provider for a higher limit.",
            ("Cached input counts less against token limits at some providers: see the dashboard Prompt & "
             "response cache."),
            "Retries without a cap make it last: honour `retry-after`."),
        muted_by=(Mute("LLMSpendLimitReached", (PROVIDER,)), Mute("LLMProviderFailing", (PROVIDER,))),
    )  # fmt: skip


def _overloaded(kit: Kit) -> Alert:
    return Alert(
        name="LLMProviderOverloaded", kind="symptom", dashboard="reliability", source="C",
        summary="The LLM provider says that it is overloaded.",
        description=f"{{{{ $labels.{PROVIDER} }}}} answered {{{{ $value | humanizePercentage }}}} of the "
        f"attempts of {{{{ $labels.job }}}} for {{{{ $labels.{MODEL} }}}} with 529 or 503 over 10 minutes "
        f"(threshold: {percent(kit.t.overloaded)}).",
        conditions=(AlertCondition("warning", _limited(kit, ("529", "503"), kit.t.overloaded), "10m",
                "15m"),),
        meaning="The provider has too little capacity for this model; it is not this service's limit.",
        impact="Calls are retried and slow; some fail.",
        guard=f"Short peaks: 10 minutes and more than {plain(kit.g.rate_limited)} such answers.",
        diagnosis=(
            by_status(kit),
            ("All models or one?", kit.rate(c.ATTEMPTS, "10m", PROVIDER, MODEL, status=("529", "503"))),
            ("Does another model step in?", kit.rate(c.OPERATION_FALLBACKS, "10m", "from", "to", "reason"))),
        mitigation=(
            "Fall back to another model or region while it lasts.",
            "Longer, jittered back-off: instant retries add to the load.",
            "A paid priority tier, where the provider has one and the calls are worth it."),
        muted_by=(BURNING, Mute("LLMProviderFailing", (PROVIDER,))),
    )  # fmt: skip


def _headroom(kit: Kit) -> Alert:
    expr = kit.b.recorded(overview.HEADROOM).below(kit.t.headroom_low)
    return Alert(
        name="LLMRateLimitNear", kind="cause", dashboard="reliability", source="C",
        summary="A rate limit of an LLM provider is nearly used up.",
        description="{{ $value | humanizePercentage }} of the limit of {{ $labels.resource }} is left for "
        f"{{{{ $labels.job }}}} at {{{{ $labels.{PROVIDER} }}}}, {{{{ $labels.{MODEL} }}}} (threshold: "
        f"{percent(kit.t.headroom_low)}).",
        conditions=(AlertCondition("info", expr, "5m", "10m"),),
        meaning="By the provider's own headers little is left of a limit, seen from the process that is "
        "nearest to it.",
        impact="None yet: 429 comes next.",
        guard="A reading is old once its limit has been refilled: only processes that have made attempts in "
        "the last two minutes count, and lz-otel ends a reading with its reset.",
        diagnosis=(
            ("Which limit?", kit.b.recorded(overview.HEADROOM).bottomk(10)),
            ("When is it refilled, in seconds?",
                kit.b.gauge(c.RATE_LIMIT_RESET).max("job", PROVIDER, MODEL, "resource"))),
        mitigation=("As for LLMRateLimited, while there is time: throttle, spread, cache, or ask for more.",),
        muted_by=(Mute("LLMRateLimited", (PROVIDER,)),),
    )  # fmt: skip


def _retries(kit: Kit) -> Alert:
    many = kit.grown(kit.chats(c.CALL_RETRIES), "5m", PROVIDER).above(kit.g.retries)
    expr = kit.guarded(kit.attempts_per_call("5m").above(kit.t.attempts_per_call), many, on=(PROVIDER,))
    return Alert(
        name="LLMRetriesHigh", kind="cause", dashboard="reliability", source="C",
        summary="LLM calls need many attempts.",
        description='{{ $labels.job }} makes {{ $value | printf "%.2f" }} attempts per call to '
        f"{{{{ $labels.{PROVIDER} }}}} over 5 minutes (threshold: {plain(kit.t.attempts_per_call)}).",
        conditions=(AlertCondition("warning", expr, "15m", "15m"),),
        meaning="Many calls succeed only after retries, or not even then.",
        impact="Slower answers, more load on a provider that is struggling, and limits used up by attempts.",
        guard=f"More than {plain(kit.g.retries)} retries in 5 minutes are needed. A longer window would fire "
        "after the outage is over.",
        diagnosis=(
            ("Why are calls tried again?", kit.rate(c.CALL_RETRIES, "5m", PROVIDER, "reason")),
            by_status(kit)),
        mitigation=(
            "429: see LLMRateLimited; 529 and 5xx: see LLMProviderOverloaded.",
            "Time-outs: are they shorter than the answers take? Retrying a long answer pays for it twice.",
            ("Are SDK, gateway and own code all retrying? Leave it to one of them: three times three is nine "
             "attempts.")),
        muted_by=(Mute("LLMRateLimited", (PROVIDER,)), Mute("LLMProviderOverloaded", (PROVIDER,)),
            Mute("LLMProviderFailing", (PROVIDER,)), BURNING),
    )  # fmt: skip


def _model_fallbacks(kit: Kit) -> Alert:
    steps = kit.b.counter(c.OPERATION_FALLBACKS)
    operations = kit.rate(c.OPERATION_DURATION, "15m")
    share = kit.rate(steps, "15m").op("/", operations.above(0))
    expr = kit.guarded(
        share.above(kit.t.model_fallbacks), kit.grown(steps, "15m").above(kit.g.model_fallbacks)
    )
    return Alert(
        name="LLMModelFallbackHigh", kind="cause", dashboard="reliability", source="C",
        summary="Many operations fall back to another model.",
        description='{{ $labels.job }} fell back to another model {{ $value | printf "%.2f" }} times per '
        f"operation over 15 minutes (threshold: {plain(kit.t.model_fallbacks)}).",
        conditions=(AlertCondition("warning", expr, "10m", "15m"),),
        meaning="Within operations, a first model failed and another was called.",
        impact="Answers come later, cost twice, and from a model of another quality.",
        guard=f"Few operations: more than {plain(kit.g.model_fallbacks)} fallbacks in 15 minutes are needed.",
        diagnosis=(
            ("From which model to which, and why?", kit.rate(steps, "15m", "from", "to", "reason").topk(10)),
            ("On which routes?", kit.rate(steps, "15m", ROUTE).topk(10))),
        mitigation=(
            ("The reason names the cause: `overloaded`, `rate_limited`, `spend_limit`, `timeout`: see the "
             "alert of that name."),
            "`rejected`: the application did not like the answer; look at its validation and at the prompt.",
            "If the first model keeps failing, make the second one the first for a while."),
        muted_by=(PROVIDER_FAILING, BURNING),
    )  # fmt: skip


ALERTS = (_rate_limited, _overloaded, _headroom, _retries, _model_fallbacks)
