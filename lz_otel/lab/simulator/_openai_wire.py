"""OpenAI's bodies and streams: chat completions, responses, embeddings (D, `openai-api`)."""

from __future__ import annotations

import base64
import struct
from typing import TYPE_CHECKING, Any

from lz_otel.lab.simulator._context import reply
from lz_otel.lab.simulator._messages import cut_up, event, spread
from lz_otel.lab.simulator._tokens import encode

if TYPE_CHECKING:
    from lz_otel.lab.simulator._content import Content
    from lz_otel.lab.simulator._context import Answer, Context

_CREATED = 1_795_000_000
_FINISH = {"end_turn": "stop", "tool_use": "tool_calls", "max_tokens": "length"}
_DONE = b"data: [DONE]\n\n"


def chat_usage(ctx: Context) -> dict[str, Any]:
    """Return the ``usage`` object of a chat completion."""
    record = ctx.record
    details: dict[str, Any] = {"cached_tokens": record.cache_read_tokens, "audio_tokens": 0}
    if record.cache_write_tokens:
        details["cache_write_tokens"] = record.cache_write_tokens
    return {
        "prompt_tokens": record.input_tokens,
        "completion_tokens": record.output_tokens,
        "total_tokens": record.input_tokens + record.output_tokens,
        "prompt_tokens_details": details,
        "completion_tokens_details": {"reasoning_tokens": record.reasoning_tokens, "audio_tokens": 0},
    }


def _chat(ctx: Context, answer_id: str, kind: str) -> dict[str, Any]:
    """Return what a whole completion and each chunk of one have in common."""
    head = {"id": answer_id, "object": kind, "created": _CREATED, "model": ctx.record.model}
    return {**head, "service_tier": "default", "system_fingerprint": "fp_sim"}


def chat_plain(ctx: Context, content: Content, answer_id: str) -> Answer:
    """Return a whole chat completion."""
    message: dict[str, Any] = {"role": "assistant", "content": content.text or None, "refusal": None}
    if content.tool is not None:
        name, given = content.tool
        function = {"name": name, "arguments": encode(given).decode()}
        message["tool_calls"] = [{"id": f"call_{answer_id[9:]}", "type": "function", "function": function}]
    choice = {"index": 0, "message": message, "logprobs": None, "finish_reason": _FINISH[content.stop]}
    ctx.record.usage_sent = "full"
    body = {**_chat(ctx, answer_id, "chat.completion"), "choices": [choice], "usage": chat_usage(ctx)}
    return reply(body, ctx.total_ms)


def chat_streamed(ctx: Context, content: Content, answer_id: str, pieces: int) -> Answer:
    """Return the same as chunks; the totals come only when the client asked for them."""
    options = ctx.body.get("stream_options")
    options = options if isinstance(options, dict) else {}
    wanted = options.get("include_usage") is True
    base = _chat(ctx, answer_id, "chat.completion.chunk")
    if wanted:
        base["usage"] = None

    def chunk(delta: dict[str, Any], finish: str | None = None) -> bytes:
        choice = {"index": 0, "delta": delta, "logprobs": None, "finish_reason": finish}
        data = {**base, "choices": [choice]}
        if delta and options.get("include_obfuscation") is not False:
            data["obfuscation"] = "x" * (len(str(delta)) % 9)
        return b"data: " + encode(data) + b"\n\n"

    start = [chunk({"role": "assistant", "content": "", "refusal": None})]
    deltas = [chunk({"content": t}) for t in cut_up(content.text, pieces)]
    if content.tool is not None:
        call = {"index": 0, "id": f"call_{answer_id[9:]}", "type": "function"}
        deltas.append(
            chunk({"tool_calls": [{**call, "function": {"name": content.tool[0], "arguments": ""}}]})
        )
        parts = cut_up(encode(content.tool[1]).decode(), 3)
        deltas += [chunk({"tool_calls": [{"index": 0, "function": {"arguments": p}}]}) for p in parts]
    end = [chunk({}, _FINISH[content.stop])]
    if wanted:
        end.append(b"data: " + encode({**base, "choices": [], "usage": chat_usage(ctx)}) + b"\n\n")
    end.append(_DONE)
    ctx.record.usage_sent = "full" if wanted else "not_requested"
    return spread(ctx, start, deltas, end)


def responses_usage(ctx: Context) -> dict[str, Any]:
    """Return the ``usage`` object of a response."""
    record = ctx.record
    return {
        "input_tokens": record.input_tokens,
        "input_tokens_details": {
            "cached_tokens": record.cache_read_tokens,
            "cache_write_tokens": record.cache_write_tokens,
        },
        "output_tokens": record.output_tokens,
        "output_tokens_details": {"reasoning_tokens": record.reasoning_tokens},
        "total_tokens": record.input_tokens + record.output_tokens,
    }


