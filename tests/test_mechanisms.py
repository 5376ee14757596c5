"""The table of mechanisms: what is true of every row, whoever adds one."""

from __future__ import annotations

import re

from lz_otel import catalogue, mechanisms


def test_names_and_colours_are_one_each() -> None:
    """No two mechanisms share a name or a hue, and a name can be part of a metric's."""
    assert len(mechanisms.ALL) == len(set(mechanisms.NAMES)) == len({row.colour for row in mechanisms.ALL})
    assert all(re.fullmatch(r"[a-z]+(_[a-z]+)*", name) for name in mechanisms.NAMES)
    assert all(re.fullmatch(r"#[0-9a-f]{6}", row.colour) for row in mechanisms.ALL)


def test_every_mechanism_has_one_effect() -> None:
    """The three effects part the table, in its order."""
    effects = (mechanisms.REPLAYS, mechanisms.REPLACES, mechanisms.SHORTENS)
    assert {row.effect for row in mechanisms.ALL} == set(effects)
    assert mechanisms.of_effect(*effects) == mechanisms.NAMES
    assert mechanisms.of_effect(mechanisms.REPLAYS) == ("response_cache",)
    assert mechanisms.of_effect() == ()


def test_the_families_are_those_of_the_articles() -> None:
    """What is stated in articles only is a Layer Zero family; the rest has another source."""
    families = [row for row in mechanisms.ALL if row.name in mechanisms.FAMILIES]
    assert {row.mark for row in families} == {"A"}
    assert all(row.source.startswith("article ") for row in families)
    assert "A" not in {row.mark for row in mechanisms.ALL if row not in families}


def test_reasons_are_given_once() -> None:
    """A reason of a fallback is a word, and no mechanism lists one twice."""
    for row in mechanisms.ALL:
        assert len(row.reasons) == len(set(row.reasons))
        assert all(re.fullmatch(r"[a-z]+(_[a-z]+)*", reason) for reason in row.reasons)


def test_the_catalogue_follows_the_table() -> None:
    """The label ``mechanism`` has the table's names, in the table's order."""
    assert mechanisms.NAMES == catalogue.MECHANISMS
    assert mechanisms.NAMES == catalogue.MECHANISM.values
    assert mechanisms.BY_NAME == dict(zip(mechanisms.NAMES, mechanisms.ALL, strict=True))
