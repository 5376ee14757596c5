"""Requests of the casebook, as the SDKs and its programs make them."""

from __future__ import annotations

from typing import Any

__all__ = ["ASK", "CHAT", "CHAT_URL", "MESSAGES_URL", "SSE"]

ASK: dict[str, Any] = {
    "model": "claude-opus-5",
    "max_tokens": 10,
    "messages": [{"role": "user", "content": "x"}],
}
CHAT: dict[str, Any] = {"model": "gpt-5", "messages": [{"role": "user", "content": "x"}]}
SSE = {"content-type": "text/event-stream"}
MESSAGES_URL = "https://api.anthropic.com/v1/messages"
CHAT_URL = "https://api.openai.com/v1/chat/completions"
