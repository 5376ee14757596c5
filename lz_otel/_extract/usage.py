"""What usage objects state, and what of it can be true: the rules for counts, of every dialect, in one place.

- Counts of one answer never fall: a smaller value that comes later does not replace a larger one (`state`).
- The total decides whether a part (cached, written, reasoning tokens) is inside its whole or beside it
  (`settle`). Where no total is stated, the provider's documentation does.
- What leaves here was stated, or is a sum or a difference that the provider's own rule gives. Nothing is
  cut to fit. A part that is inside and larger than its whole is left out and noted as malformed.
- A total may hold more than any count names (Gemini behind OpenAI's API hides its thoughts so). The counts
  stay as they are stated, since nothing says what the rest is; only the price is not complete then.
"""

from __future__ import annotations

from itertools import combinations
from math import inf, isfinite
from typing import TYPE_CHECKING, Any

from lz_otel._extract.values import add_fee, json_object, token_count

if TYPE_CHECKING:
    from lz_otel._extract.writer import FactsWriter
    from lz_otel.model import Facts

_TICKS_PER_USD = 1e10  # xAI (D)
_INPUT = ("prompt_tokens", "input_tokens")
_OUTPUT = ("completion_tokens", "output_tokens")
_INPUT_DETAILS = (
    "prompt_tokens_details",
    "input_tokens_details",
    "prompt_token_details",
    "input_token_details",
)
_OUTPUT_DETAILS = ("completion_tokens_details", "output_tokens_details", "output_token_details")
_KEYS = (*_INPUT, *_OUTPUT, "total_tokens")


def has_counts(usage: Any) -> bool:
    """Return whether a usage object states anything (some streams begin with an empty one)."""
    return type(usage) is dict and any(usage.get(key) is not None for key in _KEYS)


def state(reader: FactsWriter, usage: Any) -> None:
    """Take over what a usage object states, beside what the answer has stated before.

    Args:
        reader: holds what was stated; notes what is no object.
        usage: the decoded value; ``None`` says nothing.
    """
    if type(usage) is not dict:
        if usage is not None:
            reader._note("usage")
    elif reader._usage is None:
        reader._usage = usage
    else:
        reader._usage = _grown(reader._usage, usage, nested=True)


def _grown(before: dict[str, Any], after: dict[str, Any], *, nested: bool) -> dict[str, Any]:
    """Return both objects as one: null leaves what was there, and no number becomes smaller."""
    grown = dict(before)
    for key, value in after.items():
        known = before.get(key)
        if type(known) is dict and nested:
            grown[key] = _grown(known, value, nested=False) if type(value) is dict else known
        else:
            grown[key] = largest(known, value)
    return grown


def largest(before: Any, after: Any) -> Any:
    """Return the later of two stated values, unless it is null or a smaller number."""
    if after is None:
        return before
    if type(before) in (int, float) and not (type(after) in (int, float) and after > before):
        return before
    return after


