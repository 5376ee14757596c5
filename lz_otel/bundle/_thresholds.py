"""The numbers that rules, dashboards and runbooks judge by: each once, with its source.

**A**: an article (000-004). **C**: chosen by lz-otel. Shares are 0 to 1; durations are seconds unless the
name says otherwise.
"""

from __future__ import annotations

from typing import Annotated, Any

import msgspec

from lz_otel.errors import ConfigurationError


def meta(doc: str, mark: str = "C", allowed: str = "", **bounds: Any) -> msgspec.Meta:
    """Return what a setting's type says of it: meaning, mark of its source, what is allowed, bounds."""
    extra = {"mark": mark} | ({"allowed": allowed} if allowed else {})
    return msgspec.Meta(description=doc, extra=extra, **bounds)


def share(doc: str, mark: str = "C") -> msgspec.Meta:
    """Return the description of a share, from 0 to 1."""
    return meta(doc, mark, ge=0.0, le=1.0)


def amount(doc: str, mark: str = "C", *, low: float = 0.0, high: float = 1e12) -> msgspec.Meta:
    """Return the description of a number within bounds."""
    return meta(doc, mark, ge=low, le=high)


# Pairs of thresholds of which the first may not be greater.
_ORDERED = (
    ("pruned_share_low", "pruned_share_high"),
    ("params_ratio_low", "params_ratio_high"),
    ("effectiveness_low", "effectiveness_tune"),
    ("hit_rate_band_low", "hit_rate_band_high"),
)


