"""What a file of prices may hold, and the table that the built-in one and the user's own give together.

The structs say what is allowed, ``prices.toml`` what the keys mean. Read once, at start-up; nothing here is
on the hot path.
"""

from __future__ import annotations

import datetime
import math
from pathlib import Path
from typing import Annotated, Literal

from msgspec import Meta, Raw, Struct, json, structs

from lz_otel._ground import toml
from lz_otel._price.table import Rates, Row, Step, Table, Vendor
from lz_otel.errors import ConfigurationError

SETTING = "LZ_OTEL_PRICES"
BUILT_IN = Path(__file__).with_name("prices.toml")
LISTED = Path(__file__).with_name("models.json")
MAX_BYTES = 1_000_000
KINDS = tuple(
    f"{kind}_{side}" for kind in ("audio", "image", "video") for side in ("input", "output", "cache_read")
)[:-1]

_Price = Annotated[float, Meta(ge=0, le=1e6, extra={"allowed": "a number from 0 to 1000000"})]
_Text = Annotated[str, Meta(extra={"allowed": "a text"})]
_Name = Annotated[str, Meta(min_length=1, extra={"allowed": "a text that is not empty"})]
_Names = Annotated[list[_Name], Meta(min_length=1, extra={"allowed": "a list of texts"})]
_Mark = Annotated[Literal["D", "A", "C"], Meta(extra={"allowed": "D, A or C"})]
_Day = Annotated[datetime.date, Meta(extra={"allowed": "a date such as 2026-11-29"})]
_Vendors = Annotated[dict[str, "_Vendor"], Meta(extra={"allowed": "a table"})]
_Tiers = Annotated[dict[str, "_Prices"], Meta(extra={"allowed": "a table of prices for each tier"})]
_HoursList = Annotated[list["_Hours"], Meta(extra={"allowed": "a list of prices with their hours"})]
_Fees = Annotated[dict[str, _Price], Meta(extra={"allowed": "USD for each name"})]
_Kind = Annotated[Literal["audio", "image", "unknown"], Meta(extra={"allowed": "audio, image or unknown"})]
_Models = Annotated[list["Model"], Meta(extra={"allowed": "tables that begin with [[model]]"})]


