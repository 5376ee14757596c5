"""Money: every model and rule of the price table against an independent computation in Decimal."""

from __future__ import annotations

import random
from decimal import Decimal
from typing import TYPE_CHECKING, NamedTuple

import pytest

from lz_otel._price.cost import Prices
from lz_otel.model import Request
from tests.price.priced import NOW, facts

if TYPE_CHECKING:
    from lz_otel.model import Facts

# The vendors' price lists, copied by hand and not from prices.toml and models.json:
# model, input, output, read, write 5m, write 1h; then what is special about it.
LIST = """
claude-fable-5-2   8     40    0.20  10     16    geo regional
claude-mythos-5-2  8     40    0.20  10     16    geo regional
claude-fable-5-1   10    50    0.25  12.50  20    geo regional
claude-mythos-5-1  10    50    0.25  12.50  20    geo regional
claude-fable-5     10    50    1.00  12.50  20    geo regional
claude-mythos-5    10    50    1.00  12.50  20    geo regional
claude-opus-5-5    4     20    0.20  5      8     geo regional fast=2
claude-opus-5      5     25    0.50  6.25   10    geo regional fast=2
claude-opus-4-8    5     25    0.50  6.25   10    geo regional fast=2
claude-opus-4-7    5     25    0.50  6.25   10    geo regional
claude-opus-4-6    5     25    0.50  6.25   10    geo regional
claude-opus-4-5    5     25    0.50  6.25   10    regional
claude-sonnet-5-5  2     10    0.10  2.50   4     geo regional
claude-sonnet-5    2     10    0.20  2.50   4     geo regional
claude-sonnet-4-6  3     15    0.30  3.75   6     geo regional
claude-sonnet-4-5  3     15    0.30  3.75   6     regional
claude-haiku-5-5   0.10  0.50  0.01  0.125  0.20  geo regional above=100000 long=5 long_out=5
claude-haiku-4-5   1     5     0.10  1.25   2     regional
claude-opus-4-1    15    75    1.50  18.75  30
claude-opus-4-0    15    75    1.50  18.75  30
claude-haiku-3-5   0.80  4     0.08  1      1.60
gpt-6-astra        10    50    1     12.5   12.5  above=272000 long=2 long_out=1.5
gpt-6-sol          2     10    0.20  2.5    2.5  above=272000 long=2 long_out=1.5
gpt-6-luna         0.10  0.50  0.01  0.125  0.125  above=272000 long=2 long_out=1.5
text-embedding-3-small  0.02  0  0.02  0.02  0.02  uncached
text-embedding-3-large  0.13  0  0.13  0.13  0.13  uncached
text-embedding-ada-002  0.10  0  0.10  0.10  0.10  uncached
gpt-6.1-sol        2     10    0.10  2.5    2.5   above=272000 long=2 long_out=1.5
gpt-6.1-terra      1     5     0.05  1.25   1.25  above=272000 long=2 long_out=1.5
gpt-5.6-sol        4     20    0.4   5      5  above=272000 long=2 long_out=1.5
gpt-5.6-terra      2     12    0.2   2.5    2.5  above=272000 long=2 long_out=1.5
gpt-5.6-luna       0.2   1.2   0.02  0.25   0.25  above=272000 long=2 long_out=1.5
gpt-5.5            5     30    0.5   5      5  above=272000 long=2 long_out=1.5
gpt-5.4            2.5   15    0.25  2.5    2.5  above=272000 long=2 long_out=1.5
gpt-5.4-mini       0.75  4.5   0.075 0.75   0.75
"""


class Listed(NamedTuple):
    """One line of the list, in Decimal."""

    model: str
    prices: tuple[Decimal, ...]
    rules: dict[str, Decimal]


def listed() -> list[Listed]:
    """The list above, parsed."""
    out = []
    for line in LIST.strip().splitlines():
        words = line.split()
        rules = {w.partition("=")[0]: Decimal(w.partition("=")[2] or "1.1") for w in words[6:]}
        out.append(Listed(words[0], tuple(Decimal(w) for w in words[1:6]), rules))
    return out


@pytest.fixture(scope="module")
def prices() -> Prices:
    """The built-in table."""
    return Prices.load()


