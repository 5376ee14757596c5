"""Case 01: Anthropic's three input fields are disjoint; the prompt is their sum."""

from __future__ import annotations

from typing import Any

import pytest

from lz_otel import catalogue
from tests.casebook.bodies import ASK
from tests.casebook.helpers import INPUT, claude, in_turn, json_body, observed, settle
from tests.wire_doubles import A_JSON


@pytest.mark.parametrize("asynchronous", [False, True])
def test_01_the_prompt_is_the_sum_of_its_three_fields(asynchronous: bool) -> None:
    """4 uncached, 2000 read and 100 written tokens are one prompt of 2104, whichever client asks."""
    with observed() as found:
        settle(claude(json_body(A_JSON), asynchronous).messages.create(**ASK))
        assert ((1, 2104), (1, 20)) == found.tokens()
        assert (4, 2000, 100) == found.parts()
        assert {"ok": 1} == found.outcomes()


@pytest.mark.parametrize(
    "fields", [{}, {"cache_read_input_tokens": None, "cache_creation_input_tokens": None}]
)
def test_01_cache_fields_absent_or_null_are_no_cache(fields: dict[str, Any]) -> None:
    """Without cache fields, or with null in them, the whole prompt is uncached and nothing else grows."""
    body = {**A_JSON, "usage": {"input_tokens": 50, "output_tokens": 5, **fields}}
    with observed() as found:
        client = claude(in_turn(json_body(A_JSON), json_body(body)))
        client.messages.create(**ASK)
        client.messages.create(**ASK)
        assert ((2, 2154), (2, 25)) == found.tokens()
        assert (54, 2000, 100) == found.parts()


def test_01_parts_are_no_values_of_the_whole() -> None:
    """The cached parts are metrics of their own: a plain sum over the input tokens counts each once."""
    with observed() as found:
        claude(json_body(A_JSON)).messages.create(**ASK)
        points = found.seen.points(INPUT)
        assert [2104] == list(points.values())
        assert ["text"] == [labels[-1] for labels in points]
        assert not any("cache" in v for a in catalogue.by_name(INPUT).attributes for v in a.values)
