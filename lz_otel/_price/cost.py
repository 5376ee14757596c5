"""What a call cost, in USD, and what it would have cost without a fast path.

Computed from the provider's own token counts and the dated tables beside this file; nothing is
estimated. A cost that the provider or a gateway states wins (D: OpenRouter ``usage.cost``, xAI
``cost_in_usd_ticks``, LiteLLM's header). A cost is whole: where one billed part has no price, there is none.
"""

from __future__ import annotations

import datetime
import math
from typing import TYPE_CHECKING, Any, NamedTuple

from msgspec import Struct

from lz_otel._price.parts import Cost, cache_parts, cached, cost_of, fee_part, mixed
from lz_otel._price.price_file import load_table
from lz_otel._price.table import STANDARD_TIERS, Rates, Row, Step
from lz_otel.model import Facts

if TYPE_CHECKING:
    from lz_otel._price.table import Table
    from lz_otel.model import Request

STALE_AFTER_DAYS = 90
MAX_REPORTED = 1e6  # USD; a single call above this is no statement of a price
MAX_COMPILED = 512
# What is billed by something that an answer without usage does not state, by a part of its path
_BILLED_OTHERWISE = (
    ("/images/", "image"), ("/audio/", "audio"), (":predict", "image"), ("/rerank", "other"),
)  # fmt: skip


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
    rates: Rates | None  # None: unpriced, for want of `part`
    part: str = "model"
    long: Rates | None = None
    long_above: float = math.inf
    fees: dict[str, float] = {}
    as_text: tuple[str, ...] = ()


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
        """Price a call that the provider stated the usage of; ``None``: unpriced, or no usage at all.

        Args:
            facts: as the reader left them. The model is the one that answered; where the
                answer names none, the one that was asked for.
            when: start of the call, epoch seconds.
            request: needed for Vertex and Bedrock, where path and host say where the endpoint is.

        Returns:
            Without an output count (a stream that was left early) the known input is priced: a
            lower bound.
        """
        cost = self.whole(facts, when, request)
        return None if isinstance(cost, str) else cost

    def whole(self, facts: Facts, when: float, request: Request | None = None) -> Cost | str:
        """Price a call, or name the part that has no price (`catalogue.PARTS`; empty: nothing was stated)."""
        reported = facts.cost_reported
        if reported is not None and 0.0 <= (stated := reported + facts.cost_besides) <= MAX_REPORTED:
            return Cost(stated, None)
        if facts.gateway_fell_back:
            return "gateway_fallback"
        return self._by_table(facts, when, request)

    def _by_table(self, facts: Facts, when: float, request: Request | None) -> Cost | str:
        """Price the answer and what was billed on top of it."""
        if not facts.settled:  # more or less was billed than the counts say
            return "other"
        total = self._answer(facts, when, request)
        for entry in facts.billed_besides or ():
            if isinstance(total, str):
                break
            cost = self._answer(_besides(facts, entry), when, request)
            if isinstance(cost, str):
                return cost
            total = cost_of(total.usd + cost.usd, (total.full_usd or 0.0) + (cost.full_usd or 0.0))
        return total

    def _answer(self, facts: Facts, when: float, request: Request | None) -> Cost | str:
        total = facts.input_tokens
        output = facts.output_tokens or 0
        fees = facts.fees
        if total is None:
            if facts.output_tokens is None and not fees:
                return _untold(facts, request)
            total = 0
        quote = self._quote(facts, when, request)
        rates = quote.rates
        if rates is None:
            return quote.part
        if total > quote.long_above:
            if quote.long is None:  # a tier without prices of long prompts, of a model that has them
                return "tier"
            rates = quote.long
        spent = 0.0
        if fees:
            for name, number in fees.items():
                price = quote.fees.get(name)
                if name == "web_search" and "grounded_prompt" in quote.fees:
                    number, price = 1, quote.fees["grounded_prompt"]
                if number and price is None:
                    return fee_part(name)
                spent += number * (price or 0.0)
        if facts.input_tokens_by_modality is not None or facts.output_tokens_by_modality is not None:
            return mixed(facts, rates, quote.as_text, spent)
        plain = rates[0]
        spent += output * rates[1]
        full = total * plain + spent
        written = facts.cache_write_tokens or facts.cache_write_5m_tokens or facts.cache_write_1h_tokens
        if not written and not facts.cache_read_tokens:
            return Cost(full, full)
        read, write, write_1h = cache_parts(facts, total)
        return cached(rates, full, read, write - write_1h, write_1h)

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
        if isinstance(cost, str):
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
        if isinstance(cost, str):
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
            place = f"{'' if request is None else request.host}/{facts.request_model or ''}"
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
        if row is None:
            return _Quote(start, end, None)
        vendor = self.table.vendors[row.vendor]
        step, start, end = _at_hour(row, when, start, end)
        tier = (tier or "standard").lower()
        factor = vendor.tiers.get(tier)
        if row.tiers is not None:
            if tier in row.tiers:
                step, factor = row.tiers[tier], 1.0
                if step.long is None:
                    step = step._replace(long_above=row.long_above)
            elif tier not in STANDARD_TIERS:
                factor = None
        if speed == "fast":
            if row.fast is None:
                factor = None
            else:
                step = Step(row.fast)
        elif speed not in (None, "", "standard"):
            factor = None
        factor = _of_place(row, factor, provider or "", geo, place)
        if factor is None:
            return _Quote(start, end, None, "tier")
        rates, long, above = step
        fees = {**vendor.fees, **row.fees}
        long = None if long is None else long.times(factor)
        return _Quote(
            start, end, rates.times(factor), "", long, above, fees, () if row.user else vendor.as_text
        )


def _at_hour(row: Row, when: float, start: float, end: float) -> tuple[Step, float, float]:
    """Return the rates of a row at a moment, and from when until when they hold."""
    step = Step(row.rates, row.long, row.long_above)
    if not row.hours:
        return step, start, end
    midnight = when - when % 86_400
    edges = [(midnight + 60 * first, midnight + 60 * last, rates) for first, last, rates in row.hours]
    for first, last, rates in edges:
        if first <= when < last:
            return Step(rates), max(start, first), min(end, last)
    ends = [midnight, *(last for _, last, _ in edges if last <= when)]
    begins = [midnight + 86_400, *(first for first, _, _ in edges if first > when)]
    return step, max(start, *ends), min(end, *begins)


def _of_place(
    row: Row, factor: float | None, provider: str, geo: str | None, place: str | None
) -> float | None:
    """Return the factor with that of the endpoint's place; ``None``: the price there is not known."""
    if factor is None:
        return None
    if geo == "us":
        factor *= row.geo_us
    elif geo not in (None, "", "global", "not_available") and row.geo_us != 1.0:
        return None
    if row.regional != 1.0 and provider in ("aws.bedrock", "gcp.vertex_ai"):
        regional = _regional(provider, place)
        return None if regional is None else factor * (row.regional if regional else 1.0)
    if provider == "aws.bedrock" and row.vendor == provider and not _is_us(place):
        return None  # the data set has the prices of the regions in the USA
    return factor


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


def _untold(facts: Facts, request: Request | None) -> str:
    """Name the part that is billed where an answer states no usage: an image, a second of audio."""
    if facts.operation != "other" or request is None:
        return ""
    for segment, part in _BILLED_OTHERWISE:
        if segment in request.path:
            return part
    return ""


def _is_us(place: str | None) -> bool:
    return place is not None and ".us-" in place and ".us-gov-" not in place


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
