"""The numbers that rules, dashboards and runbooks judge by: each once, with its source.

**A**: an article (000-004). **C**: chosen by lz-otel. Shares are 0 to 1; durations are seconds unless the
name says otherwise.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

__all__ = ["Guards", "Thresholds", "number", "share"]


def share(default: float, mark: str, doc: str) -> Any:
    return field(default=default, metadata={"mark": mark, "doc": doc, "low": 0.0, "high": 1.0})


def number(default: float, mark: str, doc: str, low: float = 0.0, high: float = 1e12) -> Any:
    return field(default=default, metadata={"mark": mark, "doc": doc, "low": low, "high": high})


@dataclass(frozen=True)
class Thresholds:
    """Where healthy ends. Shares are 0 to 1."""

    # symbolic, and what 000 says of all
    hit_rate_low: float = share(0.70, "A", "000: alert when fewer of the eligible calls hit")
    hit_rate_band_low: float = share(0.783, "A", "000: expected stability, from")
    hit_rate_band_high: float = share(0.831, "A", "000: expected stability, to")
    fallbacks_per_minute: float = number(5.0, "A", "000: alert when more calls a minute fall back")
    fallback_share_high: float = share(0.10, "C", "and at least this share of the calls that asked")
    fast_path_gone: float = share(0.05, "C", "layer down: hits are fewer than this share of eligible calls")
    fast_p95_seconds: float = number(3.0, "C", "p95 of answered calls on the fast path")
    symbolic_p95_seconds: float = number(0.300, "A", "000: time-out of the fast attempt (healthy: 28-38 ms)")
    engine_p95_seconds: float = number(
        0.050, "C", "p95 of the time the fast engine reports, warm (000: 28-38 ms)"
    )
    # pruning
    pruned_share_low: float = share(0.25, "A", "001: healthy from this share of the original tokens")
    pruned_share_high: float = share(0.40, "A", "001: healthy up to this share of the original tokens")
    prune_step: float = share(0.03, "A", "001: roll prune_ratio back by this much")
    effectiveness_low: float = share(0.975, "A", "001: alert when quality of pruned / control is lower")
    effectiveness_tune: float = share(0.98, "A", "001: tune when it is lower")
    # intent
    consistency_low: float = share(0.999, "A", "002: alert when fewer deterministic repeats are the same")
    consistency_expected: float = share(0.9999, "A", "002: expected of deterministic repeats")
    creative_same_high: float = share(0.15, "A", "002: creative repeats that are the same, at most")
    creative_surge: float = number(
        3.0, "A", "002: growth of the creative share against an hour ago (3 = +300 %)"
    )
    rollout_p95_seconds: float = number(0.300, "A", "002: gate of the roll-out, p95 of the fast path")
    rollout_errors: float = share(
        0.01, "C", "gate of the roll-out, share of 5xx attempts (002 names no figure)"
    )
    # zeroing
    params_ratio_low: float = share(0.2, "A", "003: below, zeroing is too timid")
    params_ratio_high: float = share(0.7, "A", "003: above, too much is zeroed")
    params_ratio_healthy_low: float = share(0.3, "A", "003: healthy from")
    params_ratio_healthy_high: float = share(0.6, "A", "003: healthy up to")
    zeroing_fallback_high: float = share(
        0.05, "A", "003: alert when more zeroed calls fall back over 5 minutes"
    )
    zeroing_step: float = share(0.20, "A", "003: raise zeroing_threshold by this share")
    # scheduling
    vendor_cache_hit_low: float = share(0.30, "A", "004: cache_hit_rate{layer=zero} is healthy above")
    decompression_p95_ms: float = number(
        45.0, "A", "004: decompression_latency_p95{precision=fp16}, warn above"
    )
    anchor_efficiency_low: float = share(0.85, "A", "004: kv_slice_efficiency{block_type=anchor}, warn below")
    # calls, providers and limits
    provider_failing: float = share(0.5, "C", "share of a provider's finished calls that fail")
    calls_p95_seconds: float = number(60.0, "C", "p95 of answered calls on the full path")
    first_token_p95_seconds: float = number(5.0, "C", "p95 of the time to the first token on the full path")
    broken_streams: float = share(0.02, "C", "share of streams without their last event")
    rate_limited: float = share(0.05, "C", "share of attempts that are answered 429")
    overloaded: float = share(0.05, "C", "share of attempts that are answered 529 or 503")
    headroom_low: float = share(0.10, "C", "share of a rate limit that is left")
    attempts_per_call: float = number(1.5, "C", "attempts for each call", 1.0)
    model_fallbacks: float = share(0.10, "C", "fallbacks to another model per operation")
    # money and caches
    cost_spike_factor: float = number(1.5, "C", "this hour against the dearest hour of the week", 1.0)
    budget_early: float = share(0.8, "C", "share of the daily budget at which to warn")
    cache_reads_per_write: float = share(0.1, "C", "tokens read from the cache for each token written")
    prompt_cache_drop: float = share(0.7, "C", "share from cache, as a part of what it was")
    cost_incomplete: float = share(0.05, "C", "share of calls without a price or without usage")
    # lz_otel itself
    malformed: float = share(0.01, "C", "unreadable signals per call")
    overhead_p99_seconds: float = number(0.005, "C", "p99 of the time inside lz_otel per call")


@dataclass(frozen=True)
class Guards:
    """Fewer than this is too little to judge by: the guards against low traffic. Counts per window."""

    failures: float = number(10, "C", "failed calls in the long window before a burning budget counts")
    provider_failures: float = number(20, "C", "failed calls of one provider in 10 minutes")
    calls: float = number(50, "C", "calls behind a percentile or a hit rate")
    streams: float = number(5, "C", "broken streams in 15 minutes")
    spend_limit_errors: float = number(2, "C", "more than so many refusals for want of money, in 5 minutes")
    credential_errors: float = number(5, "C", "more than so many refused credentials in 5 minutes")
    rate_limited: float = number(20, "C", "refused attempts in 10 minutes")
    retries: float = number(20, "C", "retries in 5 minutes")
    model_fallbacks: float = number(10, "C", "fallbacks between models in 15 minutes")
    eligible_now: float = number(20, "C", "eligible calls in 5 minutes before the layer can be called down")
    hits_before: float = number(100, "C", "hits within the day that show that the layer was up")
    zeroing_fallbacks: float = number(3, "C", "zeroing fallbacks in 5 minutes")
    wrong_headers: float = number(3, "C", "calls with the wrong intent header in 15 minutes")
    ghost_entities: float = number(2, "C", "more than so many foreign entities in 10 minutes")
    different_answers: float = number(2, "C", "more than so many different answers in the hour")
    quality_scores: float = number(20, "C", "scores per group in 30 minutes")
    original_tokens: float = number(10_000, "C", "tokens before pruning in 30 minutes")
    mask_events: float = number(
        1000, "C", "masks in 15 minutes (003: constant over 100 tokens of one stream; here all streams count)"
    )
    zeroing_reports: float = number(20, "C", "zeroing reports in 30 minutes")
    creative_calls: float = number(50, "C", "creative calls in 15 minutes")
    cost_usd: float = number(5.0, "C", "USD an hour below which no spike counts")
    cost_hours: float = number(24, "C", "hours of history before a spike counts")
    cache_tokens: float = number(1_000_000, "C", "input tokens in the hour before a cache is judged")
    cache_write_tokens: float = number(50_000, "C", "written tokens in 6 hours before unread ones count")
    overspent_usd: float = number(1.0, "C", "USD of cache writes in 6 hours")
    internal_errors: float = number(3, "C", "more than so many faults of lz_otel in 15 minutes")
    unpriced_calls: float = number(10, "C", "calls without a price in the hour")