# What a response says that no request of the simulator changes.
_RESPONSE = {
    "object": "response", "created_at": _CREATED, "background": False, "error": None, "metadata": {},
    "parallel_tool_calls": True, "previous_response_id": None, "service_tier": "default", "store": True,
    "temperature": 1.0, "text": {"format": {"type": "text"}}, "tool_choice": "auto", "top_p": 1.0,
    "truncation": "disabled",
}  # fmt: skip


def _response(
    ctx: Context, answer_id: str, status: str, output: list[Any], usage: Any, stop: str
) -> dict[str, Any]:
    return {
        **_RESPONSE,
        "id": answer_id,
        "status": status,
        "incomplete_details": {"reason": "max_output_tokens"} if stop == "max_tokens" else None,
        "instructions": ctx.body.get("instructions"),
        "max_output_tokens": ctx.body.get("max_output_tokens"),
        "model": ctx.record.model,
        "output": output,
        "tools": ctx.body.get("tools") or [],
        "usage": usage,
    }


def _items(content: Content, answer_id: str) -> list[dict[str, Any]]:
    suffix = answer_id[5:]
    items: list[dict[str, Any]] = []
    if content.text:
        part = {"type": "output_text", "text": content.text, "annotations": [], "logprobs": []}
        item = {"id": f"msg_{suffix}", "type": "message", "status": "completed", "role": "assistant"}
        items.append({**item, "content": [part]})
    if content.tool is not None:
        name, arguments = content.tool
        item = {"id": f"fc_{suffix}", "type": "function_call", "status": "completed"}
        called = {"call_id": f"call_{suffix}", "name": name, "arguments": encode(arguments).decode()}
        items.append({**item, **called})
    return items


def responses_plain(ctx: Context, content: Content, answer_id: str) -> Answer:
    """Return a whole response."""
    status = "incomplete" if content.stop == "max_tokens" else "completed"
    body = _response(ctx, answer_id, status, _items(content, answer_id), responses_usage(ctx), content.stop)
    ctx.record.usage_sent = "full"
    return reply(body, ctx.total_ms)


class _Numbered:
    """Events with their sequence numbers."""

    def __init__(self) -> None:
        self._next = 0

    def __call__(self, kind: str, **data: Any) -> bytes:
        body = {"type": kind, "sequence_number": self._next, **data}
        self._next += 1
        return event(kind, body)


def responses_streamed(ctx: Context, content: Content, answer_id: str, pieces: int) -> Answer:
    """Return the same as typed events; the terminal one carries the usage."""
    numbered = _Numbered()
    opened = _response(ctx, answer_id, "in_progress", [], None, "")
    start = [numbered("response.created", response=opened), numbered("response.in_progress", response=opened)]
    deltas: list[bytes] = []
    items = _items(content, answer_id)
    for index, item in enumerate(items):
        place = {"item_id": item["id"], "output_index": index}
        text = item["type"] == "message"
        if text:
            place["content_index"] = 0
        empty: dict[str, Any] = {"content": []} if text else {"arguments": ""}
        opening = {**item, "status": "in_progress", **empty}
        head = numbered("response.output_item.added", output_index=index, item=opening)
        if text:
            part = {"type": "output_text", "text": "", "annotations": [], "logprobs": []}
            head += numbered("response.content_part.added", **place, part=part)
        kind = "response.output_text" if text else "response.function_call_arguments"
        more: dict[str, Any] = {"logprobs": [], "obfuscation": "xx"} if text else {}
        for cut in cut_up(content.text, pieces) if text else cut_up(item["arguments"], 3):
            deltas.append(head + numbered(f"{kind}.delta", **place, delta=cut, **more))
            head = b""
        if text:
            done = numbered(f"{kind}.done", **place, text=content.text, logprobs=[])
            done += numbered("response.content_part.done", **place, part=item["content"][0])
        else:
            done = numbered(f"{kind}.done", **place, name=item["name"], arguments=item["arguments"])
        deltas[-1] += done + numbered("response.output_item.done", output_index=index, item=item)
    status = "incomplete" if content.stop == "max_tokens" else "completed"
    closed = _response(ctx, answer_id, status, items, responses_usage(ctx), content.stop)
    ctx.record.usage_sent = "full"
    return spread(ctx, start, deltas, [numbered(f"response.{status}", response=closed)])


def embeddings(ctx: Context, inputs: int) -> Answer:
    """Return vectors of eight numbers, as floats or as base64 of 32-bit floats."""
    vector = [round(ctx.draw.unit(f"embedding.{i}") - 0.5, 6) for i in range(8)]
    packed: Any = vector
    if ctx.body.get("encoding_format") == "base64":
        packed = base64.b64encode(struct.pack("<8f", *vector)).decode()
    data = [{"object": "embedding", "index": i, "embedding": packed} for i in range(inputs)]
    tokens = ctx.record.input_tokens
    usage = {"prompt_tokens": tokens, "total_tokens": tokens}
    ctx.record.usage_sent = "full"
    body = {"object": "list", "data": data, "model": ctx.record.model, "usage": usage}
    return reply(body, ctx.total_ms)
