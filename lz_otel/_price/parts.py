"""The parts of a cost: cached tokens, tokens that are no text, fees. What has no price is named."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from lz_otel._price.table import Rates
    from lz_otel.model import Facts

_tuple = tuple.__new__  # a call of a NamedTuple takes twice as long, and this one is made for every call
_PARTS = {"image": "image", "audio": "audio", "cache": "cache"}  # by the first word of a fee's name


class Cost(NamedTuple):
    """USD of one call.

    Attributes:
        usd: what it cost.
        full_usd: what it would have cost with every input token uncached, at the same tier, place
            and size; ``None`` when only the provider's own figure is known.
        prompt_cache_saved_usd: ``full_usd - usd`` where that is positive, else 0.
        prompt_cache_overspent_usd: ``usd - full_usd`` where that is positive (writes), else 0.
    """

    usd: float
    full_usd: float | None
    prompt_cache_saved_usd: float = 0.0
    prompt_cache_overspent_usd: float = 0.0


def cost_of(usd: float, full: float) -> Cost:
    """Return a cost, and what is saved or overspent against the full price."""
    less = full - usd
    return _tuple(Cost, (usd, full, less, 0.0) if less >= 0 else (usd, full, 0.0, -less))


def fee_part(name: str) -> str:
    """Return the value of ``part`` for a fee without a price."""
    return _PARTS.get(name.partition("_")[0], "tool_fee")


def cache_parts(facts: Facts, total: int) -> tuple[int, int, int]:
    """Return cached tokens read, written, and written for an hour; no part is larger than the whole."""
    read = facts.cache_read_tokens or 0
    write_1h = facts.cache_write_1h_tokens or 0
    write = facts.cache_write_tokens
    if write is None:
        write = (facts.cache_write_5m_tokens or 0) + write_1h
    if read > total:
        read = total
    if write > total - read:
        write = total - read
    return read, write, min(write_1h, write)


def cached(rates: Rates, full: float, read: int, write: int, write_1h: int) -> Cost | str:
    """Return the cost where so much of the input was cached; without a split, writes are for 5 minutes."""
    usd = full
    for number, rate in ((read, rates[2]), (write, rates[3]), (write_1h, rates[4])):
        if number:
            if rate is None:
                return "cache"
            usd += number * (rate - rates[0])
    return cost_of(usd, full)


def mixed(facts: Facts, rates: Rates, as_text: tuple[str, ...], spent: float) -> Cost | str:
    """Return the cost of a call with tokens that are no text.

    Args:
        facts: with the tokens by kind; what is left of the whole is text.
        rates: of the call.
        as_text: kinds of input that are billed as text where they have no price of their own.
        spent: fees.
    """
    known = rates.kinds or {}
    full = spent
    left = facts.output_tokens or 0
    for kind, number in (facts.output_tokens_by_modality or {}).items():
        if kind != "text" and number:
            rate = known.get(f"{kind}_output")
            if rate is None or number > left:
                return _kind_part(kind)
            full += number * rate
            left -= number
    full += left * rates.output
    total = left = facts.input_tokens or 0
    read, write, write_1h = cache_parts(facts, total)
    split = facts.cached_tokens_by_modality
    read_as_text = read
    saved = 0.0
    for kind, number in (facts.input_tokens_by_modality or {}).items():
        if kind == "text" or not number:
            continue
        rate = known.get(f"{kind}_input")
        if kind == "unknown" and "video_input" in known:
            rate = None
        elif rate is None and kind in as_text:
            rate = rates.input
        if rate is None or number > left:
            return _kind_part(kind)
        left -= number
        full += number * rate
        if not read or (rate == rates.input and f"{kind}_cache_read" not in known):
            continue
        # Tokens of this kind may be among the cached ones, and have a price of their own
        here = None if split is None else min(split.get(kind, 0), read_as_text)
        cheaper = known.get(f"{kind}_cache_read")
        if here is None or (here and cheaper is None):
            return "cache"
        read_as_text -= here
        saved += here * (rate - (cheaper or 0.0))
    full += left * rates.input
    if (
        write
        and left < total
        and any(f"{kind}_input" in known for kind in facts.input_tokens_by_modality or ())
    ):
        return "cache"
    cost = cached(rates, full, read_as_text, write - write_1h, write_1h)
    return cost if isinstance(cost, str) else cost_of(cost.usd - saved, full)


def _kind_part(kind: str) -> str:
    return kind if kind in ("audio", "image") else "other"
