"""What a gateway's headers say of a call's cost, and of who answered."""

from __future__ import annotations

import pytest

from lz_otel._extract.gateway_cost import from_cache, read
from lz_otel._ground.headers import head_of as of
from lz_otel.model import Facts


def facts(answered: str | None = "claude-opus-4-5", *, stream: bool = False) -> Facts:
    """Facts of an answer to a request for claude-opus-4-5."""
    made = Facts("anthropic", "chat", inference=True, llm_call=True)
    made.request_model, made.response_model, made.stream = "claude-opus-4-5", answered, stream
    return made


@pytest.mark.parametrize(
    ("headers", "stream", "expected"),
    [
        ({"x-litellm-response-cost": "0.0011"}, False, 0.0011),
        ({"x-litellm-response-cost": "1.1e-05"}, True, 1.1e-05),
        ({"x-litellm-response-cost": "0.0"}, False, 0.0),
        ({"x-litellm-response-cost": "0.0"}, True, None),  # said before the usage is known
        ({"x-litellm-response-cost": "None"}, False, None),
        ({"x-litellm-response-cost": ""}, False, None),
        ({"x-litellm-response-cost": "nan"}, False, None),
        ({"x-litellm-response-cost": "inf"}, False, None),
        ({"x-litellm-response-cost": "-1"}, False, None),
        ({"x-litellm-key-spend": "12.5"}, False, None),  # a running total
        ({"x-litellm-response-cost-original": "0.5"}, False, None),
        ({}, False, None),
    ],
)
def test_the_gateways_figure(headers: dict[str, str], stream: bool, expected: float | None) -> None:
    """29: a proxy's header said 0.0011, and 0.02 was booked by the table."""
    said = facts(stream=stream)
    read(of(headers), said)
    assert (said.cost_reported, said.gateway_fell_back) == (expected, False)


@pytest.mark.parametrize(
    "header", ["x-litellm-attempted-fallbacks", "cf-aig-step", "helicone-fallback-index"]
)
@pytest.mark.parametrize(
    ("number", "answered", "expected"),
    [
        ("1", "claude-opus-4-5", True),
        ("1", "claude-opus-4-5-20251101", True),
        ("1", "anthropic/claude-opus-4-5", True),
        ("2", None, True),
        ("1", "claude-haiku-4-5", False),  # it says who answered
        ("1", "claude-opus-4-5-mini", False),
        ("0", "claude-opus-4-5", False),
        ("x", "claude-opus-4-5", False),
    ],
)
def test_a_fallback_that_does_not_say_to_whom(
    header: str, number: str, answered: str | None, expected: bool
) -> None:
    """A body that echoes the model asked for does not say which one answered."""
    said = facts(answered)
    read(of({header: number}), said)
    assert said.gateway_fell_back is expected


def test_a_stored_answer() -> None:
    """LiteLLM names the key of the answer that it had; its cost header repeats what the first call cost."""
    heads = [{"x-litellm-cache-key": "k"}, {"x-litellm-cache-key": " "}, {}]
    assert [True, False, False] == [from_cache(of(head)) for head in heads]
