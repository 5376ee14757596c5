"""The price table: names of models, and which row holds for whom, and when."""

from __future__ import annotations

import datetime
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lz_otel._price.price_file import load_table
from lz_otel._price.table import normalise

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


def test_a_users_row_for_one_provider_leaves_the_others(tmp_path: Path) -> None:
    """A row that names providers prices those, and the built-in row holds for the others."""
    path = tmp_path / "mine.toml"
    path.write_text(
        '[[model]]\nids = ["gpt-6-sol"]\nproviders = ["azure.ai.openai"]\ninput = 7\noutput = 8\n',
        encoding="utf-8",
    )
    table = load_table(str(path))
    rows = [
        table.find("gpt-6-sol", provider, 0.0)[0] for provider in ("azure.ai.openai", "openai", "snowflake")
    ]
    rates = [row.rates.input if row else None for row in rows]
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
