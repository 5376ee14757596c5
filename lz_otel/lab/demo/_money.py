"""What calls cost, by decimal arithmetic of its own, from the published prices: a second opinion.

Nothing of `lz_otel._price.cost` is used, only the table of prices itself, read anew.
"""

from __future__ import annotations

import datetime
import json
import tomllib
from decimal import Decimal
from importlib import resources
from typing import Any, NamedTuple

_MILLION = Decimal(1_000_000)


class Bill(NamedTuple):
    """USD of one call: what the table says, and what it says with every input token uncached."""

    usd: Decimal
    full: Decimal


class TruthPrices:
    """The newest row of each model that holds today."""

    def __init__(self) -> None:
        files = resources.files("lz_otel._price")
        text = files.joinpath("prices.toml").read_text(encoding="utf-8")
        table = tomllib.loads(text, parse_float=Decimal)
        text = files.joinpath("models.json").read_text(encoding="utf-8")
        listed = json.loads(text, parse_float=Decimal)["models"]["openai"]  # of whom the other has no rows
        today = datetime.datetime.now(datetime.UTC).date()
        self.rules: dict[str, Decimal] = {
            k: Decimal(v) for k, v in table["layer_zero"].items() if isinstance(v, (int, Decimal))
        }
        self._rows: dict[str, dict[str, Any]] = {}
        oldest = datetime.date.min
        for row in table["model"]:
            since = row.get("effective", oldest)
            if since > today or row.get("providers"):
                continue
            for model in row["ids"]:
                held = self._rows.get(model)
                if held is None or since >= held.get("effective", oldest):
                    self._rows[model] = row
        for row in listed:
            for model in row["ids"]:
                self._rows.setdefault(model, row)

    def _rates(self, model: str) -> tuple[Decimal, Decimal, Decimal, Decimal, Decimal] | None:
        row = self._rows.get(model)
        if row is None:
            return None
        plain = Decimal(row["input"])
        write = Decimal(row.get("cache_write", plain))
        rates = (
            plain,
            Decimal(row["output"]),
            Decimal(row.get("cache_read", plain)),
            Decimal(row.get("cache_write_5m", write)),
            Decimal(row.get("cache_write_1h", write)),
        )
        return tuple(r / _MILLION for r in rates)  # type: ignore[return-value]  # five in, five out

    def bill(self, model: str, usage: dict[str, Any]) -> Bill | None:
        """Return the bill of a usage in the fields of the truth log, or ``None`` without a price."""
        rates = self._rates(model)
        if rates is None:
            return None
        plain, out, read, write, hour = rates
        whole, cached = usage["input_tokens"], usage["cache_read_tokens"]
        written, written_1h = usage["cache_write_tokens"], usage["cache_write_1h_tokens"]
        spent = usage["output_tokens"] * out
        usd = (whole - cached - written) * plain + cached * read + spent
        usd += (written - written_1h) * write + written_1h * hour
        return Bill(usd, whole * plain + spent)

    def input_price(self, model: str, tokens: int) -> Decimal | None:
        """Return the price of so many uncached input tokens."""
        rates = self._rates(model)
        return None if rates is None else tokens * rates[0]
