"""The recorded series that the Overview reads, so that its cost does not grow with the number of processes.

They drop ``instance`` (and what the Overview does not show) and keep what its variables filter by. Each is a
rate over 5 minutes, recorded once per rule interval, so a sum over a range is
``sum_over_time(series[range]) * interval``: right also for series that began within the range.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from lz_otel import catalogue as c
from lz_otel.bundle._labels import MODEL, PROVIDER, ROUTE
from lz_otel.bundle.promql import Recorded

if TYPE_CHECKING:
    from lz_otel.bundle.config import Config
    from lz_otel.bundle.promql import Builder, Expr

WINDOW = "5m"
FRESH = "2m"  # readings of limits: most limits are per minute
_MODEL = (PROVIDER, MODEL, ROUTE)
_LEVEL = "job_provider_model_route"


def _series(name: str, *labels: str, level: str = _LEVEL, common: tuple[str, ...] = _MODEL) -> Recorded:
    return Recorded(f"{level}{name}", ("job", *common, *labels))


CALLS = _series("_ending_path:llm_calls:rate5m", "lz_ending", "lz_path")
DURATION = _series("_path_le:llm_call_duration_seconds_bucket:rate5m", "lz_path", "le")
FIRST_TOKEN = _series("_path_le:llm_time_to_first_token_seconds_bucket:rate5m", "lz_path", "le")
VERDICTS = _series("_mechanism_verdict:lz_fast_path_calls:rate5m", "mechanism", "verdict")
FALLBACKS = _series("_mechanism_reason:lz_fast_path_fallbacks:rate5m", "mechanism", "reason")
COST = _series(":lz_cost_usd:rate5m")
SAVED = _series("_mechanism:lz_saved_usd:rate5m", "mechanism")
OVERSPENT = _series("_mechanism:lz_overspent_usd:rate5m", "mechanism")
INPUT = _series(":llm_input_tokens:rate5m")
CACHE_READ = _series(":llm_cache_read_input_tokens:rate5m")
MODEL_FALLBACKS = _series(
    ":lz_operation_fallbacks:rate5m",
    "from",
    "to",
    "reason",
    level="job_route_from_to_reason",
    common=(ROUTE,),
)
HEADROOM = _series(
    ":lz_rate_limit_headroom:min", "resource", level="job_provider_model_resource", common=_MODEL[:2]
)


def rules(config: Config) -> list[tuple[Recorded, Expr]]:
    """Return what the recording rules behind the Overview record, each with its expression."""
    b = config.builder()
    window = config.time(WINDOW)

    def rate(series: Recorded, metric: c.Metric) -> tuple[Recorded, Expr]:
        return (series, b.counter(metric).rate(window).sum(*series.labels, *config.extra_labels))

    calls = b.count(c.INFERENCE_DURATION).rate(window).sum(*CALLS.labels, *config.extra_labels)
    duration = b.bucket(c.INFERENCE_DURATION, lz_ending="ok").rate(window)
    least = headroom(b, config.time(FRESH), *config.extra_labels)
    first = b.bucket(c.TIME_TO_FIRST_TOKEN).rate(window)
    return [
        (CALLS, calls),
        (DURATION, duration.sum(*DURATION.labels, *config.extra_labels)),
        (FIRST_TOKEN, first.sum(*FIRST_TOKEN.labels, *config.extra_labels)),
        rate(VERDICTS, c.FAST_PATH_CALLS),
        rate(FALLBACKS, c.FAST_PATH_FALLBACKS),
        rate(COST, c.COST_USD),
        rate(SAVED, c.SAVED_USD),
        rate(OVERSPENT, c.OVERSPENT_USD),
        rate(INPUT, c.INPUT_TOKENS),
        rate(CACHE_READ, c.CACHE_READ_TOKENS),
        rate(MODEL_FALLBACKS, c.OPERATION_FALLBACKS),
        (HEADROOM, least.min(*HEADROOM.labels, *config.extra_labels)),
    ]


def headroom(b: Builder, window: str, *extra: str) -> Expr:
    """Return the share of each rate limit that is left, of the processes that make attempts now.

    A reading that is old says nothing: the limit has been refilled since. So only attempts within ``window``
    count, which is shorter than the alert waits.
    """
    own = ("job", "instance", PROVIDER, MODEL, *extra)
    left = b.gauge(c.RATE_LIMIT_REMAINING) / b.gauge(c.RATE_LIMIT_LIMIT).above(0)
    return left.and_(b.counter(c.ATTEMPTS).rate(window).sum(*own).above(0), on=own)
