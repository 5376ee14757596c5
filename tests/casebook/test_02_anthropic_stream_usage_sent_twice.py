"""Case 02: usage in Anthropic's stream is cumulative and comes twice;
the last event that names a field wins.
"""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.casebook.bodies import ASK
from tests.casebook.helpers import claude, helper_events, observed, settle, stream
from tests.wire_doubles import U, a_full, sse


def variant(name: str) -> list[bytes]:
    """The stream of one variant of the case, an element per event."""
    if name == "b":
        return a_full(delta_usage={"output_tokens": 20})
    if name == "c":
        pieces = a_full()
        first = {
            "type": "message_delta",
            "delta": {"stop_reason": None, "stop_sequence": None},
            "usage": U(7),
        }
        return [*pieces[:5], sse(first), *pieces[5:]]
    if name == "d":
        return a_full(delta_usage={**U(20), "input_tokens": 30})
    return a_full()


@pytest.mark.parametrize("asynchronous", [False, True])
@pytest.mark.parametrize("way", ["create", "stream"])
@pytest.mark.parametrize("name", ["a", "b", "c", "d"])
def test_02_each_field_counts_once(name: str, way: str, asynchronous: bool) -> None:
    """Whole, partial, repeated or corrected usage: one sample per call, with the last word on each field."""
    pieces = variant(name)
    uncached = 30 if name == "d" else 4
    with observed() as found:
        client = claude(stream(pieces), asynchronous)
        if way == "create":
            events: list[Any] = settle(client.messages.create(**ASK, stream=True))
            assert [json.loads(p.split(b"data: ")[1])["type"] for p in pieces] == [e.type for e in events]
        else:
            assert "message_stop" in {e.type for e in helper_events(client, **ASK)}
        assert ((1, 2100 + uncached), (1, 20)) == found.tokens()
        assert (uncached, 2000, 100) == found.parts()
        assert {"ok": 1} == found.outcomes()
