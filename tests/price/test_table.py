"""The price table's format: what is allowed, and how a mistake is told."""

from __future__ import annotations

import datetime
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lz_otel._price.table import BUILT_IN, load_table, normalise
from lz_otel.errors import ConfigurationError

if TYPE_CHECKING:
    from pathlib import Path


@pytest.mark.parametrize(
    ("spelling", "name"),
    [
        ("claude-opus-5", "claude-opus-5"),
        ("claude-haiku-4-5-20251001", "claude-haiku-4-5"),
        ("claude-haiku-4-5@20251001", "claude-haiku-4-5"),
        ("us.anthropic.claude-haiku-4-5-20251001-v1:0", "claude-haiku-4-5"),
        ("global.anthropic.claude-opus-5", "claude-opus-5"),
        ("us-gov.anthropic.claude-opus-5", "claude-opus-5"),
        ("anthropic.claude-3-5-haiku-20241022-v1:0", "claude-3-5-haiku"),
        (
            "arn:aws:bedrock:us-east-1:123456789012:inference-profile/eu.anthropic.claude-opus-5",
            "claude-opus-5",
        ),
        ("anthropic/claude-opus-5", "claude-opus-5"),
        ("Claude-3-5-Haiku-latest", "claude-3-5-haiku"),
        ("gpt-5.4-mini-2026-03-05", "gpt-5.4-mini"),
        ("gpt-6.1-sol", "gpt-6.1-sol"),
        ("claude-opus-4-5", "claude-opus-4-5"),
        ("meta.llama3-8b-instruct-v1:0", "meta.llama3-8b-instruct"),
        ("", ""),
    ],
)
def test_every_spelling_of_a_model_has_one_name(spelling: str, name: str) -> None:
    """Region, vendor, version and date are no part of the name that has a price."""
    assert normalise(spelling) == name


@given(st.text(max_size=80))
def test_normalising_never_fails(text: str) -> None:
    """Whatever a server calls its model, a name comes out, and normalising it again can only shorten it."""
    assert len(normalise(normalise(text))) <= len(normalise(text))


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
        ('[[model]]\nids = ["m"]\noutput = 2\n', ("model[1].input", "None", "a number")),
        (ROW + "[[model]]\nids = []\n", ("model[2].ids", "[]", "a list of texts")),
        ('[[model]]\nids = ["m"]\ninput = "1"\noutput = 2\n', ("model[1].input", "'1'", "a number from 0")),
        ('[[model]]\nids = ["m"]\ninput = -1\noutput = 2\n', ("model[1].input", "-1", "a number from 0")),
        ('[[model]]\nids = ["m"]\ninput = nan\noutput = 2\n', ("model[1].input", "nan", "a number from 0")),
        ('[[model]]\nids = ["m"]\ninput = true\noutput = 2\n', ("model[1].input", "True", "a number from 0")),
        (ROW + "cached = 3\n", ("model[1].cached", "3", "cache_read")),
        (ROW + "cache_write = 3\ncache_write_1h = 3\n", ("model[1].cache_write", "3", "either")),
        (ROW + 'effective = "2026-01-01"\n', ("model[1].effective", "2026-01-01", "a date")),
        (ROW + "effective = 2026-01-01T00:00:00Z\n", ("model[1].effective", "a date")),
        (ROW + "as_of = 5\n", ("model[1].as_of", "5", "a date")),
        (ROW + 'vendor = "acme"\n', ("model[1].vendor", "acme", "one of anthropic, openai")),
        (ROW + 'mark = "X"\n', ("model[1].mark", "X", "D, A or C")),
        (ROW + "long = { input = 1, output = 2 }\n", ("model[1].long.above", "None", "whole number")),
        (ROW + "fast = { input = 1 }\n", ("model[1].fast.output", "a number")),
        (ROW + "fast = 3\n", ("model[1].fast", "3", "a table")),
        (ROW + ROW, ("model[2].ids", "m", "one row per model")),
        ("format = 2\n", ("format", "2", "1")),
        ("model = 3\n", ("model", "3", "[[model]]")),
        ("prices = 3\n", ("prices", "3", "own_prices")),
        ("[vendor.openai]\ntiers = { flex = -1 }\n", ("vendor.openai.tiers.flex", "-1")),
        ("[vendor.openai]\nsearch = 1\n", ("vendor.openai.search", "web_search")),
        ("vendor = 3\n", ("vendor", "3", "a table")),
        ("[layer_zero]\nsymbolic = 1\n", ("layer_zero.symbolic", "symbolic_input")),
        ("own_prices = [1]\n", ("own_prices", "a list of texts")),
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
    with pytest.raises(ConfigurationError, match="a TOML file"):
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


def test_a_users_row_for_one_provider_leaves_the_others(tmp_path: Path) -> None:
    """A row that names providers prices those, and the built-in row holds for the others."""
    path = tmp_path / "mine.toml"
    path.write_text(
        '[[model]]\nids = ["gpt-6-sol"]\nproviders = ["azure.ai.openai"]\ninput = 7\noutput = 8\n',
        encoding="utf-8",
    )
    table = load_table(str(path))
    rates = [row.rates.input if row else None
             for row, _, _ in (table.find("gpt-6-sol", p, 0.0) for p in ("azure.ai.openai", "openai", "snowflake"))]  # fmt: skip
    assert rates == [pytest.approx(7e-6), pytest.approx(2e-6), None]


def test_a_users_future_row_waits_for_its_day(tmp_path: Path) -> None:
    """Until a user's row is in force the built-in one holds, and its end is known."""
    path = tmp_path / "mine.toml"
    path.write_text(
        '[[model]]\nids = ["gpt-6-sol"]\neffective = 2027-01-01\ninput = 7\noutput = 8\n', encoding="utf-8"
    )
    table = load_table(str(path))
    day = datetime.datetime(2027, 1, 1, tzinfo=datetime.UTC).timestamp()
    before, _, end = table.find("gpt-6-sol", "openai", day - 1)
    after, start, _ = table.find("gpt-6-sol", "openai", day)
    assert before is not None
    assert after is not None
    assert (before.user, end, after.user, start) == (False, day, True, day)


def test_a_users_date_makes_the_table_young(tmp_path: Path) -> None:
    """The newest as_of counts, and an older one takes nothing away."""
    for text, date in (("2027-05-01", datetime.date(2027, 5, 1)), ("2020-01-01", load_table().as_of)):
        path = tmp_path / "mine.toml"
        path.write_text(f"as_of = {text}\n", encoding="utf-8")
        assert load_table(str(path)).as_of == date
