"""The dated price table: which prices hold for a model, at a provider, on a day.

Prices are data, never code: they move several times a quarter. See ``prices.toml`` for the format,
and the source and mark of every figure.
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple, Protocol

if TYPE_CHECKING:
    import datetime
    from collections.abc import Iterable

# Spellings of one model id (D: Bedrock, Vertex and the vendors' dated snapshots).
_PREFIX = re.compile(r"^(?:(?:[a-z]{2,6}(?:-gov)?\.)?anthropic|us|us-gov|eu|apac|jp|au|ca|global)\.")
_SUFFIXES = (
    re.compile(r"@[^@]*$"),  # Vertex: @20251001
    re.compile(r"-v\d+(?::\d+)*$"),  # Bedrock: -v1:0
    re.compile(r"-(?:20\d{6}|20\d\d-\d\d-\d\d)$"),  # a dated snapshot
    re.compile(r"-latest$"),
    re.compile(r"(?<=-preview)-\d\d-(?:\d\d|20\d\d)$"),  # Gemini: -preview-05-20
    re.compile(r"(?<=\w)-00\d$"),  # Gemini: -001
)
VENDORS = ("openai", "anthropic", "gcp.gemini")
"""Whose list prices hold where the provider has no prices of its own: a gateway, say."""
STANDARD_TIERS = {"standard": 1.0, "default": 1.0, "auto": 1.0, "on_demand": 1.0}


def normalise(model: str) -> str:
    """Return the model id without region, vendor, version and date: the key of the price table.

    ``us.anthropic.claude-haiku-4-5-20251001-v1:0``, ``claude-haiku-4-5@20251001`` and
    ``anthropic/claude-haiku-4-5`` all give ``claude-haiku-4-5``.
    """
    name = _PREFIX.sub("", model.strip().lower().rsplit("/", 1)[-1])
    for suffix in _SUFFIXES:
        name = suffix.sub("", name)
    return name


class Rates(NamedTuple):
    """USD per token; ``None``: no price, so a call with such tokens is unpriced.

    Attributes:
        kinds: prices of tokens that are no text, by kind and side: ``audio_input``, ``image_output``, …
    """

    input: float
    output: float
    cache_read: float | None
    cache_write_5m: float | None
    cache_write_1h: float | None
    kinds: dict[str, float] | None = None

    def times(self, factor: float) -> Rates:
        """Return all rates times ``factor``."""
        kinds = self.kinds and {name: rate * factor for name, rate in self.kinds.items()}
        read, write_5m, write_1h = (None if rate is None else rate * factor for rate in self[2:5])
        return Rates(self.input * factor, self.output * factor, read, write_5m, write_1h, kinds)


class Step(NamedTuple):
    """Rates, and those of a prompt with more than ``long_above`` tokens."""

    rates: Rates
    long: Rates | None = None
    long_above: float = math.inf


@dataclass(frozen=True, slots=True)
class Row:
    """One row of the table: prices of some models from a day on.

    Attributes:
        ids: normalised model ids (those of a user's file also as written).
        effective: first second (epoch, UTC) on which it holds.
        rates, long, fast: USD per token; ``long`` above ``long_above`` prompt tokens.
        tiers: prices of a service tier; ``None``: the vendor's factors hold.
        hours: prices at some hours of the day (UTC): first and last minute, and the rates.
        fees: USD for one of what is billed beside tokens, over the vendor's.
        geo_us, regional: factors.
        providers: the only ones it holds for; empty: all but the table's ``own_prices``.
        user: it comes from the user's own file.
    """

    ids: tuple[str, ...]
    rates: Rates
    effective: float = -math.inf
    vendor: str = ""
    providers: tuple[str, ...] = ()
    long: Rates | None = None
    long_above: float = math.inf
    fast: Rates | None = None
    tiers: dict[str, Step] | None = None
    hours: tuple[tuple[int, int, Rates], ...] = ()
    fees: dict[str, float] = field(default_factory=dict)
    geo_us: float = 1.0
    regional: float = 1.0
    source: str = ""
    mark: str = ""
    user: bool = False


@dataclass(frozen=True, slots=True)
class Vendor:
    """Rules of one vendor: factor per service tier, fees, kinds of input that are billed as text."""

    tiers: dict[str, float] = field(default_factory=lambda: dict(STANDARD_TIERS))
    fees: dict[str, float] = field(default_factory=dict)
    as_text: tuple[str, ...] = ()


class Listed(Protocol):
    """Rows of the data set, by provider; models that it names without a price."""

    providers: frozenset[str]
    unknown: dict[str, list[str]]

    def rows(self, provider: str, name: str) -> list[Row]:
        """Return the rows of a model, oldest first."""


@dataclass(slots=True)
class Table:
    """All prices: rows by model id (oldest first), rules by vendor, the articles' price rules.

    Attributes:
        listed: the rows of the data set, by provider and model id; made when they are first asked for.
    """

    as_of: datetime.date
    rows: dict[str, list[Row]]
    vendors: dict[str, Vendor]
    own_prices: frozenset[str]
    layer_zero: dict[str, float]
    listed: Listed

    def find(self, model: str, provider: str, when: float) -> tuple[Row | None, float, float]:
        """Return the row in force for a model, with the span of time (epoch seconds) for which that is so.

        Gives ``(None, start, end)`` when the model has no price then.
        """
        names = dict.fromkeys((model, model.lower(), normalise(model)))
        for name in names:
            rows = [row for row in self.rows.get(name, ()) if self._holds_for(row, provider)]
            if rows:
                break
        else:
            return self._listed(names, provider, when)
        users, users_start, users_end = _in_force([row for row in rows if row.user], when)
        if users is not None:
            return users, users_start, users_end
        own = [row for row in rows if not row.user]
        built_in, start, end = _in_force(own, when) if own else self._listed(names, provider, when)
        return built_in, start, min(end, users_end)

    def _listed(self, names: Iterable[str], provider: str, when: float) -> tuple[Row | None, float, float]:
        """Return a row of the data set: of the provider or, where it has no prices, of the vendor."""
        owners: tuple[str, ...] = VENDORS
        if provider in self.own_prices or provider not in VENDORS:
            owners = (provider,) if provider in self.listed.providers else VENDORS
        if provider in self.own_prices and provider not in self.listed.providers:
            owners = ()
        for owner in owners:
            for name in names:
                rows = self.listed.rows(owner, name)
                if rows:
                    return _in_force(rows, when)
        return None, -math.inf, math.inf

    def _holds_for(self, row: Row, provider: str) -> bool:
        if row.providers:
            return provider in row.providers
        return row.user or provider not in self.own_prices


def _in_force(rows: list[Row], when: float) -> tuple[Row | None, float, float]:
    """Return the newest row that holds at ``when``, from when and until when (rows: oldest first)."""
    newest, start = None, -math.inf
    for row in rows:
        if row.effective > when:
            return newest, start, row.effective
        newest, start = row, row.effective
    return newest, start, math.inf
