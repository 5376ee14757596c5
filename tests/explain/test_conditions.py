"""The four conditions of article 000, as local estimates."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lz_otel.explain import conditions
from lz_otel.explain.conditions import Conditions, RequestHistory, determinism, entropy, explain, structure
from lz_otel.explain.prompt_parts import PromptParts

CSV_ZH = "将以下CSV转为JSON：name,age,city\nAlice,28,Beijing"
CSV_EN = "Convert the following CSV to JSON: name,age,city\nAlice,28,Beijing"
POEM_ZH = "请写一首关于北京秋天的诗"
POEM_EN = "Write a poem about autumn in Beijing."
PROSE = (
    "The old house at the end of the lane had stood empty for years before anyone thought to ask who owned"
    " it. Every autumn the leaves gathered against its door, and every spring the wind took them away again. "
)


def test_thresholds() -> None:
    """The thresholds are those of the article."""
    assert (conditions.STRUCTURE, conditions.DETERMINISM, conditions.ENTROPY, conditions.SIMILARITY) == (
        0.82,
        0.94,
        2.1,
        0.88,
    )


@pytest.mark.parametrize(
    "text", [CSV_ZH, CSV_EN, "name,age,city\nAlice,28,Beijing", '{"status": "active", "score": 92}']
)
def test_records_have_low_entropy(text: str) -> None:
    """The article's anchor (1.87): the CSV prompt lies below 2.1 bits, as do records."""
    assert entropy(text) < 2.1


@pytest.mark.parametrize(
    "text", [POEM_ZH, POEM_EN, "写一首诗", PROSE, PROSE * 30, "Tell me how you feel about the sea."]
)
def test_prose_has_high_entropy(text: str) -> None:
    """The article's anchor (5.33): the poem lies above 2.1 bits, as does prose of any length."""
    assert entropy(text) > 2.1


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("", 0.0),
        ("plain words only", 0.0),
        ('{"a": 1}', 0.15),
        ("a: b", 0.0),
        ("key: value\nother: value", 0.15),
        ("One: two", 0.0),
        ('{"k": "v"}' * 11, 0.3),
        ("x" * 100 + '{"k": 1}', 0.15),
        ('{"k": "v"}' * 100, 1.0),
    ],
)
def test_structure_slides_a_window(text: str, value: float) -> None:
    """0.15 for each window of 100 characters with 3 marks or 2 key-value lines, in steps of 10, at most 1."""
    assert structure(text) == value


@pytest.mark.parametrize(
    ("text", "met"),
    [
        ("Extract the emails. Must output JSON, only the array.", True),
        ("List exactly 3 products", True),
        ("Return true or false only.", True),
        ("List some products", False),
        ("Extract emails. Think step by step. Must output JSON only.", False),
        ("Must output JSON only. Be concise and explain each step in detail.", False),
        ("Return JSON only. Example: John works at ABC", False),
        (POEM_EN, False),
    ],
)
def test_determinism(text: str, met: bool) -> None:
    """Formats and absolute words make the output sure; vague, thinking and contradictory words undo it."""
    assert (determinism(PromptParts.of(text)) >= 0.94) is met


def test_schema_in_the_request_is_sure() -> None:
    """An output schema, or a forced tool, leaves one form of output."""
    schema = {"type": "object", "properties": {}}
    for fields in (
        {"output_config": {"format": {"type": "json_schema", "schema": schema}}},
        {"tools": [{"name": "x", "input_schema": schema}], "tool_choice": {"type": "tool", "name": "x"}},
    ):
        assert explain({"messages": [{"role": "user", "content": "Go."}], **fields}).determinism.met


def test_similarity() -> None:
    """The same request is 1, a template with another value near, another text far; none without history."""
    history = RequestHistory()
    text = (
        "Please classify the ticket number 123 into one of the categories network hardware or software today"
    )
    history.add(text)
    near = explain(text.replace("123", "124"), history=history)
    assert explain(text, history=history).similarity == (1.0, 0.88, True)
    assert near.similarity is not None
    assert (near.similarity.met, "several_templates" in [c.name for c in near.causes]) == (True, True)
    far = explain(POEM_EN, history=history).similarity
    assert far is not None
    assert far.met is False
    assert explain(text).similarity is None


def test_history_is_bounded() -> None:
    """Only the last requests are remembered."""
    history = RequestHistory(size=3)
    for n in range(4):
        history.add(f"alpha{'abcd'[n]} beta{'abcd'[n]}")
    assert [history.similarity(f"alpha{c} beta{c}") for c in "abcd"] == [0.0, 1.0, 1.0, 1.0]


@pytest.mark.parametrize(
    "request_",
    [
        b"",
        b"\xff",
        b"{",
        b"[]",
        b'{"messages": 3}',
        b'{"messages": [3, {"content": 4}], "system": 5}',
        b"[" * 5000,
    ],
)
def test_odd_requests(request_: bytes) -> None:
    """Whatever the body is, something is said and nothing raised."""
    assert isinstance(explain(request_), Conditions)


@given(st.text())
def test_values_stay_in_range(text: str) -> None:
    """Every estimate stays in its range, for a text as for a body."""
    for request in (text, json.dumps({"messages": [{"role": "user", "content": text}]})):
        found = explain(request, history=RequestHistory())
        assert 0 <= found.structure.value <= 1
        assert 0 <= found.determinism.value <= 1
        assert 0 <= found.entropy.value <= 5.6
        assert found.similarity is not None
        assert 0 <= found.similarity.value <= 1
