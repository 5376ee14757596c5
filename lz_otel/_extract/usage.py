"""The ``usage`` object of OpenAI and of the many APIs shaped like it.

The input count is the whole prompt: cached and written tokens are inside (D), unlike
Anthropic's. Where parts exceed the whole, the whole stands, the parts are cut, and the
contradiction is noted.
"""

from __future__ import annotations

from math import inf, isfinite
from typing import TYPE_CHECKING, Any

from lz_otel._extract.values import add_fee, json_object, token_count

if TYPE_CHECKING:
    from lz_otel._extract.reader import Reader
    from lz_otel.model import Facts

_TICKS_PER_USD = 1e10  # xAI (D)
_KEYS = ("prompt_tokens", "input_tokens", "completion_tokens", "output_tokens", "total_tokens")


def has_counts(usage: Any) -> bool:
    """Return whether a usage object states anything (some streams begin with an empty one)."""
    return type(usage) is dict and any(usage.get(key) is not None for key in _KEYS)


def read_usage(reader: Reader, usage: Any, *, final: bool = True) -> None:
    """Put a usage object into the reader's facts.

    Args:
        reader: notes what cannot be read.
        usage: the decoded value of ``usage``; anything but an object says nothing.
        final: it is the provider's last word.
    """
    if type(usage) is not dict:
        if usage is not None:
            reader._note("usage")
        return
    facts = reader.facts
    take = reader._count
    facts.input_tokens = _first(reader, usage, "prompt_tokens", "input_tokens")
    facts.output_tokens = _first(reader, usage, "completion_tokens", "output_tokens")
    inside = json_object(usage.get("prompt_tokens_details") or usage.get("input_tokens_details"))
    inside = inside or json_object(usage.get("prompt_token_details") or usage.get("input_token_details"))
    outside = json_object(usage.get("completion_tokens_details") or usage.get("output_tokens_details"))
    outside = outside or json_object(usage.get("output_token_details"))
    cached = take(inside, "cached_tokens")
    if cached is None:
        cached = _first(reader, usage, "prompt_cache_hit_tokens", "cached_tokens")
    facts.cache_read_tokens = cached
    facts.cache_write_tokens = take(inside, "cache_write_tokens")
    facts.reasoning_tokens = take(outside, "reasoning_tokens")
    if facts.reasoning_tokens is None:
        facts.reasoning_tokens = take(usage, "reasoning_tokens")
    fit_parts(reader)
    facts.input_tokens_by_modality = modalities(facts.input_tokens, inside)
    facts.output_tokens_by_modality = modalities(facts.output_tokens, outside)
    if facts.input_tokens_by_modality is not None:
        facts.cached_tokens_by_modality = modalities(cached, json_object(inside.get("cached_tokens_details")))
    facts.cost_reported = _cost(usage)
    _fees(facts, usage, inside)
    reader._names(tier=facts.service_tier or usage.get("service_tier"))
    facts.usage_seen = final and (facts.input_tokens is not None or facts.output_tokens is not None)
    facts.output_final = final and facts.output_tokens is not None


def _first(reader: Reader, usage: dict[str, Any], *keys: str) -> int | None:
    for key in keys:
        if usage.get(key) is not None:
            return reader._count(usage, key)
    return None


def fit_parts(reader: Reader) -> None:
    """Cut parts to their whole, so that they add up and none is negative."""
    facts = reader.facts
    whole = facts.input_tokens
    if whole is not None:
        read = min(facts.cache_read_tokens or 0, whole)
        written = min(facts.cache_write_tokens or 0, whole - read)
        if read != (facts.cache_read_tokens or 0) or written != (facts.cache_write_tokens or 0):
            reader._note("usage")
            facts.cache_read_tokens = read if facts.cache_read_tokens is not None else None
            facts.cache_write_tokens = written if facts.cache_write_tokens is not None else None
    output, reasoning = facts.output_tokens, facts.reasoning_tokens
    if output is not None and reasoning is not None and reasoning > output:
        reader._note("usage")
        facts.reasoning_tokens = output


def modalities(whole: int | None, details: dict[str, Any]) -> dict[str, int] | None:
    """Return tokens by kind, adding up to the whole; ``None`` when all of it is text or it is not said."""
    if whole is None:
        return None
    image = min(token_count(details.get("image_tokens")) or 0, whole)
    audio = min(token_count(details.get("audio_tokens")) or 0, whole - image)
    if not image and not audio:
        return None
    parts = {"text": whole - image - audio, "image": image, "audio": audio}
    return {kind: number for kind, number in parts.items() if number}


def _fees(facts: Facts, usage: dict[str, Any], inside: dict[str, Any]) -> None:
    """Note what the usage states beside tokens (D: Mistral, OpenRouter, xAI, OpenAI)."""
    if "prompt_audio_seconds" in usage:
        add_fee(facts, "audio_second", usage["prompt_audio_seconds"])
    if usage.get("is_byok") is True:  # OpenRouter with a key of the user's own, on which the provider bills
        upstream = _usd(json_object(usage.get("cost_details")).get("upstream_inference_cost"))
        facts.cost_besides = inf if upstream is None else upstream
    if "num_sources_used" in usage:
        add_fee(facts, "live_search_source", usage["num_sources_used"])
    written = inside.get("cache_write_tokens_details")
    if type(written) is dict:  # its price is not published
        add_fee(facts, "cache_write_12h", written.get("ttl_12h_tokens"))


def _cost(usage: dict[str, Any]) -> float | None:
    """USD that the provider says it bills: OpenRouter, Perplexity, xAI (D)."""
    cost = usage.get("cost")
    if type(cost) is dict:
        cost = cost.get("total_cost")
    if cost is None:
        ticks = token_count(usage.get("cost_in_usd_ticks"))
        return None if ticks is None else ticks / _TICKS_PER_USD
    return _usd(cost)


def _usd(value: Any) -> float | None:
    return float(value) if type(value) in (int, float) and isfinite(value) and 0 <= value < 1e9 else None
