"""The dated price table: which prices hold for a model, at a provider, on a day.

Prices are data, never code: they move several times a quarter. See ``prices.toml`` for the format,
and the source and mark of every figure.
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    import datetime

# Spellings of one model id (D: Bedrock, Vertex and the vendors' dated snapshots).
_PREFIX = re.compile(r"^(?:[a-z]{2,6}(?:-gov)?\.)?anthropic\.")
_SUFFIXES = (
    re.compile(r"@[^@]*$"),  # Vertex: @20251001
    re.compile(r"-v\d+(?::\d+)*$"),  # Bedrock: -v1:0
    re.compile(r"-(?:20\d{6}|20\d\d-\d\d-\d\d)$"),  # a dated snapshot
    re.compile(r"-latest$"),
)
_STANDARD_TIERS = {"standard": 1.0, "default": 1.0, "auto": 1.0, "on_demand": 1.0}


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
    """USD per token."""

    input: float
    output: float
    cache_read: float
    cache_write_5m: float
    cache_write_1h: float

    def times(self, factor: float) -> Rates:
        """Return all rates times ``factor``."""
        return Rates(*(rate * factor for rate in self))


@dataclass(frozen=True, slots=True)
class Row:
    """One row of the table: prices of some models from a day on.

    Attributes:
        ids: normalised model ids (those of a user's file also as written).
        effective: first second (epoch, UTC) on which it holds.
        rates, long, fast: USD per token; ``long`` above ``long_above`` prompt tokens.
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
    geo_us: float = 1.0
    regional: float = 1.0
    source: str = ""
    mark: str = ""
    user: bool = False


@dataclass(frozen=True, slots=True)
class Vendor:
    """Rules of one vendor: factor per service tier, USD per web search."""

    tiers: dict[str, float] = field(default_factory=lambda: dict(_STANDARD_TIERS))
    web_search: float = 0.0


@dataclass(slots=True)
class Table:
    """All prices: rows by model id (oldest first), rules by vendor, the articles' price rules."""

    as_of: datetime.date
    rows: dict[str, list[Row]]
    vendors: dict[str, Vendor]
    own_prices: frozenset[str]
    layer_zero: dict[str, float]

    def find(self, model: str, provider: str, when: float) -> tuple[Row | None, float, float]:
        """Return the row in force for a model, with the span of time (epoch seconds) for which that is so.

        Gives ``(None, start, end)`` when the model has no price then.
        """
        for name in dict.fromkeys((model, model.lower(), normalise(model))):
            rows = [row for row in self.rows.get(name, ()) if self._holds_for(row, provider)]
            if rows:
                break
        else:
            return None, -math.inf, math.inf
        users, users_start, users_end = _in_force([row for row in rows if row.user], when)
        if users is not None:
            return users, users_start, users_end
        built_in, start, end = _in_force([row for row in rows if not row.user], when)
        return built_in, start, min(end, users_end)

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
