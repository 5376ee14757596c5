"""What ``lz-otel prices`` prints."""

from __future__ import annotations

import os
import sys
import time
from typing import TYPE_CHECKING

from lz_otel._price.price_file import SETTING, load_table

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from lz_otel._price.table import Rates, Row, Table


def run(models: Iterable[str], provider: str, *, unknown: bool) -> int:
    """Print the prices of models, or those that have none; return 1 where a named one has none."""
    table = load_table(os.environ.get(SETTING))
    now = time.time()
    if unknown:
        for name in sorted(_unknown(table, provider, now)):
            sys.stdout.write("\t".join(name) + "\n")
        return 0
    sys.stdout.write(f"prices of {table.as_of.isoformat()}, USD per million tokens\n")
    missing = 0
    for model in models:
        row = table.find(model, provider, now)[0]
        missing += row is None
        sys.stdout.write(f"{model}: {'no price' if row is None else _told(row)}\n")
    return 1 if missing else 0


def _unknown(table: Table, provider: str, now: float) -> Iterator[tuple[str, str]]:
    for owner, names in table.listed.unknown.items():
        for name in names:
            if provider in ("", owner) and table.find(name, owner, now)[0] is None:
                yield owner, name


def _told(row: Row) -> str:
    parts = [_rates(row.rates)]
    if row.long is not None:
        parts.append(f"above {row.long_above:g} tokens: {_rates(row.long)}")
    parts += [f"{name}: {_rates(tier.rates)}" for name, tier in (row.tiers or {}).items()]
    parts += [f"{name} USD {usd:g} each" for name, usd in row.fees.items()]
    return "; ".join(parts)


def _rates(rates: Rates) -> str:
    stated = {**dict(zip(rates._fields, rates[:-1], strict=False)), **(rates.kinds or {})}
    return ", ".join(f"{name} {rate * 1e6:.6g}" for name, rate in stated.items() if rate is not None)