class _Rates(Struct, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """USD per million tokens."""

    input: _Price
    output: _Price
    cache_read: _Price | None = None
    cache_write: _Price | None = None
    cache_write_5m: _Price | None = None
    cache_write_1h: _Price | None = None
    audio_input: _Price | None = None
    audio_output: _Price | None = None
    audio_cache_read: _Price | None = None
    image_input: _Price | None = None
    image_output: _Price | None = None
    image_cache_read: _Price | None = None
    video_input: _Price | None = None
    video_output: _Price | None = None

    def __post_init__(self) -> None:
        by_lifetime = self.cache_write_5m is not None or self.cache_write_1h is not None
        if self.cache_write is not None and by_lifetime:
            allowed = "either cache_write, or cache_write_5m and cache_write_1h"
            raise ConfigurationError("cache_write", self.cache_write, allowed)

    def per_token(self) -> Rates:
        """Return USD per token; what is left out has no price."""
        write_5m = self.cache_write if self.cache_write_5m is None else self.cache_write_5m
        write_1h = self.cache_write if self.cache_write_1h is None else self.cache_write_1h
        stated = {name: getattr(self, name) for name in KINDS}
        kinds = {name: rate for name, rate in stated.items() if rate is not None} or None
        return Rates(self.input, self.output, self.cache_read, write_5m, write_1h, kinds).times(1e-6)


class _LongRates(_Rates, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    above: Annotated[int, Meta(ge=0, extra={"allowed": "a whole number of tokens"})]


class _Prices(_Rates, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    long: _LongRates | None = None

    def step(self) -> Step:
        """Return the rates, and those of a long prompt."""
        if self.long is None:
            return Step(self.per_token())
        return Step(self.per_token(), self.long.per_token(), self.long.above)


class _Hours(_Rates, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    hours: Annotated[
        str, Meta(pattern=r"^\d\d:\d\d-\d\d:\d\d$", extra={"allowed": "hours such as 01:00-04:00"})
    ]

    def span(self) -> tuple[int, int, Rates]:
        """Return the first minute of the day, the first one after it, and the rates."""
        first, last = ((int(text[:2]) * 60 + int(text[3:])) for text in self.hours.split("-"))
        return first, last, self.per_token()


class Model(_Prices, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """A row of a file: the prices of some models."""

    ids: _Names
    vendor: _Text | None = None
    providers: _Names | None = None
    effective: _Day | None = None
    fast: _Rates | None = None
    tiers: _Tiers | None = None
    hours: _HoursList = []
    fees: _Fees = {}
    geo_us: _Price | None = None
    regional: _Price | None = None
    source: _Text = ""
    mark: _Mark = "C"
    as_of: _Day | None = None

    def row(self, base: Table | None, vendor: str = "") -> Row:
        """Return the row; a user's keeps the rules (not the prices) of the one it replaces in ``base``.

        Args:
            base: the table that a user's row is put on.
            vendor: of a row of the data set, which states the prices of all its tiers.
        """
        ids = tuple(name.lower() for name in self.ids)
        built_in = {} if base is None else base.rows
        known = next((built_in[name][-1] for name in ids if name in built_in), None)
        if known is None and base is not None:
            known = next((row for name in ids if (row := base.find(name, "", math.inf)[0])), None)
        step = self.step()
        tiers: dict[str, Step] | None = {name: tier.step() for name, tier in (self.tiers or {}).items()}
        if self.tiers is None and not vendor:
            tiers = None
        return Row(
            ids,
            step.rates,
            effective=-math.inf if self.effective is None else _epoch(self.effective),
            vendor=self.vendor if self.vendor is not None else known.vendor if known else vendor,
            providers=tuple(self.providers or ()),
            long=step.long,
            long_above=step.long_above,
            fast=self.fast.per_token() if self.fast else None,
            tiers=tiers,
            hours=tuple(span.span() for span in self.hours),
            fees={**(known.fees if known else {}), **self.fees},
            geo_us=_first(self.geo_us, known.geo_us if known else 1.0),
            regional=_first(self.regional, known.regional if known else 1.0),
            source=self.source,
            mark=self.mark,
            user=base is not None,
        )


class _Vendor(Struct, kw_only=True, forbid_unknown_fields=True):
    tiers: dict[str, _Price] = {}
    fees: _Fees = {}
    as_text: list[_Kind] = []
    web_search: _Price | None = None  # of older files: now in fees
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


class _Listing(Struct):
    """The file that ``make prices`` writes."""

    as_of: datetime.date
    models: dict[str, list[Raw]]
    unknown: dict[str, list[str]] = {}


class Listing:
    """The rows of the data set; each is decoded when it is first asked for.

    Attributes:
        providers: whose models it lists.
        unknown: names of models that have no price there, by provider.
    """

    def __init__(self, path: Path = LISTED) -> None:
        said = json.decode(path.read_bytes(), type=_Listing)
        self.as_of = said.as_of
        self.unknown = said.unknown
        self.providers = frozenset(said.models)
        self._raw = said.models
        self._rows: dict[str, dict[str, list[Row]]] = {}

    def rows(self, provider: str, name: str) -> list[Row]:
        """Return the rows of a model, oldest first."""
        made = self._rows.get(provider)
        if made is None:
            made = {}
            for raw in self._raw.get(provider, ()):
                row = json.decode(raw, type=Model, strict=False).row(None, provider)
                for one in row.ids:
                    made.setdefault(one, []).append(row)
            self._rows[provider] = made
        return made.get(name, [])

    def names(self, provider: str) -> list[str]:
        """Return the ids that have prices, sorted."""
        self.rows(provider, "")
        return sorted(self._rows[provider])


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
    below = base or _listed_only()
    table = Table(
        max(below.as_of, stated.as_of),
        dict(below.rows),
        dict(below.vendors),
        below.own_prices if stated.own_prices is None else frozenset(stated.own_prices),
        dict(below.layer_zero),
        below.listed,
    )
    for name, rules in stated.vendor.items():
        before = table.vendors.get(name, Vendor())
        fees = {**before.fees, **rules.fees}
        if rules.web_search is not None:
            fees["web_search"] = rules.web_search
        as_text = tuple(rules.as_text) or before.as_text
        table.vendors[name] = Vendor({**before.tiers, **rules.tiers}, fees, as_text)
    if stated.layer_zero is not None:
        figures = structs.asdict(stated.layer_zero).items()
        table.layer_zero |= {name: value for name, value in figures if isinstance(value, float)}
    _add_models(table, stated.model, base, f"{SETTING} ({path})")
    return table


def _listed_only() -> Table:
    listed = Listing()
    vendors = {"": Vendor(), **dict.fromkeys(listed.providers, Vendor(as_text=("image",)))}
    return Table(listed.as_of, {}, vendors, frozenset(), {}, listed)


def _add_models(table: Table, models: list[Model], base: Table | None, where: str) -> None:
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


def _first(stated: float | None, default: float) -> float:
    return default if stated is None else stated


def _epoch(day: datetime.date) -> float:
    return datetime.datetime(day.year, day.month, day.day, tzinfo=datetime.UTC).timestamp()
