"""What a file of prices may hold, and the table that the built-in one and the user's own give together.

The structs say what is allowed, ``prices.toml`` what the keys mean. Read once, at start-up; nothing here is
on the hot path.
"""

from __future__ import annotations

import datetime
import math
from pathlib import Path
from typing import Annotated, Literal

from msgspec import Meta, Struct, structs

from lz_otel._ground import toml
from lz_otel._price.table import Rates, Row, Table, Vendor
from lz_otel.errors import ConfigurationError

SETTING = "LZ_OTEL_PRICES"
BUILT_IN = Path(__file__).with_name("prices.toml")
MAX_BYTES = 1_000_000

_Price = Annotated[float, Meta(ge=0, le=1e6, extra={"allowed": "a number from 0 to 1000000"})]
_Text = Annotated[str, Meta(extra={"allowed": "a text"})]
_Name = Annotated[str, Meta(min_length=1, extra={"allowed": "a text that is not empty"})]
_Names = Annotated[list[_Name], Meta(min_length=1, extra={"allowed": "a list of texts"})]
_Mark = Annotated[Literal["D", "A", "C"], Meta(extra={"allowed": "D, A or C"})]
_Day = Annotated[datetime.date, Meta(extra={"allowed": "a date such as 2026-11-29"})]
_Vendors = Annotated[dict[str, "_Vendor"], Meta(extra={"allowed": "a table"})]
_Models = Annotated[list["_Model"], Meta(extra={"allowed": "tables that begin with [[model]]"})]


class _Rates(Struct, kw_only=True, forbid_unknown_fields=True):
    """USD per million tokens."""

    input: _Price
    output: _Price
    cache_read: _Price | None = None
    cache_write: _Price | None = None
    cache_write_5m: _Price | None = None
    cache_write_1h: _Price | None = None

    def __post_init__(self) -> None:
        by_lifetime = self.cache_write_5m is not None or self.cache_write_1h is not None
        if self.cache_write is not None and by_lifetime:
            allowed = "either cache_write, or cache_write_5m and cache_write_1h"
            raise ConfigurationError("cache_write", self.cache_write, allowed)

    def per_token(self) -> Rates:
        """Return USD per token; what is left out has its default."""
        read = _first(self.cache_read, self.input)
        write_5m = _first(self.cache_write_5m, self.cache_write, self.input)
        write_1h = _first(self.cache_write_1h, write_5m)
        return Rates(self.input, self.output, read, write_5m, write_1h).times(1e-6)


class _LongRates(_Rates, kw_only=True, forbid_unknown_fields=True):
    above: Annotated[int, Meta(ge=0, extra={"allowed": "a whole number of tokens"})]


class _Model(_Rates, kw_only=True, forbid_unknown_fields=True):
    ids: _Names
    vendor: _Text | None = None
    providers: _Names | None = None
    effective: _Day | None = None
    long: _LongRates | None = None
    fast: _Rates | None = None
    geo_us: _Price | None = None
    regional: _Price | None = None
    source: _Text = ""
    mark: _Mark = "C"
    as_of: _Day | None = None

    def row(self, base: Table | None) -> Row:
        """Return the row; a user's keeps the rules (not the prices) of the one it replaces in ``base``."""
        ids = tuple(name.lower() for name in self.ids)
        built_in = {} if base is None else base.rows
        known = next((built_in[name][-1] for name in ids if name in built_in), None)
        return Row(
            ids,
            self.per_token(),
            effective=-math.inf if self.effective is None else _epoch(self.effective),
            vendor=self.vendor if self.vendor is not None else known.vendor if known else "",
            providers=tuple(self.providers or ()),
            long=self.long.per_token() if self.long else None,
            long_above=self.long.above if self.long else math.inf,
            fast=self.fast.per_token() if self.fast else None,
            geo_us=_first(self.geo_us, known.geo_us if known else 1.0),
            regional=_first(self.regional, known.regional if known else 1.0),
            source=self.source,
            mark=self.mark,
            user=base is not None,
        )


class _Vendor(Struct, kw_only=True, forbid_unknown_fields=True):
    tiers: dict[str, _Price] = {}
    web_search: _Price | None = None
    source: _Text = ""
    mark: _Mark = "C"


class _LayerZero(Struct, kw_only=True, forbid_unknown_fields=True):
    symbolic_input: _Price | None = None
    scheduling_short: _Price | None = None
    scheduling_long: _Price | None = None
    scheduling_similar: _Price | None = None
    long_above: _Price | None = None
    similar_qps_above: _Price | None = None
    source: _Text = ""
    mark: _Mark = "C"


class _PriceFile(Struct, kw_only=True, forbid_unknown_fields=True):
    format: Annotated[Literal[1], Meta(extra={"allowed": "1"})] = 1
    as_of: _Day = datetime.date.min
    own_prices: list[_Name] | None = None
    vendor: _Vendors = {}
    layer_zero: _LayerZero | None = None
    model: _Models = []


def load_table(user_file: str | None = None) -> Table:
    """Return the built-in table, with the rows and rules of ``user_file`` over it.

    Raises:
        ConfigurationError: the file cannot be read, or a key of it has a value that is not
            allowed; the text names file, key, value and what is allowed.
    """
    table = _read(BUILT_IN, None)
    return _read(Path(user_file).expanduser(), table) if user_file else table


def _read(path: Path, base: Table | None) -> Table:
    if path.exists() and (not path.is_file() or path.stat().st_size > MAX_BYTES):
        raise ConfigurationError(SETTING, str(path), f"a plain file of at most {MAX_BYTES} bytes")
    stated = toml.load(path, _PriceFile, name=SETTING)
    below = base or Table(datetime.date.min, {}, {"": Vendor()}, frozenset(), {})
    table = Table(
        max(below.as_of, stated.as_of),
        dict(below.rows),
        dict(below.vendors),
        below.own_prices if stated.own_prices is None else frozenset(stated.own_prices),
        dict(below.layer_zero),
    )
    for name, rules in stated.vendor.items():
        before = table.vendors.get(name, Vendor())
        search = _first(rules.web_search, before.web_search)
        table.vendors[name] = Vendor({**before.tiers, **rules.tiers}, search)
    if stated.layer_zero is not None:
        figures = structs.asdict(stated.layer_zero).items()
        table.layer_zero |= {name: value for name, value in figures if isinstance(value, float)}
    _add_models(table, stated.model, base, f"{SETTING} ({path})")
    return table


def _add_models(table: Table, models: list[_Model], base: Table | None, where: str) -> None:
    seen: set[tuple[str, float, tuple[str, ...]]] = set()
    for index, model in enumerate(models):
        row = model.row(base)
        if row.vendor and row.vendor not in table.vendors:
            allowed = "one of " + ", ".join(sorted(filter(None, table.vendors)))
            raise ConfigurationError(f"{where} model[{index}].vendor", row.vendor, allowed)
        for name in row.ids:
            key = (name, row.effective, row.providers)
            if key in seen:
                allowed = "one row per model, providers and effective date"
                raise ConfigurationError(f"{where} model[{index}].ids", name, allowed)
            seen.add(key)
            rows = (*table.rows.get(name, ()), row)
            table.rows[name] = sorted(rows, key=lambda row: row.effective)


def _first(*values: float | None) -> float:
    """Return the first value that is given; the last always is."""
    return next(value for value in values if value is not None)


def _epoch(day: datetime.date) -> float:
    return datetime.datetime(day.year, day.month, day.day, tzinfo=datetime.UTC).timestamp()
