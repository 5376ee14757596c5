"""What a price file may hold, how a mistake is reported, and what a user's file does to the built-in one."""

from __future__ import annotations

import datetime
from typing import TYPE_CHECKING

import pytest

from lz_otel._price.price_file import BUILT_IN, load_table
from lz_otel._price.table import normalise
from lz_otel.errors import ConfigurationError

if TYPE_CHECKING:
    from pathlib import Path


def test_every_built_in_row_tells_its_source() -> None:
    """No figure without source and mark, and no id that the normaliser would never produce."""
    for name, rows in load_table().rows.items():
        assert normalise(name) == name
        for row in rows:
            assert row.source
            assert row.mark == "D"


def test_every_built_in_row_is_dated() -> None:
    """Each row of the shipped file says on which day its figures were read."""
    text = BUILT_IN.read_text(encoding="utf-8")
    assert text.count("\nas_of = 20") == text.count("\n[[model]]") + 1


def load(tmp_path: Path, text: str) -> object:
    """The table with a user's file of this text."""
    path = tmp_path / "mine.toml"
    path.write_text(text, encoding="utf-8")
    return load_table(str(path))


ROW = '[[model]]\nids = ["m"]\ninput = 1\noutput = 2\n'


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("[[model]\n", ("mine.toml", "TOML", "line 1")),
        ('[[model]]\nids = ["m"]\noutput = 2\n', ("model[0].input", "None", "a number")),
        (ROW + "[[model]]\nids = []\n", ("model[1].ids", "[]", "a list of texts")),
        ('[[model]]\nids = ["m"]\ninput = "1"\noutput = 2\n', ("model[0].input", "'1'", "a number from 0")),
        ('[[model]]\nids = ["m"]\ninput = -1\noutput = 2\n', ("model[0].input", "-1", "a number from 0")),
        ('[[model]]\nids = ["m"]\ninput = nan\noutput = 2\n', ("model[0].input", "nan", "a number from 0")),
        ('[[model]]\nids = ["m"]\ninput = true\noutput = 2\n', ("model[0].input", "True", "a number from 0")),
        (ROW + "cached = 3\n", ("model[0].cached", "3", "cache_read")),
        (ROW + "cache_write = 3\ncache_write_1h = 3\n", ("model[0].cache_write", "3", "either")),
        (ROW + 'effective = "soon"\n', ("model[0].effective", "soon", "a date")),
        (ROW + "effective = 2026-01-01T00:00:00Z\n", ("model[0].effective", "a date")),
        (ROW + "as_of = 5\n", ("model[0].as_of", "5", "a date")),
        (ROW + 'vendor = "acme"\n', ("model[0].vendor", "acme", "one of anthropic, aws.bedrock")),
        (ROW + 'mark = "X"\n', ("model[0].mark", "X", "D, A or C")),
        (ROW + "long = { input = 1, output = 2 }\n", ("model[0].long.above", "None", "whole number")),
        (ROW + "fast = { input = 1 }\n", ("model[0].fast.output", "a number")),
        (ROW + "fast = 3\n", ("model[0].fast", "3", "a table")),
        (ROW + ROW, ("model[1].ids", "m", "one row per model")),
        ("format = 2\n", ("format", "2", "1")),
        ("model = 3\n", ("model", "3", "[[model]]")),
        ("prices = 3\n", ("prices", "3", "own_prices")),
        ("[vendor.openai]\ntiers = { flex = -1 }\n", ("vendor.openai.tiers.flex", "-1")),
        ("[vendor.openai]\nsearch = 1\n", ("vendor.openai.search", "web_search")),
        ("vendor = 3\n", ("vendor", "3", "a table")),
        ("[layer_zero]\nsymbolic = 1\n", ("layer_zero.symbolic", "symbolic_input")),
        ("own_prices = [1]\n", ("own_prices[0]", "1", "a text")),
    ],
)
def test_a_mistake_names_file_key_value_and_what_is_allowed(
    tmp_path: Path, text: str, told: tuple[str, ...]
) -> None:
    """Whatever is wrong in a user's file is told so that it can be mended without reading code."""
    with pytest.raises(ConfigurationError) as caught:
        load(tmp_path, text)
    message = str(caught.value)
    assert [word for word in (*told, "LZ_OTEL_PRICES", "mine.toml") if word not in message] == []


def test_a_file_that_is_not_there(tmp_path: Path) -> None:
    """A path that leads nowhere, or to no plain file, is an error of configuration."""
    for path in (tmp_path / "none.toml", tmp_path):
        with pytest.raises(ConfigurationError, match=r"LZ_OTEL_PRICES.*cannot be used"):
            load_table(str(path))


def test_binary_is_no_toml(tmp_path: Path) -> None:
    """A file that is not UTF-8 is told as such, not as a crash."""
    path = tmp_path / "mine.toml"
    path.write_bytes(b"\xff\xfe")
    with pytest.raises(ConfigurationError, match="readable TOML"):
        load_table(str(path))


def test_a_users_row_keeps_the_rules_of_the_row_it_replaces(tmp_path: Path) -> None:
    """Own prices of a known model still know vendor, geography and region."""
    path = tmp_path / "mine.toml"
    path.write_text('[[model]]\nids = ["claude-opus-5"]\ninput = 1\noutput = 2\n', encoding="utf-8")
    row, _, _ = load_table(str(path)).find("claude-opus-5", "anthropic", 0.0)
    assert row is not None
    assert (row.rates.output, row.vendor, row.geo_us, row.regional) == (
        pytest.approx(2e-6),
        "anthropic",
        1.1,
        1.1,
    )


def test_a_users_date_makes_the_table_young(tmp_path: Path) -> None:
    """The newest as_of counts, and an older one takes nothing away."""
    for text, date in (("2027-05-01", datetime.date(2027, 5, 1)), ("2020-01-01", load_table().as_of)):
        path = tmp_path / "mine.toml"
        path.write_text(f"as_of = {text}\n", encoding="utf-8")
        assert load_table(str(path)).as_of == date
