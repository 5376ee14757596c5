"""The dated price table: reading and checking ``prices.toml`` and a user's own file.

Prices are data, never code: they move several times a quarter. See ``prices.toml`` for the format,
and the source and mark of every figure. Read once, at start-up; nothing here is on the hot path.
"""

from __future__ import annotations

import datetime
import math
import re
import tomllib
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, NamedTuple

from lz_otel.errors import ConfigurationError

__all__ = ["Rates", "Row", "Table", "load_table", "normalise"]

SETTING = "LZ_OTEL_PRICES"
BUILT_IN = Path(__file__).with_name("prices.toml")
MAX_BYTES = 1_000_000

_RATE_KEYS = ("input", "output", "cache_read", "cache_write", "cache_write_5m", "cache_write_1h")
_MODEL_KEYS = (
    "ids", "vendor", "providers", "effective", *_RATE_KEYS, "long", "fast", "geo_us", "regional", "source", "mark",
    "as_of",
)  # fmt: skip
_VENDOR_KEYS = ("tiers", "web_search", "source", "mark")
_LAYER_ZERO = (
    "symbolic_input", "scheduling_short", "scheduling_long", "scheduling_similar", "long_above", "similar_qps_above",
)  # fmt: skip
_TOP_KEYS = ("format", "as_of", "own_prices", "vendor", "layer_zero", "model")

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
    """The model id without region, vendor, version and date: the key of the price table.

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
        """All rates times ``factor``."""
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
        """The row in force for a model, with the span of time (epoch seconds) for which that is so.

        Gives ``(None, start, end)`` when the model has no price then.
        """
        for name in dict.fromkeys((model, model.lower(), normalise(model))):
            rows = [row for row in self.rows.get(name, ()) if self._holds_for(row, provider)]
            if rows:
                break
        else:
            return None, -math.inf, math.inf
        own, own_start, own_end = _in_force([row for row in rows if row.user], when)
        if own is not None:
            return own, own_start, own_end
        built_in, start, end = _in_force([row for row in rows if not row.user], when)
        return built_in, start, min(end, own_end)

    def _holds_for(self, row: Row, provider: str) -> bool:
        if row.providers:
            return provider in row.providers
        return row.user or provider not in self.own_prices


def _in_force(rows: list[Row], when: float) -> tuple[Row | None, float, float]:
    """The newest row that holds at ``when``, from when and until when (rows: oldest first)."""
    found: Row | None = None
    for row in rows:
        if row.effective > when:
            return found, found.effective if found else -math.inf, row.effective
        found = row
    return found, found.effective if found else -math.inf, math.inf


class _Reader:
    """Turns one TOML file into rows and rules, and names file and key of whatever is wrong."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def fail(self, key: str, value: object, allowed: str) -> ConfigurationError:
        return ConfigurationError(f"{SETTING} ({self.path}) {key}", value, allowed)

    def parse(self) -> dict[str, Any]:
        try:
            if self.path.stat().st_size > MAX_BYTES or not self.path.is_file():
                raise ConfigurationError(
                    SETTING, str(self.path), f"a plain file of at most {MAX_BYTES} bytes"
                )
            with self.path.open("rb") as file:
                return tomllib.load(file)
        except OSError as exc:
            raise ConfigurationError(
                SETTING, str(self.path), f"a file that can be read ({exc.strerror})"
            ) from exc
        except (tomllib.TOMLDecodeError, UnicodeDecodeError) as exc:
            raise ConfigurationError(SETTING, str(self.path), f"a TOML file ({exc})") from exc

    def table(self, where: str, value: object, keys: tuple[str, ...] | None = None) -> dict[str, Any]:
        if not isinstance(value, dict):
            raise self.fail(where, value, "a table")
        for key in value:
            if keys is not None and key not in keys:
                raise self.fail(
                    f"{where}.{key}".lstrip("."), value[key], "one of the keys " + ", ".join(keys)
                )
        return value

    def number(self, key: str, value: object) -> float:
        if isinstance(value, bool) or not isinstance(value, (int, float)) or not 0 <= value <= 1e6:
            raise self.fail(key, value, "a number from 0 to 1000000")
        return float(value)

    def texts(self, key: str, value: object) -> tuple[str, ...]:
        if not isinstance(value, list) or not value or not all(isinstance(v, str) and v for v in value):
            raise self.fail(key, value, "a list of texts")
        return tuple(value)

    def text(self, key: str, value: object) -> str:
        if not isinstance(value, str):
            raise self.fail(key, value, "a text")
        return value

    def date(self, key: str, value: object) -> datetime.date:
        if isinstance(value, datetime.datetime) or not isinstance(value, datetime.date):
            raise self.fail(key, value, "a date such as 2026-11-29 (without quotes)")
        return value

    def rates(self, where: str, given: dict[str, Any]) -> Rates:
        for key in ("input", "output"):
            if key not in given:
                raise self.fail(f"{where}.{key}", None, "a number from 0 to 1000000")
        if "cache_write" in given and ("cache_write_5m" in given or "cache_write_1h" in given):
            raise self.fail(f"{where}.cache_write", given["cache_write"],
                            "either cache_write, or cache_write_5m and cache_write_1h")  # fmt: skip
        price = {key: self.number(f"{where}.{key}", given[key]) for key in _RATE_KEYS if key in given}
        plain = price["input"]
        write = price.get("cache_write", plain)
        write_5m = price.get("cache_write_5m", write)
        return Rates(
            plain,
            price["output"],
            price.get("cache_read", plain),
            write_5m,
            price.get("cache_write_1h", write_5m),
        ).times(1e-6)

    def row(self, where: str, value: object, vendors: dict[str, Vendor], base: Table | None) -> Row:
        given = self.table(where, value, _MODEL_KEYS)
        ids = self.texts(f"{where}.ids", given.get("ids"))
        keys = tuple(name.lower() for name in ids)
        # A user's row keeps the rules (not the prices) of the built-in row that it replaces.
        known = next((base.rows[k][-1] for k in keys if k in base.rows), None) if base else None
        vendor = self.text(f"{where}.vendor", given.get("vendor", known.vendor if known else ""))
        if vendor and vendor not in vendors:
            raise self.fail(f"{where}.vendor", vendor, "one of " + ", ".join(sorted(filter(None, vendors))))
        row = Row(keys, self.rates(where, given), vendor=vendor, user=base is not None,
                  source=self.text(f"{where}.source", given.get("source", "")),
                  mark=self._mark(where, given.get("mark", "C")))  # fmt: skip
        if "as_of" in given:
            self.date(f"{where}.as_of", given["as_of"])
        if "providers" in given:
            row = replace(row, providers=self.texts(f"{where}.providers", given["providers"]))
        if "effective" in given:
            day = self.date(f"{where}.effective", given["effective"])
            row = replace(row, effective=_epoch(day))
        row = replace(
            row,
            geo_us=self.number(f"{where}.geo_us", given.get("geo_us", known.geo_us if known else 1.0)),
            regional=self.number(
                f"{where}.regional", given.get("regional", known.regional if known else 1.0)
            ),
        )
        if "fast" in given:
            fast = self.table(f"{where}.fast", given["fast"], _RATE_KEYS)
            row = replace(row, fast=self.rates(f"{where}.fast", fast))
        if "long" in given:
            long = self.table(f"{where}.long", given["long"], ("above", *_RATE_KEYS))
            above = long.get("above")
            if isinstance(above, bool) or not isinstance(above, int) or above < 0:
                raise self.fail(f"{where}.long.above", above, "a whole number of tokens")
            row = replace(row, long=self.rates(f"{where}.long", long), long_above=above)
        return row

    def _mark(self, where: str, value: object) -> str:
        if value not in ("D", "A", "C"):
            raise self.fail(f"{where}.mark", value, "D, A or C")
        return str(value)

    def read(self, base: Table | None) -> Table:
        top = self.table("", self.parse(), _TOP_KEYS)
        if top.get("format", 1) != 1:
            raise self.fail("format", top["format"], "1")
        out = Table(base.as_of if base else datetime.date.min, dict(base.rows) if base else {},
                    dict(base.vendors) if base else {"": Vendor()}, base.own_prices if base else frozenset(),
                    dict(base.layer_zero) if base else {})  # fmt: skip
        if "as_of" in top:
            out.as_of = max(out.as_of, self.date("as_of", top["as_of"]))
        if "own_prices" in top:
            names = top["own_prices"]
            out.own_prices = frozenset(self.texts("own_prices", names)) if names != [] else frozenset()
        for name, value in self.table("vendor", top.get("vendor", {})).items():
            out.vendors[name] = self._vendor(f"vendor.{name}", value, out.vendors.get(name, Vendor()))
        rules = self.table("layer_zero", top.get("layer_zero", {}), (*_LAYER_ZERO, "source", "mark"))
        out.layer_zero |= {k: self.number(f"layer_zero.{k}", rules[k]) for k in _LAYER_ZERO if k in rules}
        models = top.get("model", [])
        if not isinstance(models, list):
            raise self.fail("model", models, "tables that begin with [[model]]")
        seen: set[tuple[str, float, tuple[str, ...]]] = set()
        for number, value in enumerate(models, 1):
            row = self.row(f"model[{number}]", value, out.vendors, base)
            for name in row.ids:
                key = (name, row.effective, row.providers)
                if key in seen:
                    raise self.fail(
                        f"model[{number}].ids", name, "one row per model, providers and effective date"
                    )
                seen.add(key)
                out.rows[name] = sorted((*out.rows.get(name, ()), row), key=lambda row: row.effective)
        return out

    def _vendor(self, where: str, value: object, before: Vendor) -> Vendor:
        given = self.table(where, value, _VENDOR_KEYS)
        tiers = self.table(f"{where}.tiers", given.get("tiers", {}))
        factors = {name: self.number(f"{where}.tiers.{name}", factor) for name, factor in tiers.items()}
        search = self.number(f"{where}.web_search", given.get("web_search", before.web_search))
        return Vendor({**before.tiers, **factors}, search)


def _epoch(day: datetime.date) -> float:
    return datetime.datetime(day.year, day.month, day.day, tzinfo=datetime.UTC).timestamp()


def load_table(user_file: str | None = None) -> Table:
    """The built-in table, with the rows and rules of ``user_file`` over it.

    Raises:
        ConfigurationError: the file cannot be read, or a key of it has a value that is not
            allowed; the text names file, key, value and what is allowed.
    """
    table = _Reader(BUILT_IN).read(None)
    if user_file:
        table = _Reader(Path(user_file).expanduser()).read(table)
    return table