class Thresholds(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Where healthy ends. Shares are 0 to 1."""

    # fmt: off
    # symbolic, and what 000 says of all
    hit_rate_low: Annotated[float, share("000: alert when fewer of the eligible calls hit", "A")] = 0.70
    hit_rate_band_low: Annotated[float, share("000: expected stability, from", "A")] = 0.783
    hit_rate_band_high: Annotated[float, share("000: expected stability, to", "A")] = 0.831
    fallbacks_per_minute: Annotated[float, amount("000: alert when more calls a minute fall back", "A")] = 5.0
    fallback_share_high: Annotated[float, share("and at least this share of the calls that asked")] = 0.10
    fast_path_gone: Annotated[float, share(
        "layer down: hits are fewer than this share of eligible calls")] = 0.05
    fast_p95_seconds: Annotated[float, amount("p95 of answered calls on the fast path")] = 3.0
    symbolic_p95_seconds: Annotated[float, amount(
        "000: time-out of the fast attempt (healthy: 28-38 ms)", "A")] = 0.300
    engine_p95_seconds: Annotated[float, amount(
        "p95 of the time the fast engine reports, warm (000: 28-38 ms)")] = 0.050
    # pruning
    pruned_share_low: Annotated[float, share(
        "001: healthy from this share of the original tokens", "A")] = 0.25
    pruned_share_high: Annotated[float, share(
        "001: healthy up to this share of the original tokens", "A")] = 0.40
    prune_step: Annotated[float, share("001: roll prune_ratio back by this much", "A")] = 0.03
    effectiveness_low: Annotated[float, share(
        "001: alert when quality of pruned / control is lower", "A")] = 0.975
    effectiveness_tune: Annotated[float, share("001: tune when it is lower", "A")] = 0.98
    # intent
    consistency_low: Annotated[float, share(
        "002: alert when fewer deterministic repeats are the same", "A")] = 0.999
    consistency_expected: Annotated[float, share("002: expected of deterministic repeats", "A")] = 0.9999
    creative_same_high: Annotated[float, share(
        "002: creative repeats that are the same, at most", "A")] = 0.15
    creative_surge: Annotated[float, amount(
        "002: growth of the creative share against an hour ago (3 = +300 %)", "A")] = 3.0
    rollout_p95_seconds: Annotated[float, amount(
        "002: gate of the roll-out, p95 of the fast path", "A")] = 0.300
    rollout_errors: Annotated[float, share(
        "gate of the roll-out, share of 5xx attempts (002 names no figure)")] = 0.01
    # zeroing
    params_ratio_low: Annotated[float, share("003: below, zeroing is too timid", "A")] = 0.2
    params_ratio_high: Annotated[float, share("003: above, too much is zeroed", "A")] = 0.7
    params_ratio_healthy_low: Annotated[float, share("003: healthy from", "A")] = 0.3
    params_ratio_healthy_high: Annotated[float, share("003: healthy up to", "A")] = 0.6
    zeroing_fallback_high: Annotated[float, share(
        "003: alert when more zeroed calls fall back over 5 minutes", "A")] = 0.05
    zeroing_step: Annotated[float, share("003: raise zeroing_threshold by this share", "A")] = 0.20
    # scheduling
    vendor_cache_hit_low: Annotated[float, share(
        "004: cache_hit_rate{layer=zero} is healthy above", "A")] = 0.30
    decompression_p95_ms: Annotated[float, amount(
        "004: decompression_latency_p95{precision=fp16}, warn above", "A")] = 45.0
    anchor_efficiency_low: Annotated[float, share(
        "004: kv_slice_efficiency{block_type=anchor}, warn below", "A")] = 0.85
    # calls, providers and limits
    provider_failing: Annotated[float, share("share of a provider's finished calls that fail")] = 0.5
    calls_p95_seconds: Annotated[float, amount("p95 of answered calls on the full path")] = 60.0
    first_token_p95_seconds: Annotated[float, amount(
        "p95 of the time to the first token on the full path")] = 5.0
    broken_streams: Annotated[float, share("share of streams without their last event")] = 0.02
    rate_limited: Annotated[float, share("share of attempts that are answered 429")] = 0.05
    overloaded: Annotated[float, share("share of attempts that are answered 529 or 503")] = 0.05
    headroom_low: Annotated[float, share("share of a rate limit that is left")] = 0.10
    attempts_per_call: Annotated[float, amount("attempts for each call", low=1.0)] = 1.5
    model_fallbacks: Annotated[float, share("fallbacks to another model per operation")] = 0.10
    # money and caches
    cost_spike_factor: Annotated[float, amount(
        "this hour against the dearest hour of the week", low=1.0)] = 1.5
    budget_early: Annotated[float, share("share of the daily budget at which to warn")] = 0.8
    cache_reads_per_write: Annotated[float, share("tokens read from the cache for each token written")] = 0.1
    prompt_cache_drop: Annotated[float, share("share from cache, as a part of what it was")] = 0.7
    cost_incomplete: Annotated[float, share("share of calls without a price or without usage")] = 0.05
    # lz_otel itself
    malformed: Annotated[float, share("unreadable signals per call")] = 0.01
    overhead_p99_seconds: Annotated[float, amount("p99 of the time inside lz_otel per call")] = 0.005
    # fmt: on

    def __post_init__(self) -> None:
        for low, high in _ORDERED:
            least, most = getattr(self, low), getattr(self, high)
            if least > most:
                raise ConfigurationError(low, least, f"at most thresholds.{high} ({most})")


class Guards(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Fewer than this is too little to judge by: the guards against low traffic. Counts per window."""

    # fmt: off
    failures: Annotated[float, amount("failed calls in the long window before a burning budget counts")] = 10
    provider_failures: Annotated[float, amount("failed calls of one provider in 10 minutes")] = 20
    calls: Annotated[float, amount("calls behind a percentile or a hit rate")] = 50
    streams: Annotated[float, amount("broken streams in 15 minutes")] = 5
    spend_limit_errors: Annotated[float, amount(
        "more than so many refusals for want of money, in 5 minutes")] = 2
    credential_errors: Annotated[float, amount("more than so many refused credentials in 5 minutes")] = 5
    rate_limited: Annotated[float, amount("refused attempts in 10 minutes")] = 20
    retries: Annotated[float, amount("retries in 5 minutes")] = 20
    model_fallbacks: Annotated[float, amount("fallbacks between models in 15 minutes")] = 10
    eligible_now: Annotated[float, amount(
        "eligible calls in 5 minutes before the layer can be called down")] = 20
    hits_before: Annotated[float, amount("hits within the day that show that the layer was up")] = 100
    zeroing_fallbacks: Annotated[float, amount("zeroing fallbacks in 5 minutes")] = 3
    wrong_headers: Annotated[float, amount("calls with the wrong intent header in 15 minutes")] = 3
    ghost_entities: Annotated[float, amount("more than so many foreign entities in 10 minutes")] = 2
    different_answers: Annotated[float, amount("more than so many different answers in the hour")] = 2
    quality_scores: Annotated[float, amount("scores per group in 30 minutes")] = 20
    original_tokens: Annotated[float, amount("tokens before pruning in 30 minutes")] = 10_000
    mask_events: Annotated[float, amount(
        "masks in 15 minutes (003: constant over 100 tokens of one stream; here all streams count)")] = 1000
    zeroing_reports: Annotated[float, amount("zeroing reports in 30 minutes")] = 20
    creative_calls: Annotated[float, amount("creative calls in 15 minutes")] = 50
    cost_usd: Annotated[float, amount("USD an hour below which no spike counts")] = 5.0
    cost_hours: Annotated[float, amount("hours of history before a spike counts")] = 24
    cache_tokens: Annotated[float, amount("input tokens in the hour before a cache is judged")] = 1_000_000
    cache_write_tokens: Annotated[float, amount(
        "written tokens in 6 hours before unread ones count")] = 50_000
    overspent_usd: Annotated[float, amount("USD of cache writes in 6 hours")] = 1.0
    internal_errors: Annotated[float, amount("more than so many faults of lz_otel in 15 minutes")] = 3
    unpriced_calls: Annotated[float, amount("calls without a price in the hour")] = 10
    # fmt: on
