"""The Messages API on the wire: bodies and server-sent events (D, `anthropic-api`)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from lz_otel.lab.simulator._context import Answer, reply
from lz_otel.lab.simulator._tokens import encode

if TYPE_CHECKING:
    from lz_otel.lab.simulator._content import Content
    from lz_otel.lab.simulator._context import Context

_SSE = (b"content-type", b"text/event-stream; charset=utf-8")
_PING = b'event: ping\ndata: {"type": "ping"}\n\n'
_SIGNATURE = "c2ltdWxhdGVk"
_STOP = b'event: message_stop\ndata: {"type":"message_stop"}\n\n'


def event(name: str, data: dict[str, Any]) -> bytes:
    """Return one server-sent event."""
    return b"event: " + name.encode() + b"\ndata: " + encode(data) + b"\n\n"


def cut_up(text: str, count: int) -> list[str]:
    """Cut a text into at most so many pieces of about the same length."""
    size = max(1, -(-len(text) // max(1, count)))
    return [text[i : i + size] for i in range(0, len(text), size)]


def usage_of(ctx: Context, output_tokens: int) -> dict[str, Any]:
    """Return the ``usage`` object of a whole message, from the numbers in the record."""
    record = ctx.record
    usage: dict[str, Any] = {
        "input_tokens": record.uncached_tokens,
        "cache_creation_input_tokens": record.cache_write_tokens,
        "cache_read_input_tokens": record.cache_read_tokens,
        "cache_creation": {
            "ephemeral_5m_input_tokens": record.cache_write_5m_tokens,
            "ephemeral_1h_input_tokens": record.cache_write_1h_tokens,
        },
        "output_tokens": output_tokens,
        "service_tier": "standard",
        "inference_geo": "global",
    }
    if ctx.body.get("speed") == "fast":
        usage["speed"] = "fast"
    usage.update(ctx.usage_extra)
    return usage


def _details(record: Any) -> dict[str, Any]:
    if record.reasoning_tokens:
        return {"output_tokens_details": {"thinking_tokens": record.reasoning_tokens}}
    return {}


def _head(ctx: Context, message_id: str, output_tokens: int, **more: Any) -> dict[str, Any]:
    """Return a message: all of it, or how a stream opens it."""
    head = {"id": message_id, "type": "message", "role": "assistant", "model": ctx.record.model}
    return {**head, **more, "stop_sequence": None, "usage": usage_of(ctx, output_tokens)}


def plain(ctx: Context, content: Content, message_id: str, extra: dict[str, Any]) -> Answer:
    """Return a whole message in one body."""
    record = ctx.record
    blocks: list[dict[str, Any]] = []
    if content.thinking:
        blocks.append({"type": "thinking", "thinking": content.thinking, "signature": _SIGNATURE})
    if content.text:
        blocks.append({"type": "text", "text": content.text})
    if content.tool:
        name, arguments = content.tool
        blocks.append({"type": "tool_use", "id": f"toolu_{message_id[4:]}", "name": name, "input": arguments})
    body = _head(ctx, message_id, record.output_tokens, content=blocks, stop_reason=content.stop, **extra)
    body["usage"] |= _details(record)
    record.usage_sent = "full"
    return reply(body, ctx.total_ms)


def streamed(
    ctx: Context,
    content: Content,
    message_id: str,
    extra: dict[str, Any],
    masks: list[Any] | None,
    pieces: int,
) -> Answer:
    """Return the same message as server-sent events, spread over the time it takes."""
    record = ctx.record
    head = _head(ctx, message_id, min(1, record.output_tokens), content=[], stop_reason=None, **extra)
    start = [event("message_start", {"type": "message_start", "message": head}), _PING]
    usage = {
        "input_tokens": record.uncached_tokens,
        "cache_creation_input_tokens": record.cache_write_tokens,
        "cache_read_input_tokens": record.cache_read_tokens,
        "output_tokens": record.output_tokens,
        **_details(record),
        **ctx.usage_extra,
    }
    delta = {"stop_reason": content.stop, "stop_sequence": None}
    end = event("message_delta", {"type": "message_delta", "delta": delta, "usage": usage})
    record.usage_sent = "full"
    return spread(ctx, start, _deltas(content, message_id, masks, pieces), [end + _STOP])


def _deltas(content: Content, message_id: str, masks: list[Any] | None, pieces: int) -> list[bytes]:
    """Return the events of all content blocks, a piece each."""
    blocks: list[tuple[dict[str, Any], list[dict[str, Any]]]] = []
    if content.thinking:
        thoughts = [{"type": "thinking_delta", "thinking": t} for t in cut_up(content.thinking, 3)]
        blocks.append(({"type": "thinking", "thinking": "", "signature": ""}, thoughts))
    if content.text:
        parts: list[dict[str, Any]] = [
            {"type": "text_delta", "text": t} for t in cut_up(content.text, pieces)
        ]
        for part, mask in zip(parts, masks or (), strict=False):
            part["zeroing_mask"] = mask
        blocks.append(({"type": "text", "text": ""}, parts))
    if content.tool:
        name, arguments = content.tool
        called = {"type": "tool_use", "id": f"toolu_{message_id[4:]}", "name": name, "input": {}}
        cut = cut_up(encode(arguments).decode(), 3)
        blocks.append((called, [{"type": "input_json_delta", "partial_json": t} for t in cut]))
    deltas: list[bytes] = []
    for index, (block, parts) in enumerate(blocks):
        opened = _of_block("start", index, content_block=block)
        events = [_of_block("delta", index, delta=part) for part in parts]
        deltas += [opened + events[0], *events[1:]] if events else [opened]
        if block["type"] == "thinking":
            signature = {"type": "signature_delta", "signature": _SIGNATURE}
            deltas[-1] += _of_block("delta", index, delta=signature)
        deltas[-1] += _of_block("stop", index)
    return deltas


def _of_block(what: str, index: int, **data: Any) -> bytes:
    kind = f"content_block_{what}"
    return event(kind, {"type": kind, "index": index, **data})


def spread(ctx: Context, start: list[bytes], deltas: list[bytes], end: list[bytes]) -> Answer:
    """Lay the events of a stream over its time: head early, first token, then even gaps."""
    total = (ctx.total_ms or 0.0) / 1000.0
    first = total * ctx.behaviour.latency.first_token_share
    if ctx.first_ms is not None:
        first = min(ctx.first_ms / 1000.0 * ctx.behaviour.latency.scale, total)
    gap = (total - first) / max(1, len(deltas))
    pieces = [(0.0, b"".join(start))]
    for number, data in enumerate(deltas):
        pieces.append((gap if number else first / 2, data))
    pieces.append((gap, b"".join(end)))
    headers = [_SSE, (b"cache-control", b"no-cache")]
    return Answer(200, headers, pieces, chunked=True, wait=first / 2)
