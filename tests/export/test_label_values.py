"""Label values that every receiver takes."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from lz_otel._export._label_values import LabelValues, printable


@given(st.text())
def test_printable_values_can_be_sent(value: str) -> None:
    """A printable value can be encoded, has no control characters, its old length, and stays as it is."""
    text = printable(value)
    text.encode()
    assert (len(value), text) == (len(text), printable(text))
    assert not any(ord(c) < 32 for c in text)
    if value.isprintable():
        assert value == text


def test_a_value_is_worked_out_once() -> None:
    """The table of values gives the printable form, and the same text object for the same value."""
    values = LabelValues()
    assert ("a?b", "größe") == (values["a\x00b"], values["größe"])
    assert values["a\x00b"] is values["a\x00b"]
