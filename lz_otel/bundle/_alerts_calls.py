"""Alerts on calls and providers: what every user of an LLM API needs, with no Layer Zero at all."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lz_otel import catalogue as c
from lz_otel.bundle import recording as r
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
from lz_otel.bundle._labels import ERROR, FAILED_ENDINGS, MODEL, PROVIDER, ROUTE
from lz_otel.bundle.config import burn_windows
from lz_otel.bundle.dashboards import recorded as overview
from lz_otel.bundle.promql import Regex, quantile_of, ratio

if TYPE_CHECKING:
    from lz_otel.bundle.config import BurnWindow

# Error types and codes with which vendors say that money is gone (D: the vendors' error pages).
SPEND_ERRORS = Regex(
    "billing_error|insufficient_quota|credit_balance_exhausted|billing_hard_limit_reached|ramp_limit_exceeded"
    "|.*(spend|usage)_limit.*"
)
CREDENTIAL_ERRORS = Regex(
    "authentication_error|permission_error|invalid_api_key|AuthenticationError|PermissionDeniedError"
)


def _burn(kit: Kit) -> Alert:
    slo = kit.config.slo

    def condition(pair: BurnWindow) -> AlertCondition:
        # No more than 95 % can be asked for, however modest the objective is.
        limit = min(pair.factor * slo.allowed, 0.95)
        long, short = kit.b.recorded(r.failures(pair.long)), kit.b.recorded(r.failures(pair.short))
        many = kit.recorded_sum(r.FAILED, pair.long).above(kit.g.failures)
        text = (
            "{{ $value | humanizePercentage }} of the calls of {{ $labels.job }} failed over the last "
            f"{pair.long} (allowed: {percent(slo.allowed)}; this alert: over {percent(limit)}, and still so "
            f"over {pair.short}). At this rate {percent(pair.budget)} or more of the budget of {slo.period} "
            f"go within {pair.long}."
        )
        top = kit.b.count(c.INFERENCE_DURATION, lz_ending=FAILED_ENDINGS, job="%s").rate(kit.w("5m"))
        worst = top.sum(PROVIDER, ERROR).topk(1).text.replace('"', '\\"')
        text += (
            f'{{{{ with printf "{worst}" $labels.job | query }}}}{{{{ with . | first }}}} Most frequent: '
            f"{{{{ .Labels.{ERROR} }}}} from {{{{ .Labels.{PROVIDER} }}}}.{{{{ end }}}}{{{{ end }}}}"
        )
        return AlertCondition(
            pair.severity,
            kit.guarded(long.above(limit).and_(short.above(limit)), many),
            pair.wait,
            labels=(("window", pair.long),),
            description=text,
        )

    return Alert(
        name="LLMErrorBudgetBurn", kind="symptom", dashboard="reliability",
        source="C: objective; D: windows and factors (SRE workbook, multi-window multi-burn-rate)",
        summary="LLM calls are failing faster than the error budget allows.",
        conditions=tuple(condition(pair) for pair in burn_windows(slo)),
        meaning=f"Of the calls that finish, {percent(slo.objective)} should end ok over {slo.period}. They "
        "fail so fast that the budget will not last. Calls that the caller cancelled or abandoned are in "
        "neither side. Each condition needs a long window (it is worth it) and a short one (it goes on), so "
        "the alert ends soon after the failures do.",
        impact="Users get errors or broken answers.",
        guard=f"One failed call in a quiet hour: more than {plain(kit.g.failures)} failures in the long "
        "window are needed. Errors that are the user's own fault can be listed in `slo.harmless_errors`.",
        diagnosis=(
            by_error(kit),
            by_status(kit),
            ("How do calls end?", kit.rate(c.INFERENCE_DURATION, "5m", "lz_ending")),
            ("Did it start with a release?", kit.b.gauge(c.BUILD_INFO).count("job", "version"))),
        mitigation=(
            ("The first query names the error. `overloaded_error`, 529, 5xx: send the traffic to another "
             "model or provider."),
            ("429: see LLMRateLimited. 401 and 403: see LLMCredentialsRejected. Billing: see "
             "LLMSpendLimitReached."),
            ("400 and `invalid_request_error`: your own request. Roll back the last release. With pruning "
             "(001), all errors are 400: see `error.code`."),
            ("`connect_*`, `read_timeout`: the network between, a proxy, or time-outs that are too short for "
             "long answers.")),
    )  # fmt: skip


def _provider_failing(kit: Kit) -> Alert:
    finished, failed = r.finished_failed(kit.config, kit.b, kit.w("5m"), *kit.by, PROVIDER)
    many = kit.grown(c.INFERENCE_DURATION, "10m", PROVIDER, lz_ending=FAILED_ENDINGS)
    broken = ratio(failed, finished).above(kit.t.provider_failing)
    expr = kit.guarded(broken, many.above(kit.g.provider_failures), on=(PROVIDER,))
    return Alert(
        name="LLMProviderFailing", kind="symptom", dashboard="reliability", source="C",
        summary="Most calls to one LLM provider fail.",
        description="{{ $value | humanizePercentage }} of the calls of {{ $labels.job }} to "
        f"{{{{ $labels.{PROVIDER} }}}} failed over 5 minutes (threshold: {percent(kit.t.provider_failing)}).",
        conditions=(AlertCondition("critical", expr, "5m", "10m"),),
        meaning="A provider is down, unreachable, or refuses this service.",
        impact="Everything that depends on this provider fails, unless another model steps in.",
        guard=f"A provider with two calls an hour: more than {plain(kit.g.provider_failures)} failures in 10 "
        "minutes are needed.",
        diagnosis=(
            by_error(kit),
            by_status(kit),
            ("Does another model step in?", kit.rate(c.OPERATION_FALLBACKS, "5m", "from", "to", "reason"))),
        mitigation=(
            "Send the traffic elsewhere: another provider, region or gateway.",
            "If every error is a connection error, check DNS, proxy and certificates from the host itself.",
            ("When it is the provider: nothing here repairs it. Tell users, and lower the retries, which "
             "prolong it.")),
    )  # fmt: skip


def _spend_limit(kit: Kit) -> Alert:
    refused = kit.b.count(c.INFERENCE_DURATION, error_type=SPEND_ERRORS)
    expr = kit.grown(refused, "5m", PROVIDER, ERROR).above(kit.g.spend_limit_errors)
    return Alert(
        name="LLMSpendLimitReached", kind="symptom", dashboard="cost",
        source="D: error types and codes of the vendors; C: guard",
        summary="The LLM provider refuses calls because a spend limit is reached or credit is gone.",
        description=f'{{{{ $labels.{PROVIDER} }}}} refused {{{{ $value | printf "%.0f" }}}} calls of '
        f"{{{{ $labels.job }}}} in 5 minutes with {{{{ $labels.{ERROR} }}}} (threshold: more than "
        f"{plain(kit.g.spend_limit_errors)}). No retry helps.",
        conditions=(AlertCondition("critical", expr, "1m", "10m"),),
        meaning="The account has hit a limit on money: the organisation's, the project's or the workspace's, "
        "or its credit is used up.",
        impact="Every call on this account fails until the limit is raised or paid, or the month ends.",
        guard=f"A stray code: more than {plain(kit.g.spend_limit_errors)} refusals in 5 minutes are needed. "
        "It never flaps: retries do not help.",
        diagnosis=(
            by_error(kit),
            ("What was spent, by model?", kit.grown(c.COST_USD, "1d", MODEL).topk(10)),
            ("By route?", kit.grown(c.COST_USD, "1d", ROUTE).topk(10))),
        mitigation=(
            "Raise the limit or add credit in the provider's console.",
            "Until then send the traffic to another account or provider, or switch off the dearest route.",
            "Then find out why: LLMCostSpike and the dashboard Cost show which route or model grew."),
    )  # fmt: skip


def _credentials(kit: Kit) -> Alert:
    refused = kit.b.count(c.INFERENCE_DURATION, error_type=CREDENTIAL_ERRORS)
    expr = kit.grown(refused, "5m", PROVIDER, ERROR).above(kit.g.credential_errors)
    return Alert(
        name="LLMCredentialsRejected", kind="symptom", dashboard="reliability",
        source="D: error types of the vendors; C: guard",
        summary="The LLM provider rejects the credentials.",
        description=f'{{{{ $labels.{PROVIDER} }}}} rejected {{{{ $value | printf "%.0f" }}}} calls of '
        f"{{{{ $labels.job }}}} in 5 minutes with {{{{ $labels.{ERROR} }}}} (threshold: more than "
        f"{plain(kit.g.credential_errors)}).",
        conditions=(AlertCondition("critical", expr, "2m", "10m"),),
        meaning="A key is wrong, revoked, expired, or lacks a permission for the model.",
        impact="Calls with this key fail, all of them.",
        guard=f"A single test with a bad key: more than {plain(kit.g.credential_errors)} in 5 minutes are "
        "needed.",
        diagnosis=(
            by_error(kit),
            ("Only some processes? Then it is their configuration.",
                refused.rate(kit.w("5m")).sum("job", "instance", PROVIDER))),
        mitigation=(
            ("Was a key rotated? Compare the secret that the failing instances hold with the provider's "
             "console."),
            "`permission_error`: the key is valid and may not use this model, workspace or region.",
            "If the key was revoked because it leaked, rotate it everywhere; do not restore it."),
    )  # fmt: skip


def _calls_slow(kit: Kit) -> Alert:
    rates = kit.b.recorded(overview.DURATION, lz_path="full").over_time("avg_over_time", kit.w("15m"))
    many = kit.grown(c.INFERENCE_DURATION, "15m", lz_ending="ok", lz_path="full")
    expr = kit.guarded(
        quantile_of(0.95, rates, kit.by).above(kit.t.calls_p95_seconds), many.above(kit.g.calls)
    )
    return Alert(
        name="LLMCallsSlow", kind="symptom", dashboard="reliability", source="C",
        summary="LLM calls that run a full inference are slow.",
        description="The slowest 5 % of the answered calls of {{ $labels.job }} on the full path took "
        "{{ $value | humanizeDuration }} or longer over 15 minutes (threshold: "
        f"{plain(kit.t.calls_p95_seconds)} s).",
        conditions=(AlertCondition("warning", expr, "15m", "15m"),),
        meaning="The 95th percentile of answered calls, from the first attempt to the last byte, is high. "
        "Calls of the fast path are left out: they would hide it.",
        impact="Users wait, then give up: see calls that end as cancelled or abandoned.",
        guard="Long answers are slow by nature, so set `thresholds.calls_p95_seconds` to what the service "
        f"promises; more than {plain(kit.g.calls)} calls in 15 minutes are needed.",
        diagnosis=(
            ("Which model?", kit.quantile(0.95, c.INFERENCE_DURATION, "15m", "job", MODEL, lz_path="full")),
            ("Is it retries? More than 1 means so.", kit.attempts_per_call("15m")),
            ("Is it the start or the speed? Tokens per second of one call, median.",
                kit.quantile(0.5, c.OUTPUT_RATE, "15m", "job", MODEL, lz_path="full"))),
        mitigation=(
            ("First token slow, speed normal: queueing at the provider, or a cold prompt cache "
             "(LLMPromptCacheCollapsed)."),
            "Speed low: the provider is loaded; another model, tier or region.",
            "Many retries: see LLMRetriesHigh. Answers grew: cap `max_tokens`."),
        muted_by=(BURNING, PROVIDER_FAILING, Mute("LLMRateLimited")),
    )  # fmt: skip


def _first_token_slow(kit: Kit) -> Alert:
    rates = kit.b.recorded(overview.FIRST_TOKEN, lz_path="full").over_time("avg_over_time", kit.w("15m"))
    many = kit.grown(c.TIME_TO_FIRST_TOKEN, "15m", lz_path="full")
    expr = kit.guarded(
        quantile_of(0.95, rates, kit.by).above(kit.t.first_token_p95_seconds), many.above(kit.g.calls)
    )
    return Alert(
        name="LLMFirstTokenSlow", kind="symptom", dashboard="reliability", source="C",
        summary="Streams of LLM answers begin late.",
        description="For the slowest 5 % of the streams of {{ $labels.job }} on the full path the first "
        "token took {{ $value | humanizeDuration }} or longer over 15 minutes (threshold: "
        f"{plain(kit.t.first_token_p95_seconds)} s).",
        conditions=(AlertCondition("warning", expr, "15m", "15m"),),
        meaning="The 95th percentile from the start of the call to the first content is high.",
        impact="Users look at an empty answer.",
        guard=f"Cold caches after a release: 15 minutes, and more than {plain(kit.g.calls)} streams.",
        diagnosis=(
            ("Which model?", kit.quantile(0.95, c.TIME_TO_FIRST_TOKEN, "15m", "job", MODEL, lz_path="full")),
            ("Is the first piece of the body late too? Else the model thinks before it speaks.",
                kit.quantile(0.95, c.TIME_TO_FIRST_CHUNK, "15m", "job", MODEL, lz_path="full")),
            ("Share of input from the prompt cache",
                ratio(kit.b.recorded(r.CACHE_READ_1H), kit.b.recorded(r.INPUT_1H)))),
        mitigation=(
            "Long prompts that are not cached: put a cache breakpoint behind the part that stays the same.",
            "First piece early and first token late: less thinking budget, or show the thinking.",
            "All of one provider: another region or tier."),
        muted_by=(BURNING, PROVIDER_FAILING, Mute("LLMRateLimited")),
    )  # fmt: skip


def _streams_broken(kit: Kit) -> Alert:
    broken = kit.b.count(c.INFERENCE_DURATION, lz_stream="true", lz_ending="incomplete")
    share = ratio(
        kit.rate(broken, "15m", PROVIDER), kit.rate(c.INFERENCE_DURATION, "15m", PROVIDER, lz_stream="true")
    )
    many = kit.grown(broken, "15m", PROVIDER).above(kit.g.streams)
    expr = kit.guarded(share.above(kit.t.broken_streams), many, on=(PROVIDER,))
    return Alert(
        name="LLMStreamsBroken", kind="symptom", dashboard="reliability", source="C",
        summary="Streams of LLM answers end in the middle.",
        description="{{ $value | humanizePercentage }} of the streams of {{ $labels.job }} from "
        f"{{{{ $labels.{PROVIDER} }}}} ended without their last event over 15 minutes (threshold: "
        f"{percent(kit.t.broken_streams)}).",
        conditions=(AlertCondition("warning", expr, "10m", "15m"),),
        meaning="The connection closed before the stream's terminal event came. Readers who left are not "
        "counted here: they are `abandoned` or `cancelled`.",
        impact="Users get half an answer, and the tokens are paid all the same; usage is often missing.",
        guard=f"More than {plain(kit.g.streams)} broken streams in 15 minutes are needed.",
        diagnosis=(
            ("Which models and processes?", broken.rate(kit.w("15m")).sum("job", "instance", MODEL).topk(10)),
            ("After how long? A round figure is a proxy's time-out.",
                kit.quantile(0.5, c.INFERENCE_DURATION, "15m", "job", PROVIDER, lz_stream="true",
                    lz_ending="incomplete"))),
        mitigation=(
            ("Broken after a round time such as 60 s: raise the idle time-out of the proxy or load balancer "
             "between."),
            ("Only on one instance: its network. After a release: is the client closed before its streams "
             "are read?"),
            "Otherwise the provider: ask again for the broken ones, and report it with request ids."),
        muted_by=(Mute("LLMProviderFailing", (PROVIDER,)),),
    )  # fmt: skip


ALERTS = (
    _burn,
    _provider_failing,
    _spend_limit,
    _credentials,
    _calls_slow,
    _first_token_slow,
    _streams_broken,
)
