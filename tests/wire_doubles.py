"""Doubles of servers and bodies that several tests share; the building blocks of the casebook."""

from __future__ import annotations

import asyncio
import json
import time
from typing import Any

import httpx
import httpx2

__all__ = [
    "A_JSON",
    "O_JSON",
    "Pieces",
    "U",
    "V",
    "a_full",
    "module_of",
    "o_full",
    "pieces_for",
    "sse",
    "transport",
]

MODULES = {"httpx": httpx, "httpx2": httpx2}


def U(out: int) -> dict[str, Any]:
    """Anthropic usage: whole prompt 2104 (4 uncached, 2000 read, 100 written)."""
    return {
        "input_tokens": 4,
        "cache_read_input_tokens": 2000,
        "cache_creation_input_tokens": 100,
        "output_tokens": out,
    }


A_JSON: dict[str, Any] = {
    "id": "msg_1",
    "type": "message",
    "role": "assistant",
    "model": "claude-opus-5",
    "content": [{"type": "text", "text": "hello"}],
    "stop_reason": "end_turn",
    "stop_sequence": None,
    "usage": U(20),
}
V: dict[str, Any] = {
    "prompt_tokens": 100,
    "completion_tokens": 30,
    "total_tokens": 130,
    "prompt_tokens_details": {"cached_tokens": 80},
    "completion_tokens_details": {"reasoning_tokens": 10},
}
O_JSON: dict[str, Any] = {
    "id": "chatcmpl-1",
    "object": "chat.completion",
    "created": 1,
    "model": "gpt-5",
    "choices": [{"index": 0, "message": {"role": "assistant", "content": "ab"}, "finish_reason": "stop"}],
    "usage": V,
}


def sse(event: dict[str, Any], named: bool = True) -> bytes:
    """One server-sent event."""
    head = f"event: {event['type']}\n" if named else ""
    return f"{head}data: {json.dumps(event)}\n\n".encode()


def a_full(*, delta_usage: Any = ..., deltas: int = 1) -> list[bytes]:
    """The stream A_FULL of the casebook, an element per event."""
    start = {**A_JSON, "content": [], "stop_reason": None, "usage": U(1)}
    usage = U(20) if delta_usage is ... else delta_usage
    events: list[dict[str, Any]] = [
        {"type": "message_start", "message": start},
        {"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}},
        {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": "hel"}},
        {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": "lo"}},
        {"type": "content_block_stop", "index": 0},
        *[{"type": "message_delta", "delta": {"stop_reason": "end_turn"}, "usage": usage}] * deltas,
        {"type": "message_stop"},
    ]
    return [sse(e) for e in events]


def o_full(*, usage: bool = True) -> list[bytes]:
    """The stream O_FULL of the casebook, an element per event."""

    def chunk(delta: dict[str, Any], finish: str | None = None) -> dict[str, Any]:
        choice = {"index": 0, "delta": delta, "finish_reason": finish}
        return {
            "id": "c",
            "object": "chat.completion.chunk",
            "created": 1,
            "model": "gpt-5",
            "choices": [choice],
        }

    events = [
        chunk({"role": "assistant", "content": ""}),
        chunk({"content": "a"}),
        chunk({"content": "b"}),
        chunk({}, "stop"),
    ]
    if usage:
        events.append({**chunk({}), "choices": [], "usage": V})
    return [*(sse(e, named=False) for e in events), b"data: [DONE]\n\n"]


class _PiecesBase:
    """A body of given pieces with given waits, which records what was done to it.

    An element may be bytes, a number (seconds to wait), or an exception (raised).
    """

    def __init__(self, pieces: list[Any]) -> None:
        self.pieces = pieces
        self.asked = 0
        self.closed = 0

    def __iter__(self) -> Any:
        for piece in self.pieces:
            if isinstance(piece, (int, float)):
                time.sleep(piece)
            elif isinstance(piece, BaseException):
                raise piece
            else:
                self.asked += 1
                yield piece

    async def __aiter__(self) -> Any:
        for piece in self.pieces:
            if isinstance(piece, (int, float)):
                await asyncio.sleep(piece)
            elif isinstance(piece, BaseException):
                raise piece
            else:
                self.asked += 1
                yield piece

    def close(self) -> None:
        self.closed += 1

    async def aclose(self) -> None:
        self.closed += 1


_CLASSES = {
    name: type("Pieces", (_PiecesBase, module.SyncByteStream, module.AsyncByteStream), {})
    for name, module in MODULES.items()
}
Pieces = _CLASSES["httpx2"]


def pieces_for(module: Any, pieces: list[Any]) -> Any:
    """A body for ``httpx`` or ``httpx2``."""
    return _CLASSES[module.__name__](pieces)


def module_of(name: str) -> Any:
    """The module of that name."""
    return MODULES[name]


def transport(module: Any, answer: Any) -> Any:
    """A transport for both worlds that answers with what ``answer(request)`` gives.

    That is a Response, an exception to raise, or a tuple ``(status, headers, pieces)``.
    """

    def respond(request: Any) -> Any:
        found = answer(request)
        if isinstance(found, BaseException):
            raise found
        if isinstance(found, tuple):
            status, headers, pieces = found
            return module.Response(status, headers=headers, stream=pieces_for(module, list(pieces)))
        return found

    class Double(module.BaseTransport, module.AsyncBaseTransport):  # type: ignore[name-defined,misc]
        def handle_request(self, request: Any) -> Any:
            request.read()
            return respond(request)

        async def handle_async_request(self, request: Any) -> Any:
            await request.aread()
            return respond(request)

    return Double()
