"""What the mechanisms need of a request's body and of headers: numbers, texts, counted tokens."""

from __future__ import annotations

import json
from typing import Any

import pytest

from lz_otel._extract.request import Fields, decode_request
from lz_otel._judge.request_body import CountedTokens, finite_number, header_number, prompt_text, system_text
from lz_otel.model import Request
from tests.judge.ended_calls import body, ended_call


def fields(**more: Any) -> Fields:
    raw = json.dumps(body(**more)).encode()
    decoded = decode_request(Request("POST", "api.anthropic.com", "/v1/messages", body=raw))
    assert isinstance(decoded, Fields)
    return decoded


@pytest.mark.parametrize(
    ("value", "expected"),
    [(3, 3.0), (0.5, 0.5), (True, None), ("3", None), (None, None), (float("nan"), None), (10**400, None)],
)
def test_finite_numbers(value: object, expected: float | None) -> None:
    """Booleans, texts, NaN and what is too large for a float are no numbers."""
    assert finite_number(value) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [(None, None), ("21", 21.0), ("2.5", 2.5), ("-1", None), ("inf", None), ("1_0", None), ("9" * 40, None)],
)
def test_numbers_in_headers(text: str | None, expected: float | None) -> None:
    """A header that holds anything but a finite number of 0 or more is malformed; an absent one is not."""
    malformed: list[str] = []
    assert header_number({} if text is None else {"x": text}, "x", malformed) == expected
    assert malformed == (["header"] if text is not None and expected is None else [])


@pytest.mark.parametrize(
    ("request_", "expected"),
    [
        ({"system": "Be brief."}, "Be brief."),
        ({"system": [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]}, "a\nb"),
        ({"messages": [{"role": "system", "content": "Be brief."}]}, "Be brief."),
        ({"system": "field", "messages": [{"role": "system", "content": "message"}]}, "field"),
        ({"messages": [{"role": "user", "content": "system"}]}, None),
        ({"system": []}, None),
        ({"system": 3}, None),
    ],
)
def test_system_prompt(request_: dict[str, Any], expected: str | None) -> None:
    """The documented field wins over a message of role system, text over blocks of other kinds."""
    assert system_text(fields(**request_)) == expected


def test_prompt_text_is_cut() -> None:
    """Texts of system prompt and messages in order, without ids and data, up to the limit."""
    image = {"type": "image", "source": {"type": "base64", "data": "QUJD"}}
    top = fields(
        system="one", messages=[{"role": "user", "content": [{"type": "text", "text": "two"}, image]}]
    )
    assert prompt_text(top) == ("one\ntwo", False)
    assert prompt_text(top, limit=4) == ("one\nt", True)


def test_counted_tokens_are_found_by_what_counts() -> None:
    """A call finds the count of the same content, whatever its other fields; another content has none."""
    counted = CountedTokens()
    call = ended_call(request=body("Hi", max_tokens=1), counted_tokens=7, operation="count_tokens")
    counted.remember(call)
    same, other = (
        fields(messages=body("Hi")["messages"], stream=True),
        fields(messages=body("Ho")["messages"]),
    )
    assert (counted.of(same), counted.of(other)) == (7, None)
