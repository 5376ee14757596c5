"""What a call cost, in USD, and what it would have cost without a fast path.

Computed from the provider's own token counts and the dated table in ``prices.toml``; nothing is
estimated. A cost that the provider itself states wins (D: OpenRouter ``usage.cost``, xAI
``cost_in_usd_ticks``).
"""

from __future__ import annotations

import datetime
import math
from typing import TYPE_CHECKING, Any, NamedTuple

from msgspec import Struct

from lz_otel._price.price_file import load_table
from lz_otel._price.table import Rates
from lz_otel.model import Facts

if TYPE_CHECKING:
    from lz_otel._price.table import Table
    from lz_otel.model import Request

STALE_AFTER_DAYS = 90
MAX_REPORTED = 1e6  # USD; a single call above this is no statement of a price
MAX_COMPILED = 512
_tuple = tuple.__new__  # a call of a NamedTuple takes twice as long, and this one is made for every call


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


class FastPrice(NamedTuple):
    """USD of a call that a mechanism served.

    Attributes:
        usd: what it cost.
        full_usd: what it would have cost without that mechanism (a prompt cache's part included,
            so that no saving is counted for two mechanisms).
        saved_usd: the difference.
    """

    usd: float
    full_usd: float
    saved_usd: float


class _Quote(Struct, frozen=True, gc=False):
    """Rates ready to multiply with, and the span of epoch seconds in which they hold."""

    start: float
    end: float
    rates: Rates | None  # None: unpriced
    long: Rates | None
    long_above: float
    web_search: float


class Prices:
    """The price table, compiled per combination of model, provider, tier, speed and place.

    Thread-safe without a lock: the compiled quotes are a dictionary that is only added to, and
    emptied when it holds ``MAX_COMPILED`` (model names come from the wire).
    """

    def __init__(self, table: Table) -> None:
        self.table = table
        self._quotes: dict[tuple[str | None, ...], _Quote] = {}

    @classmethod
    def load(cls, user_file: str | None = None) -> Prices:
        """Return the built-in table, with the user's own file (setting ``prices``) over it.

        Raises:
            ConfigurationError: the file, a key or a value of it cannot be used.
        """
        return cls(load_table(user_file))

    def stale(self, now: float) -> str | None:
        """Return a warning when the newest table is more than 90 days old at ``now`` (epoch seconds)."""
        today = datetime.datetime.fromtimestamp(now, datetime.UTC).date()
        days = (today - self.table.as_of).days
        if days <= STALE_AFTER_DAYS:
            return None
        return (
            f"the price table is of {self.table.as_of.isoformat()}, {days} days ago: costs may be wrong; "
            "update lz-otel, or give newer prices with their as_of in LZ_OTEL_PRICES"
        )

    def price(self, facts: Facts, when: float, request: Request | None = None) -> Cost | None:
        """Price a call that the provider stated the usage of.

        Args:
            facts: as the reader left them. The model is the one that answered; where the
                answer names none, the one that was asked for.
            when: start of the call, epoch seconds.
            request: needed for Vertex only, where the path says whether the endpoint is global.

        Returns:
            ``None``: unpriced (no price for the model, tier, speed or place; or no usage at all).
            Without an output count (a stream that was left early) the known input is priced: a
            lower bound.
        """
        reported = facts.cost_reported
        if reported is not None and 0.0 <= reported <= MAX_REPORTED:
            return Cost(reported, None)
        return self._by_table(facts, when, request)

    def _by_table(self, facts: Facts, when: float, request: Request | None) -> Cost | None:
        """Price the answer and what was billed on top of it."""
        if not facts.settled:  # more or less was billed than the counts say
            return None
        total = self._answer(facts, when, request)
        for entry in facts.billed_besides or ():
            cost = self._answer(_besides(facts, entry), when, request)
            if total is None or cost is None or total.full_usd is None or cost.full_usd is None:
                return None
            total = _cost(total.usd + cost.usd, total.full_usd + cost.full_usd)
        return total

    def _answer(self, facts: Facts, when: float, request: Request | None) -> Cost | None:
        total = facts.input_tokens
        output = facts.output_tokens or 0
        if total is None:
            if facts.output_tokens is None:
                return None
            total = 0
        quote = self._quote(facts, when, request)
        rates = quote.rates
        if rates is None:
            return None
        if quote.long is not None and total > quote.long_above:
            rates = quote.long
        plain = rates[0]
        spent = output * rates[1]
        if quote.web_search:
            searches = facts.web_search_requests
            if searches:
                spent += searches * quote.web_search
        full = total * plain + spent
        read = facts.cache_read_tokens or 0
        write_1h = facts.cache_write_1h_tokens or 0
        write = facts.cache_write_tokens
        if write is None:
            write = (facts.cache_write_5m_tokens or 0) + write_1h
        if not read and not write:
            return Cost(full, full)
        # A part cannot be larger than the whole, whatever a server says: nothing is priced twice.
        if read > total:
            read = total
        if write > total - read:
            write = total - read
        if write_1h > write:
            write_1h = write
        usd = (
            (total - read - write) * plain
            + read * rates[2]
            + (write - write_1h) * rates[3]  # no split by lifetime: 5 minutes, the default
            + write_1h * rates[4]
            + spent
        )
        return _cost(usd, full)

    def input_price(
        self, facts: Facts, when: float, tokens: int, request: Request | None = None
    ) -> float | None:
        """Price ``tokens`` uncached input tokens in this call (pruned ones, say), or ``None``."""
        quote = self._quote(facts, when, request)
        long = quote.long is not None and (facts.input_tokens or 0) > quote.long_above
        rates = quote.long if long else quote.rates
        return None if rates is None else tokens * rates.input

    def symbolic_price(self, facts: Facts, when: float, request: Request | None = None) -> FastPrice | None:
        """Price a hit of the symbolic layer: input at 1/5 of the input price, output free (A, article 000).

        What was saved is against the price of the tokens that the answer states. Such an answer
        states 0 output tokens, so it is a lower bound.
        """
        cost = self._by_table(facts, when, request)
        if cost is None:
            return None
        plain = self.input_price(facts, when, facts.input_tokens or 0, request) or 0.0
        usd = plain * self.table.layer_zero["symbolic_input"]
        return FastPrice(usd, cost.usd, cost.usd - usd)

    def scheduling_price(
        self, facts: Facts, when: float, similar_qps: float = 0.0, request: Request | None = None
    ) -> FastPrice | None:
        """Price a call that the zero layer's scheduler served (A, article 004).

        28 % less than full price, 62.5 % less with more than 2000 input tokens, 68 % less above
        50 similar calls per second.
        """
        cost = self._by_table(facts, when, request)
        if cost is None:
            return None
        rules = self.table.layer_zero
        size = "long" if (facts.input_tokens or 0) > rules["long_above"] else "short"
        kind = "similar" if similar_qps > rules["similar_qps_above"] else size
        less = rules[f"scheduling_{kind}"]
        return FastPrice(cost.usd * (1.0 - less), cost.usd, cost.usd * less)

    def response_cache_price(
        self, facts: Facts, when: float, request: Request | None = None
    ) -> FastPrice | None:
        """Price a hit of a response cache: free; the replayed usage says what it would have cost (D)."""
        cost = self.price(facts, when, request)
        return None if cost is None else FastPrice(0.0, cost.usd, cost.usd)

    def _quote(self, facts: Facts, when: float, request: Request | None) -> _Quote:
        provider = facts.provider
        place = None
        if provider == "aws.bedrock":
            place = facts.request_model
        elif provider == "gcp.vertex_ai" and request is not None:
            place = _vertex_location(request.path)
        model = facts.response_model or facts.request_model
        key = (model, provider, facts.service_tier, facts.speed, facts.inference_geo, place)
        quote = self._quotes.get(key)
        if quote is None or not quote.start <= when < quote.end:
            if len(self._quotes) >= MAX_COMPILED:
                self._quotes = {}
            quote = self._quotes[key] = self._compile(key, when)
        return quote

    def _compile(self, key: tuple[str | None, ...], when: float) -> _Quote:
        model, provider, tier, speed, geo, place = key
        row, start, end = self.table.find(model or "", provider or "", when)
        unpriced = _Quote(start, end, None, None, math.inf, 0.0)
        if row is None:
            return unpriced
        vendor = self.table.vendors[row.vendor]
        factor = vendor.tiers.get((tier or "standard").lower())
        if factor is None:
            return unpriced
        rates, long = row.rates, row.long
        if speed == "fast":
            if row.fast is None:
                return unpriced
            rates, long = row.fast, None
        elif speed not in (None, "", "standard"):
            return unpriced
        if geo == "us":
            factor *= row.geo_us
        elif geo not in (None, "", "global", "not_available") and row.geo_us != 1.0:
            return unpriced
        if row.regional != 1.0 and provider in ("aws.bedrock", "gcp.vertex_ai"):
            regional = _regional(provider, place)
            if regional is None:
                return unpriced
            factor *= row.regional if regional else 1.0
        long = None if long is None else long.times(factor)
        return _Quote(start, end, rates.times(factor), long, row.long_above, vendor.web_search)


