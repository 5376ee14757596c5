"""Breakpoints by the vendor's rules."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lz_otel.lab.simulator._breakpoints import BreakpointError, breakpoints, minimum_tokens
from lz_otel.lab.simulator._tokens import anthropic_blocks

CACHED = {"type": "ephemeral"}


@pytest.mark.parametrize(
    ("model", "least"),
    [
        ("claude-sonnet-5-5", 512),
        ("claude-sonnet-5", 1024),
        ("claude-opus-4-7", 2048),
        ("claude-haiku-4-5-20251001", 4096),
    ],
)
def test_the_minimum_depends_on_the_model(model: str, least: int) -> None:
    """The vendor's table, by model."""
    assert least == minimum_tokens(model)


@settings(max_examples=60, deadline=None)
@given(st.lists(st.booleans(), max_size=9), st.booleans())
def test_never_more_than_four_breakpoints(marked: list[bool], automatic: bool) -> None:
    """Whatever is marked, at most four positions are accepted, and each is a marked one or the last."""
    blocks = [
        {"type": "text", "text": f"t{i}", **({"cache_control": CACHED} if m else {})}
        for i, m in enumerate(marked)
    ]
    request: dict[str, Any] = {
        "messages": [{"role": "user", "content": [*blocks, {"type": "text", "text": "end"}]}]
    }
    if automatic:
        request["cache_control"] = CACHED
    wanted = [i for i, m in enumerate(marked) if m] + ([len(marked)] if automatic else [])
    if len(wanted) > 4:
        with pytest.raises(BreakpointError):
            breakpoints(request, anthropic_blocks(request))
    else:
        assert wanted == breakpoints(request, anthropic_blocks(request))
