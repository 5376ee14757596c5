"""Case 04: OpenAI sends no usage in a stream unless asked;
that is told, and nothing is guessed or changed.
"""

from __future__ import annotations

import json
import sys
from typing import Any

import pytest

from lz_otel import testing
from tests.casebook.bodies import CHAT, SSE
from tests.casebook.helpers import FIRST_TOKEN, SAMPLES, USAGE_MISSING, gpt, observed, settle, stream
from tests.wire_doubles import o_full

ASKED = {"stream_options": {"include_usage": True}}


def with_null_usage() -> list[bytes]:
    """O_FULL in which every chunk before the last carries ``usage: null``."""
    out = []
    for piece in o_full():
        text = piece.removeprefix(b"data: ").strip()
        if text != b"[DONE]":
            chunk = json.loads(text)
            piece = b"data: " + json.dumps({"usage": None, **chunk}).encode() + b"\n\n"
        out.append(piece)
    return out


@pytest.mark.parametrize("asynchronous", [False, True])
def test_04_no_usage_asked_is_said_not_guessed(asynchronous: bool) -> None:
    """No token sample at all, one count of the reason, and the call itself is seen whole."""
    with observed() as found:
        settle(gpt(stream(o_full(usage=False)), asynchronous).chat.completions.create(**CHAT, stream=True))
        assert {} == found.seen.points(SAMPLES)
        assert ((0, 0), (0, 0)) == found.tokens()
        assert {"not_requested": 1} == found.by(USAGE_MISSING)
        assert {"ok": 1} == found.outcomes()
        assert 1 == found.samples(FIRST_TOKEN)
        assert {"tiktoken", "tokenizers", "transformers"}.isdisjoint(sys.modules)


@pytest.mark.parametrize("pieces", [o_full(), with_null_usage()], ids=["whole", "null before"])
def test_04_usage_asked_is_counted_once(pieces: list[bytes]) -> None:
    """The usage chunk counts, empty choices and ``usage: null`` disturb nothing."""
    with observed() as found:
        settle(gpt(stream(pieces)).chat.completions.create(**CHAT, stream=True, **ASKED))
        assert ((1, 100), (1, 30)) == found.tokens()
        assert (20, 80, 0) == found.parts()
        assert {} == found.by(USAGE_MISSING)
        assert {"ok": 1} == found.outcomes()


def test_04_asked_and_not_sent_is_another_reason() -> None:
    """A server that ignores the wish is told apart from one that was not asked."""
    with observed() as found:
        settle(gpt(stream(o_full(usage=False))).chat.completions.create(**CHAT, stream=True, **ASKED))
        assert {"not_sent": 1} == found.by(USAGE_MISSING)


def test_04_the_request_is_what_the_sdk_sends() -> None:
    """The request is byte for byte that of the SDK alone, headers included."""
    sent: list[tuple[bytes, Any]] = []

    def answer(request: Any) -> Any:
        sent.append((request.content, sorted(request.headers.raw)))
        return 200, SSE, o_full(usage=False)

    settle(gpt(answer).chat.completions.create(**CHAT, stream=True))
    with testing.capture(strict=True):
        settle(gpt(answer).chat.completions.create(**CHAT, stream=True))
    assert sent[0] == sent[1]
    assert b"include_usage" not in sent[1][0]
