"""The official SDKs over loopback: the current ones here, the older ones on httpx in `.venv-legacy`.

The same tests run in both environments (`make test`); nothing in this folder may need more than an SDK.
"""

from __future__ import annotations

import asyncio
import json
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING, Any

import pytest

import lz_otel
from lz_otel.testing import Capture, capture

anthropic = pytest.importorskip("anthropic", reason="the official SDK: make venv, or make venv-legacy")
openai = pytest.importorskip("openai", reason="the official SDK: make venv, or make venv-legacy")

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

CALLS = "gen_ai.client.inference.duration"
INPUT = "gen_ai.client.inference.usage.input_tokens"
OUTPUT = "gen_ai.client.inference.usage.output_tokens"
ASK: dict[str, Any] = {
    "model": "claude-haiku-4-5",
    "max_tokens": 50,
    "messages": [{"role": "user", "content": "Hi"}],
}
USAGE = {
    "input_tokens": 4,
    "cache_read_input_tokens": 2000,
    "cache_creation_input_tokens": 100,
    "output_tokens": 20,
}
MESSAGE = {
    "id": "msg_1",
    "type": "message",
    "role": "assistant",
    "model": "claude-haiku-4-5",
    "stop_sequence": None,
    "content": [{"type": "text", "text": "Hello"}],
    "stop_reason": "end_turn",
    "usage": USAGE,
}
EVENTS: list[dict[str, Any]] = [
    {
        "type": "message_start",
        "message": {**MESSAGE, "content": [], "stop_reason": None, "usage": {**USAGE, "output_tokens": 1}},
    },
    {"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}},
    *(
        {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": t}}
        for t in ("Hel", "lo")
    ),
    {"type": "content_block_stop", "index": 0},
    {
        "type": "message_delta",
        "delta": {"stop_reason": "end_turn", "stop_sequence": None},
        "usage": {"output_tokens": 20},
    },
    {"type": "message_stop"},
]
O_USAGE = {
    "prompt_tokens": 100,
    "completion_tokens": 30,
    "total_tokens": 130,
    "prompt_tokens_details": {"cached_tokens": 80},
}
COMPLETION = {
    "id": "c1",
    "object": "chat.completion",
    "created": 1,
    "model": "gpt-5-mini",
    "usage": O_USAGE,
    "choices": [{"index": 0, "finish_reason": "stop", "message": {"role": "assistant", "content": "Hi"}}],
}
CHUNK = {"id": "c1", "object": "chat.completion.chunk", "created": 1, "model": "gpt-5-mini"}
CHUNKS = [
    {
        **CHUNK,
        "choices": [{"index": 0, "delta": {"role": "assistant", "content": "Hi"}, "finish_reason": None}],
        "usage": None,
    },
    {**CHUNK, "choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}], "usage": None},
    {**CHUNK, "choices": [], "usage": O_USAGE},
]
EMBEDDING = {
    "object": "list",
    "model": "text-embedding-3-small",
    "usage": {"prompt_tokens": 7, "total_tokens": 7},
    "data": [{"object": "embedding", "index": 0, "embedding": [0.5, 0.25]}],
}


class Answer:
    """One answer of the server: JSON, or a stream of the given events."""

    def __init__(
        self, body: dict[str, Any] | list[dict[str, Any]], status: int = 200, named: bool = True
    ) -> None:
        self.status = status
        self.headers = {"retry-after-ms": "1"} if status in (429, 529) else {}
        if isinstance(body, dict):
            self.type, self.pieces = "application/json", [json.dumps(body).encode()]
        else:
            self.type = "text/event-stream"
            heads = [f"event: {e['type']}\n" if named else "" for e in body]
            self.pieces = [f"{h}data: {json.dumps(e)}\n\n".encode() for h, e in zip(heads, body, strict=True)]
            if not named:
                self.pieces.append(b"data: [DONE]\n\n")


def error(status: int, kind: str) -> Answer:
    """An error as Anthropic sends it."""
    return Answer({"type": "error", "error": {"type": kind, "message": "no"}, "request_id": "req_1"}, status)


class Api:
    """A loopback API that gives the answers it was told, in order, the last one again and again."""

    def __init__(self) -> None:
        self.answers: list[Answer] = []
        api = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_POST(self) -> None:
                self.rfile.read(int(self.headers["content-length"]))
                answer = api.answers.pop(0) if len(api.answers) > 1 else api.answers[0]
                self.send_response(answer.status)
                self.send_header("content-type", answer.type)
                self.send_header("transfer-encoding", "chunked")
                for name, value in answer.headers.items():
                    self.send_header(name, value)
                self.end_headers()
                for piece in (*answer.pieces, b""):
                    self.wfile.write(b"%x\r\n%b\r\n" % (len(piece), piece))

            def log_message(self, *args: object) -> None:
                pass

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.server.daemon_threads = True
        self.url = f"http://127.0.0.1:{self.server.server_port}"
        threading.Thread(target=self.server.serve_forever, args=(0.02,), daemon=True).start()


@pytest.fixture
def api() -> Iterator[Api]:
    """A server of its own for each test."""
    api = Api()
    yield api
    api.server.shutdown()
    api.server.server_close()


@pytest.fixture
def seen() -> Iterator[Capture]:
    """lz_otel on, strictly: a fault inside it fails the test."""
    with capture(strict=True) as seen:
        yield seen


def claude(api: Api, **options: Any) -> Any:
    """The synchronous client of Anthropic's SDK."""
    return anthropic.Anthropic(api_key="none", base_url=api.url, **options)


def claude_async(api: Api) -> Any:
    """The asynchronous one."""
    return anthropic.AsyncAnthropic(api_key="none", base_url=api.url)


def gpt(api: Api) -> Any:
    """The synchronous client of OpenAI's SDK."""
    return openai.OpenAI(api_key="none", base_url=f"{api.url}/v1")


def sync_plain(api: Api) -> None:
    assert claude(api).messages.create(**ASK).content[0].text == "Hello"


def sync_stream(api: Api) -> None:
    assert [e.type for e in claude(api).messages.create(**ASK, stream=True)] == [e["type"] for e in EVENTS]


def sync_helper(api: Api) -> None:
    with claude(api).messages.stream(**ASK) as stream:
        assert "".join(stream.text_stream) == "Hello"


def sync_raw(api: Api) -> None:
    assert claude(api).messages.with_raw_response.create(**ASK).parse().content[0].text == "Hello"


def sync_streaming_response(api: Api) -> None:
    with claude(api).messages.with_streaming_response.create(**ASK) as response:
        assert response.parse().content[0].text == "Hello"


def async_plain(api: Api) -> None:
    async def run() -> None:
        async with claude_async(api) as client:
            assert (await client.messages.create(**ASK)).content[0].text == "Hello"

    asyncio.run(run())


def async_stream(api: Api) -> None:
    async def run() -> None:
        async with claude_async(api) as client:
            stream = await client.messages.create(**ASK, stream=True)
            assert [e.type async for e in stream] == [e["type"] for e in EVENTS]

    asyncio.run(run())


def async_helper(api: Api) -> None:
    async def run() -> None:
        async with claude_async(api) as client, client.messages.stream(**ASK) as stream:
            assert "".join([t async for t in stream.text_stream]) == "Hello"

    asyncio.run(run())


PLAIN = (sync_plain, sync_raw, sync_streaming_response, async_plain)
STREAMS = (sync_stream, sync_helper, async_stream, async_helper)


@pytest.mark.parametrize("way", [*PLAIN, *STREAMS], ids=lambda w: w.__name__)
def test_every_way_to_ask_is_one_call(api: Api, seen: Capture, way: Callable[[Api], None]) -> None:
    """Plain, streamed, by helper, raw; sync and async: one call, all tokens, the same answer for the host."""
    stream = way in STREAMS
    api.answers = [Answer(EVENTS if stream else MESSAGE)]
    way(api)
    assert {
        "calls": 1,
        "attempts": 1,
        "input": 2104,
        "output": 20,
        "hits": 1,
        "first tokens": int(stream),
    } == {
        "calls": seen.value(CALLS, lz_ending="ok", lz_stream=str(stream).lower()),
        "attempts": seen.value("lz.attempts", status="200"),
        "input": seen.value(INPUT),
        "output": seen.value(OUTPUT),
        "hits": seen.value("lz.fast_path.calls", mechanism="prompt_cache", verdict="hit"),
        "first tokens": seen.value("lz.call.time_to_first_token"),
    }
    assert seen.value(CALLS) == 1
    assert seen.value("lz.call.active") == 0


@pytest.mark.parametrize("way", [sync_plain, async_plain], ids=lambda w: w.__name__)
def test_retries_belong_to_their_call(api: Api, seen: Capture, way: Callable[[Api], None]) -> None:
    """429, 529 and 200 are one call, three attempts, two retries."""
    api.answers = [error(429, "rate_limit_error"), error(529, "overloaded_error"), Answer(MESSAGE)]
    way(api)
    assert (1, 1) == (seen.value(CALLS), seen.value(CALLS, lz_ending="ok"))
    assert [1, 1, 1] == [seen.value("lz.attempts", status=s) for s in ("429", "529", "200")]
    assert [1, 1] == [seen.value("lz.call.retries", reason=r) for r in ("429", "529")]
    assert seen.value(OUTPUT) == 20


def test_an_error_reaches_the_host_and_is_counted(api: Api, seen: Capture) -> None:
    """The SDK raises what it always raised; the call has the provider's error type."""
    api.answers = [error(400, "invalid_request_error")]
    with pytest.raises(anthropic.BadRequestError):
        claude(api).messages.create(**ASK)
    assert seen.value(CALLS, lz_ending="error", error_type="invalid_request_error") == 1
    assert seen.value(OUTPUT) == 0


def test_an_error_inside_a_stream_is_an_error(api: Api, seen: Capture) -> None:
    """`event: error` in a 200 stream ends the call with its type."""
    api.answers = [
        Answer([*EVENTS[:3], {"type": "error", "error": {"type": "overloaded_error", "message": "no"}}])
    ]
    with pytest.raises(anthropic.APIStatusError):
        sync_stream(api)
    assert seen.value(CALLS, lz_ending="error", error_type="overloaded_error") == 1


def test_a_stream_left_early_is_abandoned(api: Api, seen: Capture) -> None:
    """The caller took one event and closed the stream: no output is made up."""
    api.answers = [Answer(EVENTS)]
    with claude(api).messages.create(**ASK, stream=True) as stream:
        next(iter(stream))
    assert (1, 1) == (seen.value(CALLS), seen.value(CALLS, lz_ending="abandoned"))
    assert seen.value(OUTPUT) == 0


def test_token_counting_is_no_call(api: Api, seen: Capture) -> None:
    """`count_tokens` is no inference and leaves no series."""
    api.answers = [Answer({"input_tokens": 14})]
    counted = claude(api).messages.count_tokens(model=ASK["model"], messages=ASK["messages"])
    assert (14, 0, 0) == (counted.input_tokens, seen.value(CALLS), seen.value(INPUT))


def test_openai_chat(api: Api, seen: Capture) -> None:
    """Cached tokens are part of the prompt, not added to it."""
    api.answers = [Answer(COMPLETION)]
    answer = gpt(api).chat.completions.create(
        model="gpt-5-mini", messages=[{"role": "user", "content": "Hi"}]
    )
    assert answer.choices[0].message.content == "Hi"
    cached = seen.value("gen_ai.client.inference.usage.cache_read.input_tokens")
    assert (1, 100, 30, 80) == (
        seen.value(CALLS, lz_ending="ok"),
        seen.value(INPUT),
        seen.value(OUTPUT),
        cached,
    )


@pytest.mark.parametrize("asked", [True, False])
def test_openai_stream(api: Api, seen: Capture, asked: bool) -> None:
    """The extra chunk with the usage is read where it was asked for, and missed by name where it was not."""
    api.answers = [Answer(CHUNKS if asked else CHUNKS[:2], named=False)]
    options: dict[str, Any] = {"stream_options": {"include_usage": True}} if asked else {}
    chunks = list(
        gpt(api).chat.completions.create(
            model="gpt-5-mini", messages=[{"role": "user", "content": "Hi"}], stream=True, **options
        )
    )
    assert len(chunks) == (3 if asked else 2)
    assert seen.value(CALLS, lz_ending="ok", lz_stream="true") == 1
    missing = seen.value("lz.call.usage_missing", reason="not_requested")
    assert ((100, 30, 0) if asked else (0, 0, 1)) == (seen.value(INPUT), seen.value(OUTPUT), missing)


def test_openai_embeddings(api: Api, seen: Capture) -> None:
    """Embeddings are measured, and are no inference."""
    api.answers = [Answer(EMBEDDING)]
    gpt(api).embeddings.create(model="text-embedding-3-small", input="Hi", encoding_format="float")
    duration = seen.value("gen_ai.client.operation.duration", gen_ai_operation_name="embeddings")
    assert (1, 0) == (duration, seen.value(CALLS))


def test_clients_made_before_are_seen_and_taking_off_is_complete(api: Api) -> None:
    """A client made before `instrument()` counts, and counts no more after `uninstrument()`."""
    api.answers = [Answer(MESSAGE)]
    client = claude(api)
    client.messages.create(**ASK)
    with capture(strict=True) as seen:
        client.messages.create(**ASK)
        assert seen.value(CALLS) == 1
    client.messages.create(**ASK)
    assert seen.value(CALLS) == 1
    assert not lz_otel.status().enabled


def test_both_sdks_are_hooked(seen: Capture) -> None:
    """The request methods of both SDKs are found, in the older and in the current generation."""
    assert {"anthropic", "openai"} <= set(lz_otel.status().hooked)
