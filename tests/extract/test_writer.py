"""What every dialect fills facts with."""

from __future__ import annotations

from typing import Any

import pytest

from tests.extract.build import CHAT, MESSAGES, RESPONSES, answer, sse

GEMINI = "https://generativelanguage.googleapis.com/v1beta/models/g:streamGenerateContent"
COMPLETE = "https://api.anthropic.com/v1/complete"
RUNS = "https://api.openai.com/v1/threads/thread_1/runs"
OLLAMA = "https://ollama.com/api/chat"


def _messages(name: str) -> dict[str, Any]:
    message = {"id": name, "model": name, "stop_reason": name, "usage": {"input_tokens": 1}}
    return {"type": "message_start", "message": message}


def _responses(name: str) -> dict[str, Any]:
    response = {"id": name, "model": name, "service_tier": name}
    return {"type": "response.in_progress", "response": response}


def _chat(name: str) -> dict[str, Any]:
    choice = {"delta": {"content": "x"}, "finish_reason": name}
    return {"id": name, "model": name, "service_tier": name, "provider": name, "choices": [choice]}


def _gemini(name: str) -> dict[str, Any]:
    return {"responseId": name, "modelVersion": name, "candidates": [{"finishReason": name}]}


@pytest.mark.parametrize("invalid", ["a\u0000b", "x" * 129, "", None])
@pytest.mark.parametrize(
    ("url", "event", "name"),
    [
        pytest.param(MESSAGES, _messages, "", id="messages"),
        pytest.param(RESPONSES, _responses, "", id="responses"),
        pytest.param(CHAT, _chat, "", id="chat"),
        pytest.param(GEMINI, _gemini, "", id="gemini"),
        pytest.param(
            COMPLETE, lambda name: {"id": name, "model": name, "stop_reason": name}, "", id="complete"
        ),
        pytest.param(RUNS, lambda name: {"id": name, "model": name}, "thread.run.in_progress", id="runs"),
        pytest.param(
            OLLAMA, lambda name: {"model": name, "done": True, "done_reason": name}, "", id="ollama"
        ),
    ],
)
def test_a_later_name_must_be_one(url: str, event: Any, name: str, invalid: Any) -> None:
    """A name that no label can hold leaves the earlier one, in every place that an API states it again."""
    once = answer(url, {"model": "m"}, sse(event("good"), name=name))
    again = answer(url, {"model": "m"}, sse(event("good"), event(invalid), name=name))
    assert "good" == once.response_model
    for field in ("response_id", "response_model", "service_tier", "upstream_provider", "finish_reasons"):
        assert getattr(once, field) == getattr(again, field)


@pytest.mark.parametrize(("url", "event"), [(CHAT, _chat), (GEMINI, _gemini)])
def test_an_earlier_name_must_be_one(url: str, event: Any) -> None:
    """Where an API's first name stands, one that no label can hold is not the first."""
    facts = answer(url, {"model": "m"}, sse(event("x" * 129), event("good")))
    assert "good" == facts.response_id
    assert ["good"] == facts.finish_reasons
