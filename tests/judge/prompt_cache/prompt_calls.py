"""Ended calls for the tests of ``prompt_cache``."""

from __future__ import annotations

import json
from typing import Any

from lz_otel._extract.reader import Reader
from lz_otel._extract.request import decode_request
from lz_otel._ground.headers import head_of
from lz_otel._judge import signals
from lz_otel._judge.prompt_cache import PromptCacheJudge
from lz_otel.model import EndedCall, Facts, Request

WROTE = {"cache_read_tokens": 0, "cache_write_tokens": 4900}
READ = {"cache_read_tokens": 4900, "cache_write_tokens": 0}
NOTHING = {"cache_read_tokens": 0, "cache_write_tokens": 0}
OPENAI = {"provider": "openai", "path": "/v1/chat/completions", "cache_read_tokens": 0, "input_tokens": 5900}
SYSTEM = "You answer questions about the manual. " * 80  # about 780 tokens
LONG = "Chapter one of the manual tells how to begin. " * 500


def make(**arguments: Any) -> PromptCacheJudge:
    """The mechanism with the built-in markers."""
    return PromptCacheJudge(signals.load(), **arguments)


def ended_call(
    body: dict[str, Any] | None,
    *,
    at: float = 1000.0,
    first: float | None = None,
    last: float | None = None,
    provider: str = "anthropic",
    path: str = "/v1/messages",
    route: str = "",
    key: str = "k",
    status: int = 200,
    headers: dict[str, str] | None = None,
    **known: Any,
) -> EndedCall:
    """An ended call; ``known`` are facts."""
    raw = None if body is None else json.dumps(body).encode()
    request = Request("POST", f"api.{provider}.com", path, "", head_of({"x-api-key": key}), raw)
    facts = Facts(provider, "chat", inference=True, llm_call=True)
    Reader(facts, decode_request(request))
    facts.usage_seen, facts.input_tokens, facts.output_tokens = True, 5000, 10
    for name, value in known.items():
        setattr(facts, name, value)
    first = at + 0.1 if first is None else first
    return EndedCall(
        request,
        facts,
        status=status,
        response_headers=head_of(headers or {}),
        ending="ok",
        started_at=at,
        first_byte_at=first,
        ended_at=first + 0.3 if last is None else last,
        route=route,
    )


def said(judge: PromptCacheJudge, given_: EndedCall) -> tuple[str, str | None] | None:
    """Decision and reason."""
    result = judge.judge(given_)
    if result is None or result.verdict is None:
        return None
    return result.verdict.decision, result.verdict.reason


def counted(judge: PromptCacheJudge, given_: EndedCall) -> dict[tuple[str, ...], float]:
    """Measurements by name and labels."""
    result = judge.judge(given_)
    return {} if result is None else {(m.name, *labels): value for m, labels, value in result.measurements}


def messages(*texts: str, mark: bool = True, system: Any = SYSTEM, **more: Any) -> dict[str, Any]:
    """A Messages request with a breakpoint behind its last message."""
    sent: list[dict[str, Any]] = [
        {"role": "user", "content": [{"type": "text", "text": text}]} for text in texts
    ]
    if mark:
        sent[-1]["content"][0]["cache_control"] = {"type": "ephemeral"}
    return {"model": "claude-opus-5", "max_tokens": 9, "system": system, "messages": sent, **more}


def chat(question: str, system: str = LONG, **more: Any) -> dict[str, Any]:
    """A Chat Completions request."""
    sent = [{"role": "system", "content": system}, {"role": "user", "content": question}]
    return {"model": "gpt-6-sol", "messages": sent, **more}


def after(before: dict[str, Any], now: dict[str, Any], *, gap: float = 10.0, **known: Any) -> Any:
    """What is said about a miss after one request that wrote."""
    judge = make()
    said(judge, ended_call(before, **WROTE))
    return said(judge, ended_call(now, at=1000.0 + gap, **{**WROTE, **known}))
