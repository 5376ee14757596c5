"""Calls of a host over loopback, of known truth: what it sees of them, and how many they are."""

from __future__ import annotations

import asyncio
import json
from typing import TYPE_CHECKING, Any

import anthropic
import httpx
import httpx2
import openai

from tests.loopback import Asked, Reply, serving

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from contextlib import AbstractContextManager

__all__ = ["ATTEMPTS", "CALLS", "RETRIES", "host_sees", "raw", "serve"]

ASK: dict[str, Any] = {
    "model": "claude-haiku-4-5",
    "max_tokens": 5,
    "messages": [{"role": "user", "content": "x"}],
}
CHAT: dict[str, Any] = {"model": "gpt-5", "messages": [{"role": "user", "content": "x"}]}
USAGE = {"input_tokens": 3, "output_tokens": 1}
MESSAGE: dict[str, Any] = {
    "id": "m",
    "type": "message",
    "role": "assistant",
    "model": "claude-haiku-4-5",
    "content": [{"type": "text", "text": "hi"}],
    "stop_reason": "end_turn",
    "stop_sequence": None,
    "usage": USAGE,
}
EVENTS: list[dict[str, Any]] = [
    {"type": "message_start", "message": {**MESSAGE, "content": [], "stop_reason": None}},
    {"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}},
    {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": "hello"}},
    {"type": "content_block_stop", "index": 0},
    {"type": "message_delta", "delta": {"stop_reason": "end_turn"}, "usage": {"output_tokens": 2}},
    {"type": "message_stop"},
]
STREAM = "".join(f"event: {event['type']}\ndata: {json.dumps(event)}\n\n" for event in EVENTS)
COMPLETION: dict[str, Any] = {
    "id": "c",
    "object": "chat.completion",
    "created": 1,
    "model": "gpt-5",
    "choices": [
        {
            "index": 0,
            "finish_reason": "stop",
            "message": {"role": "assistant", "content": "hi", "refusal": None},
        }
    ],
    "usage": {"prompt_tokens": 3, "completion_tokens": 1, "total_tokens": 4},
}
BUSY = {"type": "error", "error": {"type": "overloaded_error", "message": "busy"}}


def answer(asked: dict[str, Any], number: int) -> tuple[int, str, bytes]:
    """Status, type and body for a request; one of ``busy`` is answered well the third time it comes."""
    busy = asked.get("user") == "busy" or asked.get("metadata") == {"user_id": "busy"}
    if busy and number < 3:
        return 529, "application/json", json.dumps(BUSY).encode()
    if asked.get("max_tokens") == 1:
        return 400, "application/json", json.dumps(BUSY).encode()
    if asked.get("stream"):
        return 200, "text/event-stream", STREAM.encode()
    return 200, "application/json", json.dumps(MESSAGE if "max_tokens" in asked else COMPLETION).encode()


def serve() -> AbstractContextManager[str]:
    """Serve the API on loopback; gives its address."""

    def reply(asked: Asked) -> Reply:
        number = int(asked.headers.get("x-stainless-retry-count", 0)) + 1
        status, kind, sent = answer(json.loads(asked.body), number)
        return Reply(sent, status, {"retry-after-ms": "1"}, kind)

    return serving(reply)


class Own(httpx2.BaseTransport):
    """A transport of the host's own."""

    def handle_request(self, request: Any) -> Any:
        number = int(request.headers.get("x-stainless-retry-count", 0)) + 1
        status, kind, sent = answer(json.loads(request.content), number)
        headers = {"content-type": kind, "retry-after-ms": "1"}
        return httpx2.Response(status, headers=headers, content=sent)


class OwnAsync(httpx2.AsyncBaseTransport):
    """The same for async clients."""

    async def handle_async_request(self, request: Any) -> Any:
        return Own().handle_request(request)


BUSY_ASK = ASK | {"metadata": {"user_id": "busy"}}
BUSY_CHAT = CHAT | {"user": "busy"}


def _text(message: Any) -> str:
    return str(message.content[0].text)


def _stream(client: anthropic.Anthropic) -> str:
    with client.messages.stream(**ASK) as stream:
        return "".join(stream.text_stream)


async def _async_stream(client: anthropic.AsyncAnthropic) -> str:
    async with client.messages.stream(**ASK) as stream:
        return "".join([text async for text in stream.text_stream])


def raw(url: str) -> int:
    """Make one call without an SDK."""
    return httpx2.post(f"{url}/v1/messages", json=ASK).status_code


def _sync(url: str) -> Iterator[Callable[[], Any]]:
    own = httpx2.Client(transport=Own())
    one = anthropic.Anthropic(api_key="k", base_url=url)
    two = openai.OpenAI(api_key="k", base_url=f"{url}/v1")
    yield lambda: _text(one.messages.create(**BUSY_ASK))  # 3 attempts
    yield lambda: _text(one.messages.create(**(ASK | {"max_tokens": 1})))  # raises
    yield lambda: _stream(one)
    yield lambda: [event.type for event in one.messages.create(**ASK, stream=True)]
    yield lambda: _text(one.messages.with_raw_response.create(**ASK).parse())
    yield lambda: two.chat.completions.create(**BUSY_CHAT).choices[0].message.content  # 3 attempts
    one = anthropic.Anthropic(api_key="k", base_url=url, http_client=own)
    two = openai.OpenAI(api_key="k", base_url=f"{url}/v1", http_client=own)
    yield lambda: _text(one.messages.create(**BUSY_ASK))  # 3 attempts
    yield lambda: two.chat.completions.create(**BUSY_CHAT).choices[0].message.content  # 3 attempts
    yield lambda: raw(url)
    yield lambda: httpx.post(f"{url}/v1/messages", json=ASK).status_code
    yield lambda: httpx.post("http://127.0.0.1:1/v1/messages", json=ASK)  # raises


async def _cancelled(url: str) -> str:
    async with httpx.AsyncClient() as client:
        task = asyncio.create_task(client.post(f"{url}/v1/messages", json=ASK))
        await asyncio.sleep(0)
        task.cancel()
        try:
            await task
        except asyncio.CancelledError:
            return "cancelled"
    return "not cancelled"


async def _async(url: str) -> list[Any]:
    own = httpx2.AsyncClient(transport=OwnAsync())
    async with (
        anthropic.AsyncAnthropic(api_key="k", base_url=url) as one,
        openai.AsyncOpenAI(api_key="k", base_url=f"{url}/v1") as two,
        anthropic.AsyncAnthropic(api_key="k", base_url=url, http_client=own) as three,
    ):
        chat: Any = await two.chat.completions.create(**BUSY_CHAT)  # 3 attempts
        return [
            _text(await one.messages.create(**BUSY_ASK)),  # 3 attempts
            await _async_stream(one),
            chat.choices[0].message.content,
            _text(await three.messages.create(**BUSY_ASK)),  # 3 attempts
            await _cancelled(url),
        ]


CALLS = 11 + 5
RETRIES = 2 * (4 + 3)
ATTEMPTS = CALLS + RETRIES


def host_sees(url: str) -> list[Any]:
    """Make all calls; returns each result, or the exception in its place."""
    seen: list[Any] = []
    for call in _sync(url):
        try:
            seen.append(call())
        except Exception as error:
            seen.append(f"{type(error).__name__}: {error}")
    seen.append(asyncio.run(_async(url)))
    return seen