def read_usage(reader: FactsWriter, usage: Any, *, final: bool = True) -> None:
    """Put a usage object of OpenAI, or of the many APIs shaped like it, into the reader's facts.

    The input count is the whole prompt: cached and written tokens are inside (D), unlike Anthropic's.

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
    facts.input_tokens = _largest(reader, usage, _INPUT)
    facts.output_tokens = _largest(reader, usage, _OUTPUT)
    inside, outside = _details(usage, _INPUT_DETAILS), _details(usage, _OUTPUT_DETAILS)
    read = _largest(reader, inside, ("cached_tokens",))
    if read is None:
        read = _largest(reader, usage, ("prompt_cache_hit_tokens", "cached_tokens"))
    reasoning = _largest(reader, outside, ("reasoning_tokens",))
    if reasoning is None:
        reasoning = _largest(reader, usage, ("reasoning_tokens",))
    facts.cache_read_tokens, facts.reasoning_tokens = read, reasoning
    facts.cache_write_tokens = written = reader._count(inside, "cache_write_tokens")
    settle(reader, usage.get("total_tokens"), (read or 0, written or 0), (reasoning or 0,))
    facts.input_tokens_by_modality = by_modality(reader, facts.input_tokens, _kinds(inside))
    facts.output_tokens_by_modality = by_modality(reader, facts.output_tokens, _kinds(outside))
    if facts.input_tokens_by_modality is not None and read:
        kinds = _kinds(json_object(inside.get("cached_tokens_details")))
        facts.cached_tokens_by_modality = by_modality(reader, read, kinds)
    facts.cost_reported = _cost(usage)
    _fees(facts, usage, inside)
    reader._names(tier=facts.service_tier or usage.get("service_tier"))
    facts.usage_seen = final and (facts.input_tokens is not None or facts.output_tokens is not None)
    facts.output_final = final and facts.output_tokens is not None


def _largest(reader: FactsWriter, usage: dict[str, Any], keys: tuple[str, ...]) -> int | None:
    """Return the largest of what is stated under these names: gateways send one of them as 0."""
    found: int | None = None
    for key in keys:
        if usage.get(key) is not None:
            number = reader._count(usage, key)
            if number is not None and (found is None or number > found):
                found = number
    return found


def _details(usage: dict[str, Any], keys: tuple[str, ...]) -> dict[str, Any]:
    for key in keys:
        found = usage.get(key)
        if found:
            return json_object(found)
    return {}


def settle(reader: FactsWriter, total: Any, of_input: tuple[int, ...], of_output: tuple[int, ...]) -> None:
    """Make the counts of the facts agree with the total that the provider states, and with each other.

    Args:
        reader: its facts hold input and output as the provider's documentation adds them up.
        total: the decoded value of the total; ``None`` where none is stated.
        of_input: parts of the input: positive where documented as inside of it, so that it may turn out to
            be beside; negative where it was added, so that it may turn out to be inside.
        of_output: the same of the output.
    """
    facts = reader.facts
    whole, output, stated = facts.input_tokens, facts.output_tokens, token_count(total)
    if stated and whole is not None and output is not None and stated != whole + output:
        _agree(reader, stated - whole - output, of_input, of_output)
        whole, output = facts.input_tokens, facts.output_tokens
    read, written, reasoning = facts.cache_read_tokens, facts.cache_write_tokens, facts.reasoning_tokens
    if whole is not None and (read or 0) + (written or 0) > whole:
        both = (read or 0) <= whole and (written or 0) <= whole
        if both or (read or 0) > whole:
            facts.cache_read_tokens = None
        if both or (written or 0) > whole:
            facts.cache_write_tokens = facts.cache_write_5m_tokens = facts.cache_write_1h_tokens = None
        _contradicts(reader)
    if output is not None and reasoning is not None and reasoning > output:
        facts.reasoning_tokens = None
        _contradicts(reader)


def _agree(reader: FactsWriter, missing: int, of_input: tuple[int, ...], of_output: tuple[int, ...]) -> None:
    """Move parts beside their wholes, or inside, so that they add up; the fewest that do."""
    facts = reader.facts
    parts = [(part, 0) for part in of_output if part] + [(part, 1) for part in of_input if part]
    for number in range(1, len(parts) + 1):
        for moved in combinations(parts, number):
            if sum(part for part, _ in moved) == missing:
                facts.output_tokens = (facts.output_tokens or 0) + sum(p for p, side in moved if not side)
                facts.input_tokens = (facts.input_tokens or 0) + sum(p for p, side in moved if side)
                return
    facts.settled = facts.settled and missing < 0  # a total that is too small hides nothing


def _contradicts(reader: FactsWriter) -> None:
    reader._note("usage")
    reader.facts.settled = False


def by_modality(reader: FactsWriter, whole: int | None, parts: dict[str, int]) -> dict[str, int] | None:
    """Return tokens by kind, adding up to the whole, text being the rest.

    Returns:
        ``None`` when all of it is text or it is not said; all of it as ``unknown`` when the parts are more.
    """
    other = {kind: number for kind, number in parts.items() if number and kind != "text"}
    if whole is None or not other:
        return None
    rest = whole - sum(other.values())
    if rest < 0:
        _contradicts(reader)
        return {"unknown": whole}
    return {"text": rest, **other} if rest else other


def _kinds(details: dict[str, Any]) -> dict[str, int]:
    return {kind: token_count(details.get(f"{kind}_tokens")) or 0 for kind in ("image", "audio")}


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