def independent(entry: Listed, said: Facts, region: str) -> tuple[Decimal, Decimal]:
    """The cost and the full price, by the written rules, in exact arithmetic."""
    price_in, price_out, price_read, price_5m, price_1h = entry.prices
    total, output = Decimal(said.input_tokens or 0), Decimal(said.output_tokens or 0)
    if "above" in entry.rules and total > entry.rules["above"]:
        long = entry.rules["long"]
        price_in, price_read, price_5m, price_1h = (
            p * long for p in (price_in, price_read, price_5m, price_1h)
        )
        price_out *= entry.rules["long_out"]
    factor = {
        None: Decimal(1),
        "standard": Decimal(1),
        "default": Decimal(1),
        "priority": Decimal(2),
        "fast": Decimal(2),
        "flex": Decimal("0.5"),
        "batch": Decimal("0.5"),
    }[said.service_tier]
    if said.speed == "fast":
        factor *= entry.rules["fast"]
    if said.inference_geo == "us" and "geo" in entry.rules:
        factor *= entry.rules["geo"]
    if region not in ("", "global") and "regional" in entry.rules:
        factor *= entry.rules["regional"]
    read = Decimal(said.cache_read_tokens or 0)
    write = Decimal(said.cache_write_tokens or 0)
    hour = Decimal(said.cache_write_1h_tokens or 0)
    spent = (
        (total - read - write) * price_in + read * price_read + (write - hour) * price_5m + hour * price_1h
    )
    million = Decimal(1_000_000)
    return (spent + output * price_out) * factor / million, (
        total * price_in + output * price_out
    ) * factor / million


def cases() -> list[tuple[Listed, Facts, str]]:
    """More than 200 priced exchanges: every model, and every rule that it knows."""
    rng = random.Random(20261129)
    out = []
    for entry in listed():
        openai = entry.model.startswith(("gpt", "text"))
        tiers = (
            [None, "default", *(["priority", "fast", "flex", "batch"] if "gpt-6" in entry.model else [])]
            if openai
            else [None, "standard", "batch"]
        )
        regions = [""] if openai else ["", "global", "us", "europe-west1"]
        for tier in tiers:
            for region in regions:
                total = rng.choice([0, 1, 1999, 99_999, 100_000, 100_001, 272_000, 272_001, 900_000])
                read = rng.randint(0, total)
                write = rng.randint(0, total - read)
                if "uncached" in entry.rules:
                    read = write = 0
                hour = rng.choice([None, 0, write, rng.randint(0, write)])
                said = facts(
                    entry.model,
                    "openai" if openai else "anthropic",
                    service_tier=tier,
                    input_tokens=total,
                    output_tokens=rng.randint(0, 64_000),
                    cache_read_tokens=read,
                    cache_write_tokens=write,
                )
                if hour is not None and not openai:
                    said.cache_write_1h_tokens, said.cache_write_5m_tokens = hour, write - hour
                if region == "" and not openai:
                    said.inference_geo = rng.choice([None, "global", "us", "not_available"])
                if "fast" in entry.rules and rng.random() < 0.5:
                    said.speed = "fast"
                if region in ("us", "global"):
                    said.provider, said.request_model = "aws.bedrock", f"{region}.anthropic.{entry.model}"
                elif region:
                    said.provider, said.request_model = "gcp.vertex_ai", f"{entry.model}@20260101"
                    said.response_model = None
                out.append((entry, said, region))
    return out


def test_every_priced_exchange_equals_the_exact_figure(prices: Prices) -> None:
    """Each of more than 200 exchanges costs what an exact computation by the written rules says."""
    every = cases()
    assert len(every) >= 200
    for entry, said, region in every:
        place = region if region not in ("", "us", "global") else "global"
        request = Request(
            "POST", "h", f"/v1/projects/p/locations/{place}/publishers/anthropic/models/m:rawPredict"
        )
        cost = prices.price(said, NOW, request)
        usd, full = independent(entry, said, region)
        assert cost is not None, entry.model
        assert (cost.usd, cost.full_usd) == pytest.approx((float(usd), float(full)), rel=1e-12, abs=0)
        less = float(full - usd)
        assert cost.prompt_cache_saved_usd == pytest.approx(max(less, 0.0), rel=1e-9, abs=1e-12)
        assert cost.prompt_cache_overspent_usd == pytest.approx(max(-less, 0.0), rel=1e-9, abs=1e-12)


def test_the_list_holds_every_model_of_the_table(prices: Prices) -> None:
    """No row of prices.toml escapes the exact comparison (spellings of the same row aside)."""
    spellings = {"claude-opus-4", "claude-3-5-haiku"}
    claude = {entry.model for entry in listed() if entry.model.startswith("claude")}
    assert claude == set(prices.table.rows) - spellings