def _besides(facts: Facts, entry: dict[str, Any]) -> Facts:
    """Return what was billed on top as a call: compaction by the same model, advice by another (D)."""
    part = Facts(facts.provider, facts.operation, inference=True, llm_call=True)
    part.request_model = facts.request_model
    part.service_tier, part.inference_geo = facts.service_tier, facts.inference_geo
    model = entry.get("model")
    if type(model) is str:
        part.response_model = model
    else:
        part.response_model, part.speed = facts.response_model, facts.speed
    part.cache_read_tokens = read = _count(entry, "cache_read_input_tokens")
    part.cache_write_tokens = written = _count(entry, "cache_creation_input_tokens")
    part.input_tokens = _count(entry, "input_tokens") + read + written
    part.output_tokens = _count(entry, "output_tokens")
    split = entry.get("cache_creation")
    if type(split) is dict:
        part.cache_write_1h_tokens = _count(split, "ephemeral_1h_input_tokens")
    return part


def _cost(usd: float, full: float) -> Cost:
    less = full - usd
    return _tuple(Cost, (usd, full, less, 0.0) if less >= 0 else (usd, full, 0.0, -less))


def _count(stated: dict[str, Any], key: str) -> int:
    """Return a token count of a decoded object; 0 where there is none."""
    value = stated.get(key)
    return value if type(value) is int and 0 <= value < 1 << 53 else 0


def _vertex_location(path: str) -> str | None:
    """Return ``global`` or another location of a Vertex path (``/projects/p/locations/r/...``)."""
    _, marker, location = path.partition("/locations/")
    return location.partition("/")[0] if marker else None


def _regional(provider: str, place: str | None) -> bool | None:
    """Return whether the endpoint is regional (or of several regions); ``None``: it is not known (D)."""
    if not place:
        return None
    if provider == "gcp.vertex_ai":
        return place != "global"
    if "application-inference-profile" in place:
        return None
    return not place.rsplit("/", 1)[-1].startswith("global.")
