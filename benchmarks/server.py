"""A loopback API that costs the client nothing but bytes: every answer is made beforehand.

Runs in a process of its own, so that its work is not in the client's CPU time:
``python -m benchmarks.server`` prints its port and serves until its standard input is closed.
"""

from __future__ import annotations

import asyncio
import json
import sys

HEADERS = (
    "request-id: req_011CSHoEeqs5C35K2UUqR7Fy\r\n"
    "anthropic-organization-id: 00000000-0000-0000-0000-000000000000\r\n"
    "anthropic-ratelimit-requests-limit: 4000\r\n"
    "anthropic-ratelimit-requests-remaining: 3999\r\n"
    "anthropic-ratelimit-requests-reset: 2026-11-29T12:00:01Z\r\n"
    "anthropic-ratelimit-input-tokens-limit: 2000000\r\n"
    "anthropic-ratelimit-input-tokens-remaining: 1998000\r\n"
    "anthropic-ratelimit-input-tokens-reset: 2026-11-29T12:00:01Z\r\n"
    "anthropic-ratelimit-output-tokens-limit: 400000\r\n"
    "anthropic-ratelimit-output-tokens-remaining: 399000\r\n"
    "anthropic-ratelimit-output-tokens-reset: 2026-11-29T12:00:01Z\r\n"
)
USAGE = {
    "input_tokens": 120,
    "cache_creation_input_tokens": 0,
    "cache_read_input_tokens": 2048,
    "cache_creation": {"ephemeral_5m_input_tokens": 0, "ephemeral_1h_input_tokens": 0},
    "output_tokens": 200,
    "service_tier": "standard",
}
MODEL = "claude-haiku-4-5"


def message(size: int) -> bytes:
    """A Messages answer of about so many bytes."""
    body = {
        "id": "msg_01XFDUDYJgAACzvnptvVoYEL",
        "type": "message",
        "role": "assistant",
        "model": MODEL,
        "content": [{"type": "text", "text": ""}],
        "stop_reason": "end_turn",
        "stop_sequence": None,
        "usage": USAGE,
    }
    missing = max(0, size - len(json.dumps(body)))
    body["content"] = [{"type": "text", "text": ("The quick brown fox. " * (missing // 21 + 1))[:missing]}]
    return json.dumps(body).encode()


def completion(size: int) -> bytes:
    """A chat completion of about so many bytes."""
    text = ("The quick brown fox. " * (size // 21 + 1))[: max(0, size - 420)]
    body = {
        "id": "chatcmpl-1",
        "object": "chat.completion",
        "created": 1796000000,
        "model": "gpt-5-mini",
        "choices": [{"index": 0, "finish_reason": "stop", "message": {"role": "assistant", "content": text}}],
        "usage": {
            "prompt_tokens": 1200,
            "completion_tokens": 200,
            "total_tokens": 1400,
            "prompt_tokens_details": {"cached_tokens": 1024},
            "completion_tokens_details": {"reasoning_tokens": 0},
        },
    }
    return json.dumps(body).encode()


def events(count: int) -> list[bytes]:
    """A stream with so many events in all."""
    start = {
        "id": "msg_01",
        "type": "message",
        "role": "assistant",
        "model": MODEL,
        "content": [],
        "stop_reason": None,
        "stop_sequence": None,
        "usage": {**USAGE, "output_tokens": 1},
    }
    deltas = [
        {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": " word"}}
    ] * (count - 5)
    rows = [
        {"type": "message_start", "message": start},
        {"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}},
        *deltas,
        {"type": "content_block_stop", "index": 0},
        {
            "type": "message_delta",
            "delta": {"stop_reason": "end_turn", "stop_sequence": None},
            "usage": {"output_tokens": 200},
        },
        {"type": "message_stop"},
    ]
    return [f"event: {r['type']}\ndata: {json.dumps(r)}\n\n".encode() for r in rows]


def plain(body: bytes) -> bytes:
    """A whole HTTP answer with a length."""
    head = (
        f"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\n{HEADERS}content-length: {len(body)}\r\n\r\n"
    )
    return head.encode() + body


def streamed(pieces: list[bytes]) -> bytes:
    """A whole HTTP answer in chunks, one for each event: so the client sees one piece per event."""
    head = (
        f"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n{HEADERS}transfer-encoding: chunked\r\n\r\n"
    ).encode()
    return head + b"".join(b"%x\r\n%b\r\n" % (len(p), p) for p in pieces) + b"0\r\n\r\n"


def answers() -> dict[bytes, bytes]:
    """First path segment -> the whole answer."""
    return {
        b"1k": plain(message(1000)),
        b"50k": plain(message(50_000)),
        b"chat": plain(completion(1000)),
        b"s50": streamed(events(50)),
        b"s2000": streamed(events(2000)),
        b"sink": b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n",
    }


class Connection(asyncio.Protocol):
    """Reads requests, keeps the connection, answers by the first path segment."""

    def __init__(self, table: dict[bytes, bytes]) -> None:
        self.table = table
        self.buffer = bytearray()
        self.transport: asyncio.Transport | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self.transport = transport

    def data_received(self, data: bytes) -> None:
        assert self.transport is not None
        self.buffer += data
        while (end := self.buffer.find(b"\r\n\r\n")) >= 0:
            head = bytes(self.buffer[:end])
            at = head.lower().find(b"content-length:")
            length = int(head[at + 15 :].split(b"\r\n", 1)[0]) if at >= 0 else 0
            if len(self.buffer) < end + 4 + length:
                return
            del self.buffer[: end + 4 + length]
            name = head.split(b" ", 2)[1].split(b"/", 2)[1]
            self.transport.write(self.table[name])


async def serve() -> None:
    """Serve until standard input ends."""
    loop = asyncio.get_running_loop()
    table = answers()
    server = await loop.create_server(lambda: Connection(table), "127.0.0.1", 0)
    print(server.sockets[0].getsockname()[1], flush=True)
    await loop.run_in_executor(None, sys.stdin.read)
    server.close()


if __name__ == "__main__":
    asyncio.run(serve())
