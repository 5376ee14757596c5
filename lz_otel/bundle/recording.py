"""Recording rules: ``level:metric:operations``, and on top the names that the articles use.

The level lists the labels that are left. Rates are taken before sums, ratios are guarded (nothing where
nothing happened, 0 where a part is missing), and ratios are never averaged: windows longer than an hour
divide averages of recorded rates, which costs no more with a hundred processes than with one.

Groups: ``lz-otel-overview`` (what the Overview reads, see :mod:`lz_otel.bundle.dashboards.recorded`),
``lz-otel-slo``, ``lz-otel-fast-path``, ``lz-otel-latency``, ``lz-otel-money`` and ``lz-otel-articles``.

Windows in a name are nominal: with shortened windows the names stay.

Names of the articles that are not here: ``decompression_latency_p95`` and ``kv_slice_efficiency`` are known
to the vendor alone (004) and come under these very names with a scrape of its ``/v1/metrics``. So does
``cache_hit_rate``, but a client knows its share of served calls too, so that one is recorded besides.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from lz_otel import catalogue as c
from lz_otel.bundle import _labels as labels
from lz_otel.bundle.config import burn_windows, seconds
from lz_otel.bundle.dashboards import recorded as overview
from lz_otel.bundle.promql import Builder, Expr, Not, Recorded, quantile_of, ratio

if TYPE_CHECKING:
    from collections.abc import Iterator

    from lz_otel.bundle.config import Config
    from lz_otel.bundle.promql import Value

QUANTILES = (0.5, 0.95, 0.99)

CALLS = Recorded("job:llm_calls:rate5m", ("job",))
GOOD = Recorded("job:llm_calls_good:rate5m", ("job",))
FAILED = Recorded("job:llm_calls_failed:rate5m", ("job",))
_MECHANISM = ("job", "mechanism")
HITS = Recorded("job_mechanism:lz_hits_per_eligible_call:ratio_rate5m", _MECHANISM)
HITS_30M = Recorded("job_mechanism:lz_hits_per_eligible_call:ratio_rate30m", _MECHANISM)
HONOURED = Recorded("job_mechanism:lz_hits_per_asking_call:ratio_rate5m", _MECHANISM)
FALLBACK_SHARE = Recorded("job_mechanism:lz_fallbacks_per_asking_call:ratio_rate5m", _MECHANISM)
LATENCY = Recorded("job_path_quantile:llm_call_duration_seconds:rate5m", ("job", "lz_path", "quantile"))
FIRST_TOKEN = Recorded(
    "job_path_quantile:llm_time_to_first_token_seconds:rate5m", ("job", "lz_path", "quantile")
)
FAST_DURATION = Recorded(
    "job_served_by_le:llm_call_duration_seconds_bucket:rate5m", ("job", "lz_served_by", "le")
)
_MODEL = ("job", "gen_ai_request_model")
INPUT_1H = Recorded("job_model:llm_input_tokens:rate1h", _MODEL)
CACHE_READ_1H = Recorded("job_model:llm_cache_read_input_tokens:rate1h", _MODEL)
OUTPUT_5M = Recorded("job_model:llm_output_tokens:rate5m", _MODEL)
COST_1H = Recorded("job:lz_cost_usd:increase1h", ("job",))

_PROCESS = ("job", "instance")
# The articles' names, each with the article and the labels that it has here.
_ARTICLES: dict[str, tuple[str, tuple[str, ...]]] = {
    "layer_zero_hit_rate": ("000", ("job",)),
    "layer_zero_latency_p95": ("000", ("job",)),
    "fallback_count": ("000", _PROCESS),
    "anthropic_api_latency_seconds_bucket": ("000", (*_PROCESS, "le")),
    "anthropic_api_latency_seconds_sum": ("000", _PROCESS),
    "anthropic_api_latency_seconds_count": ("000", _PROCESS),
    "layer_zero_pruned_tokens_total": ("001", _PROCESS),
    "layer_zero_effectiveness_ratio": ("001", ("job", "metric")),
    "layer_zero_context_preservation_ms": ("001", ("job",)),
    "intent_distribution": ("002", ("job", "intent")),
    "intent_consistency_rate": ("002", ("job",)),
    "intent_switch_rate": ("002", ("job",)),
    "anthropic_zeroing_fallback_total": ("003", _PROCESS),
    "anthropic_zeroing_path_count": ("003", _PROCESS),
    "cache_hit_rate": ("004", ("job", "layer")),
}
ARTICLE_NAMES: dict[str, Recorded] = {name: Recorded(name, labels) for name, (_, labels) in _ARTICLES.items()}


class RecordingRule(NamedTuple):
    """One recording rule.

    Attributes:
        group: group of rules it is evaluated in, in order.
        series: what it records.
        expr: from what.
        labels: static labels to add.
        doc: one line of meaning.
    """

    group: str
    series: Recorded
    expr: Expr
    doc: str
    labels: tuple[tuple[str, str], ...] = ()


def failures(window: str) -> Recorded:
    """Return the series with the share of failed calls over that nominal window."""
    return Recorded(f"job:llm_failures_per_call:ratio_rate{window}", ("job",))


def rules(config: Config) -> list[RecordingRule]:
    """Return all recording rules, in the order in which they must be evaluated."""
    b = config.builder()
    return [
        *(RecordingRule("lz-otel-overview", *row, "") for row in overview.rules(config)),
        *_slo(config, b),
        *_fast_path(config, b),
        *_latency(config, b),
        *_money(config, b),
        *_articles(config, b),
    ]


def finished_failed(config: Config, b: Builder, window: str, *by: str) -> tuple[Expr, Expr]:
    """Return the rates of finished and of failed calls; harmless errors and given-up calls are in neither."""
    where: dict[str, Value] = {}
    if config.slo.harmless_errors:
        where["error_type"] = Not(config.slo.harmless_errors)
    finished = b.count(c.INFERENCE_DURATION, lz_ending=labels.FINISHED_ENDINGS, **where).rate(window).sum(*by)
    failed = b.count(c.INFERENCE_DURATION, lz_ending=labels.FAILED_ENDINGS, **where).rate(window).sum(*by)
    return finished, failed


def _slo(config: Config, b: Builder) -> Iterator[RecordingRule]:
    group = "lz-otel-slo"
    finished, failed = finished_failed(config, b, config.time("5m"), *config.by)
    yield RecordingRule(group, CALLS, finished, "Finished calls per second.")
    ok = b.count(c.INFERENCE_DURATION, lz_ending="ok").rate(config.time("5m")).sum(*config.by)
    all_calls = b.recorded(CALLS)
    yield RecordingRule(group, GOOD, ok.or_(0 * all_calls), "Calls per second that ended ok.")
    yield RecordingRule(group, FAILED, failed.or_(0 * all_calls), "Failed calls per second.")
    windows = {w for pair in burn_windows(config.slo) for w in (pair.long, pair.short)}
    for window in sorted(windows, key=seconds):
        length = config.time(window)
        if seconds(window) > seconds("1h"):
            part = b.recorded(FAILED).over_time("avg_over_time", length)
            expr = part.op("/", b.recorded(CALLS).over_time("avg_over_time", length).above(0))
        else:
            finished, failed = finished_failed(config, b, length, *config.by)
            expr = ratio(failed, finished)
        yield RecordingRule(
            group, failures(window), expr, f"Share of finished calls that failed, over {window}."
        )


def _verdicts(config: Config, b: Builder, verdicts: tuple[str, ...], window: str, **where: Value) -> Expr:
    selected = b.counter(c.FAST_PATH_CALLS, verdict=verdicts, **where)
    return selected.rate(config.time(window)).sum(*config.by, "mechanism")


def _fast_path(config: Config, b: Builder) -> Iterator[RecordingRule]:
    group = "lz-otel-fast-path"
    for series, whole, window, doc in (
        (HITS, labels.ELIGIBLE, "5m", "Hits of the calls that could have hit."),
        (HITS_30M, labels.ELIGIBLE, "30m", "Hits of the calls that could have hit, over 30 minutes."),
        (HONOURED, labels.ASKED, "5m", "Hits of the calls that asked."),
    ):
        expr = ratio(_verdicts(config, b, ("hit",), window), _verdicts(config, b, whole, window))
        yield RecordingRule(group, series, expr, doc)
    # An answer that the application rejects was a hit when it came: it is a reason, and no verdict.
    fallen = b.counter(c.FAST_PATH_FALLBACKS).rate(config.time("5m")).sum(*config.by, "mechanism")
    expr = ratio(fallen, _verdicts(config, b, labels.ASKED, "5m"))
    yield RecordingRule(
        group, FALLBACK_SHARE, expr, "Fallbacks, rejected answers among them, by the calls that asked."
    )


def _latency(config: Config, b: Builder) -> Iterator[RecordingRule]:
    group = "lz-otel-latency"
    fast = b.bucket(c.INFERENCE_DURATION, lz_ending="ok", lz_path="fast").rate(config.time("5m"))
    doc = "Buckets of the answered calls of the fast path, by the mechanism that served them."
    yield RecordingRule(group, FAST_DURATION, fast.sum(*FAST_DURATION.labels, *config.extra_labels), doc)
    level = (*config.by, "lz_path")
    for source, series, what in (
        (overview.DURATION, LATENCY, "Duration of answered calls"),
        (overview.FIRST_TOKEN, FIRST_TOKEN, "Time to the first token"),
    ):
        buckets = b.recorded(source)
        for q in QUANTILES:
            expr = quantile_of(q, buckets, level)
            doc = f"{what} per path, p{q * 100:g}."
            yield RecordingRule(group, series, expr, doc, (("quantile", f"{q:g}"),))


def _money(config: Config, b: Builder) -> Iterator[RecordingRule]:
    group = "lz-otel-money"
    model = (*config.by, "gen_ai_request_model")
    hour = config.time("1h")
    tokens = b.counter(c.INPUT_TOKENS).rate(hour).sum(*model)
    yield RecordingRule(group, INPUT_1H, tokens, "Input tokens per second, cached ones included.")
    read = b.counter(c.CACHE_READ_TOKENS).rate(hour).sum(*model).or_(0 * b.recorded(INPUT_1H))
    yield RecordingRule(
        group, CACHE_READ_1H, read, "Input tokens per second that came from the prompt cache."
    )
    output = b.counter(c.OUTPUT_TOKENS).rate(config.time("5m")).sum(*model)
    yield RecordingRule(group, OUTPUT_5M, output, "Output tokens per second.")
    cost = b.counter(c.COST_USD).increase(hour).sum(*config.by)
    yield RecordingRule(group, COST_1H, cost, "USD spent in the last hour.")


def effectiveness(config: Config, b: Builder, window: str) -> Expr:
    """Return the mean quality of the pruned group by that of the control group, per score (001)."""
    by = (*config.by, "metric")
    pruned = b.mean(c.QUALITY, window, by, lz_group=config.pruned_group)
    return pruned.op("/", b.mean(c.QUALITY, window, by, lz_group=config.control_group).above(0))


def consistency(config: Config, b: Builder, window: str) -> Expr:
    """Return the share of repeated deterministic requests that were answered the same (002)."""
    same = b.counter(c.INTENT_REPEATS, intent="deterministic", result="same").rate(window).sum(*config.by)
    return ratio(same, b.counter(c.INTENT_REPEATS, intent="deterministic").rate(window).sum(*config.by))


def context_preservation(config: Config, b: Builder, window: str) -> Expr:
    """Return mean seconds for preserving tagged context; 0: pruning is on, nothing is tagged (001)."""
    pruning = b.counter(c.ORIGINAL_TOKENS).rate(window).sum(*config.by)
    return b.mean(c.CONTEXT_PRESERVATION, window, config.by).or_(0 * pruning)


def _articles(config: Config, b: Builder) -> Iterator[RecordingRule]:
    by, process = config.by, (*config.by, "instance")
    five, half, hour = config.time("5m"), config.time("30m"), config.time("1h")
    symbolic: dict[str, Value] = {"mechanism": "symbolic"}
    anthropic: dict[str, Value] = {"gen_ai_provider_name": "anthropic"}
    verdict = b.counter(c.FAST_PATH_CALLS, verdict="hit", **symbolic).rate(five).sum(*by)
    eligible = b.counter(c.FAST_PATH_CALLS, verdict=labels.ELIGIBLE, **symbolic).rate(five).sum(*by)
    served = b.counter(c.FAST_PATH_CALLS, mechanism="scheduling", verdict="hit").rate(five).sum(*by)
    asked = b.counter(c.FAST_PATH_CALLS, mechanism="scheduling", verdict=labels.ELIGIBLE).rate(five).sum(*by)
    intents = b.counter(c.INTENT_CALLS).rate(five)
    per_intent = intents.sum(*by, "intent").op(
        "/", intents.sum(*by).above(0), ignoring=("intent",), group_left=()
    )
    changed = b.counter(c.INTENT_TRANSITIONS, changed="true").rate(hour).sum(*by)
    fallbacks = b.counter(c.FAST_PATH_CALLS, mechanism="zeroing", verdict="fallback")
    expressions = {
        "layer_zero_hit_rate":
            (ratio(verdict, eligible), "Share of eligible calls served by the layer, 0 to 1."),
        "layer_zero_latency_p95": (quantile_of(0.95, b.recorded(FAST_DURATION, lz_served_by="symbolic"), by),
            "p95 of the calls that the layer served, in seconds (C: the article names no unit)."),
        "fallback_count": (b.counter(c.FAST_PATH_FALLBACKS, **symbolic).running(*process),
            "Calls that were given back to standard inference; a counter."),
        "anthropic_api_latency_seconds_bucket":
            (b.bucket(c.INFERENCE_DURATION, **anthropic).running(*process, "le"),
             "Duration of calls; a classic histogram."),
        "anthropic_api_latency_seconds_sum":
            (b.total(c.INFERENCE_DURATION, **anthropic).running(*process), "Its sum of seconds."),
        "anthropic_api_latency_seconds_count":
            (b.count(c.INFERENCE_DURATION, **anthropic).running(*process), "Its number of calls."),
        "layer_zero_pruned_tokens_total":
            (b.counter(c.PRUNED_TOKENS).running(*process), "Input tokens that were cut; a counter."),
        "layer_zero_effectiveness_ratio": (effectiveness(config, b, half),
            "Quality of the pruned group / of the control group, by score."),
        "layer_zero_context_preservation_ms": (1000 * context_preservation(config, b, five),
            "Mean milliseconds for preserving tagged context; 0: pruning is on and nothing is tagged."),
        "intent_distribution": (per_intent,
            "Share of each intent, 0 to 1 (C: over 5 minutes; the article counts by the minute)."),
        "intent_consistency_rate": (consistency(config, b, hour),
            "Share of deterministic repeats that were the same, over the hour."),
        "intent_switch_rate": (ratio(changed, b.counter(c.INTENT_TRANSITIONS).rate(hour).sum(*by)),
            "Share of consecutive calls of a session that changed the intent, over the hour."),
        "anthropic_zeroing_fallback_total":
            (fallbacks.running(*process), "Calls that zeroing gave up; a counter."),
        "anthropic_zeroing_path_count": (b.counter(c.ZEROING_LAYERS, state="zeroed").running(*process),
            "Layers that were zeroed (C: the article does not say what a path is); a counter."),
        "cache_hit_rate": (ratio(served, asked).label_replace("layer", "zero", "", ""),
            ("Share of calls served across requests, as the client saw it (C); "
             "the vendor's own has another job.")),
    }  # fmt: skip
    for name, series in ARTICLE_NAMES.items():
        expr, doc = expressions[name]
        yield RecordingRule("lz-otel-articles", series, expr, f"{_ARTICLES[name][0]}: {doc}")
