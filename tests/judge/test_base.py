"""What all judges ask of a call, and how they put what they conclude."""

from __future__ import annotations

import pytest

from lz_otel._judge import signals
from lz_otel._judge.base import Judge, is_claude, succeeded
from lz_otel.catalogue import MASK_EVENTS
from lz_otel.mechanisms import NAMES
from tests.judge.ended_calls import ended_call


class Named(Judge):
    """A judge that concludes nothing by itself."""

    NAME = NAMES[0]


@pytest.mark.parametrize(
    ("status", "expected"),
    [(200, True), (204, True), (299, True), (199, False), (300, False), (429, False), (None, False)],
)
def test_success_is_a_status(status: int | None, expected: bool) -> None:
    """Two hundreds are successes; a call without a status is none."""
    assert succeeded(ended_call(status=status)) is expected  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("provider", "asked", "answered", "expected"),
    [
        ("anthropic", None, None, True),
        ("aws.bedrock", "us.anthropic.Claude-haiku-4-5-v1:0", None, True),
        ("other", None, "claude-haiku-4-5", True),
        ("openai", "gpt-5", "claude-haiku-4-5", False),
        ("openai", None, None, False),
    ],
)
def test_claude_by_provider_or_model(
    provider: str, asked: str | None, answered: str | None, expected: bool
) -> None:
    """A Claude model is one by its provider or its name, that of the request before that of the answer."""
    facts = ended_call(provider=provider, request_model=asked, response_model=answered).facts
    assert is_claude(facts) is expected


def test_a_result_holds_what_there_is() -> None:
    """Neither decision nor rows is no result; rows alone have no verdict; a verdict has the judge's name."""
    judge = Named(signals.load())
    row = (MASK_EVENTS, (), 1.0)
    assert judge._result(None) is None
    assert judge._result(None, rows=[row]) == (None, (row,), None)
    result = judge._result("fallback", "silent", [row], 0.5)
    assert result is not None
    assert result == ((NAMES[0], "fallback", "silent", None, False), (row,), 0.5)
