"""Building exchanges by hand: events, requests, readers that have read."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from lz_otel._extract import candidate, identify
from lz_otel._ground.headers import head_of
from lz_otel.model import Request

if TYPE_CHECKING:
    from collections.abc import Mapping

    from lz_otel._extract.reader import Reader
    from lz_otel.model import Facts

MESSAGES = "https://api.anthropic.com/v1/messages"
CHAT = "https://api.openai.com/v1/chat/completions"
RESPONSES = "https://api.openai.com/v1/responses"


def dumps(value: Any) -> bytes:
    """Compact JSON."""
    return json.dumps(value, separators=(",", ":")).encode()


def sse(*events: Any, name: str = "") -> bytes:
    """Events of a stream: a dict is named by its ``type`` if it has one, text is sent as it is."""
    out = b""
    for event in events:
        kind = name or (event.get("type", "") if isinstance(event, dict) else "")
        out += f"event: {kind}\n".encode() if kind else b""
        out += b"data: " + (event.encode() if isinstance(event, str) else dumps(event)) + b"\n\n"
    return out


def request(
    url: str, body: Any = None, headers: Mapping[str, str] | None = None, method: str = "POST"
) -> Request:
    """A request; ``body`` is a value for JSON, or bytes."""
    host, _, path = url.partition("//")[2].partition("/")
    path, _, query = path.partition("?")
    data = body if body is None or isinstance(body, bytes) else dumps(body)
    return Request(method, host.partition(":")[0], "/" + path, query, head_of(headers or {}), data)


def reader(
    url: str, body: Any = None, headers: Mapping[str, str] | None = None, **more: Any
) -> Reader | None:
    """The reader of a request, ``None`` when it is no LLM call."""
    asked = request(url, body, headers)
    found = candidate(asked.method, asked.path)
    return None if found is None else identify(found, asked, **more)


def answer(
    url: str,
    asked: Any,
    *pieces: bytes,
    status: int = 200,
    headers: Mapping[str, str] | None = None,
    complete: bool = True,
) -> Facts:
    """The facts after the pieces, which come one per second."""
    found = reader(url, asked)
    assert found is not None
    if headers is None:
        stream = pieces and pieces[0].lstrip()[:1] in (b"d", b"e", b":")
        headers = {"content-type": "text/event-stream" if stream else "application/json"}
    found.head(status, headers)
    for second, piece in enumerate(pieces):
        found.feed(piece, float(second))
    found.finish(complete)
    return found.facts


def tokens(facts: Facts) -> tuple[int | None, int | None, int | None, int | None]:
    """Input, cache read, cache write, output."""
    return facts.input_tokens, facts.cache_read_tokens, facts.cache_write_tokens, facts.output_tokens
