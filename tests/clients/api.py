"""A server that speaks many dialects with one truth: 11 tokens in (4 cached, where that can be said), 7 out.

A model whose name holds ``busy`` is refused (429) at the first of two requests. A stream waits for `PAUSE`
before its first content.
"""

from __future__ import annotations

import base64
import binascii
import json
import struct
import threading
import time
from collections import Counter
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

PAUSE = 0.1  # seconds
WORDS = ("He", "ll", "o")
TEXT = "".join(WORDS)

Document = dict[str, Any]
_counts: Counter[str] = Counter()


# --- documents, by dialect -----------------------------------------------------------------------


def message(model: str) -> Document:
    usage = {
        "input_tokens": 7,
        "cache_read_input_tokens": 4,
        "cache_creation_input_tokens": 0,
        "output_tokens": 7,
    }
    return {
        "id": "msg_1",
        "type": "message",
        "role": "assistant",
        "model": model,
        "content": [{"type": "text", "text": TEXT}],
        "stop_reason": "end_turn",
        "stop_sequence": None,
        "usage": usage,
    }


def message_events(model: str) -> list[Document]:
    whole = message(model)
    start = {**whole, "content": [], "stop_reason": None, "usage": {**whole["usage"], "output_tokens": 1}}
    return [
        {"type": "message_start", "message": start},
        {"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}},
        *(
            {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": w}}
            for w in WORDS
        ),
        {"type": "content_block_stop", "index": 0},
        {
            "type": "message_delta",
            "delta": {"stop_reason": "end_turn", "stop_sequence": None},
            "usage": {"output_tokens": 7},
        },
        {"type": "message_stop"},
    ]


_CHAT_USAGE = {
    "prompt_tokens": 11,
    "completion_tokens": 7,
    "total_tokens": 18,
    "prompt_tokens_details": {"cached_tokens": 4},
}


def completion(model: str) -> Document:
    choice = {"index": 0, "message": {"role": "assistant", "content": TEXT}, "finish_reason": "stop"}
    head = {"id": "c1", "object": "chat.completion", "created": 1, "model": model}
    return {**head, "choices": [choice], "usage": _CHAT_USAGE}


def completion_chunks(model: str) -> list[Document]:
    head = {"id": "c1", "object": "chat.completion.chunk", "created": 1, "model": model}

    def chunk(delta: Document, reason: str | None = None) -> Document:
        return {**head, "choices": [{"index": 0, "delta": delta, "finish_reason": reason}]}

    words = (chunk({"content": word}) for word in WORDS)
    return [
        chunk({"role": "assistant", "content": ""}),
        *words,
        chunk({}, "stop"),
        {**head, "choices": [], "usage": _CHAT_USAGE},
    ]


def response(model: str, done: bool = True) -> Document:
    usage = {
        "input_tokens": 11,
        "input_tokens_details": {"cached_tokens": 4},
        "output_tokens": 7,
        "output_tokens_details": {"reasoning_tokens": 0},
        "total_tokens": 18,
    }
    part = {"type": "output_text", "text": TEXT, "annotations": []}
    item = {"type": "message", "id": "m1", "status": "completed", "role": "assistant", "content": [part]}
    head = {"id": "resp_1", "object": "response", "created_at": 1, "model": model}
    rest = {"parallel_tool_calls": True, "tool_choice": "auto", "tools": []}
    if not done:
        return {**head, **rest, "status": "in_progress", "output": [], "usage": None}
    return {**head, **rest, "status": "completed", "output": [item], "usage": usage}


def response_events(model: str) -> list[Document]:
    item = {"type": "message", "id": "m1", "status": "in_progress", "role": "assistant", "content": []}
    at = {"item_id": "m1", "output_index": 0, "content_index": 0}
    part = {"type": "output_text", "text": "", "annotations": []}
    events = [
        {"type": "response.created", "response": response(model, done=False)},
        {"type": "response.output_item.added", "output_index": 0, "item": item},
        {"type": "response.content_part.added", **at, "part": part},
        *({"type": "response.output_text.delta", **at, "delta": word, "logprobs": []} for word in WORDS),
        {"type": "response.output_text.done", **at, "text": TEXT},
        {"type": "response.completed", "response": response(model)},
    ]
    return [{**event, "sequence_number": number} for number, event in enumerate(events)]


def candidates(model: str, text: str = TEXT, last: bool = True) -> Document:
    candidate: Document = {"content": {"role": "model", "parts": [{"text": text}]}, "index": 0}
    made: Document = {"candidates": [candidate], "modelVersion": model, "responseId": "g1"}
    if last:
        candidate["finishReason"] = "STOP"
        made["usageMetadata"] = {
            "promptTokenCount": 11,
            "candidatesTokenCount": 7,
            "totalTokenCount": 18,
            "cachedContentTokenCount": 4,
        }
    return made


_CONVERSE_USAGE = {
    "inputTokens": 7,
    "cacheReadInputTokens": 4,
    "cacheWriteInputTokens": 0,
    "outputTokens": 7,
    "totalTokens": 18,
}


def converse() -> Document:
    content = {"message": {"role": "assistant", "content": [{"text": TEXT}]}}
    return {
        "output": content,
        "stopReason": "end_turn",
        "usage": _CONVERSE_USAGE,
        "metrics": {"latencyMs": 9},
    }


def converse_events() -> list[tuple[str, Document]]:
    words = (("contentBlockDelta", {"contentBlockIndex": 0, "delta": {"text": word}}) for word in WORDS)
    return [
        ("messageStart", {"role": "assistant"}),
        *words,
        ("contentBlockStop", {"contentBlockIndex": 0}),
        ("messageStop", {"stopReason": "end_turn"}),
        ("metadata", {"usage": _CONVERSE_USAGE, "metrics": {"latencyMs": 9}}),
    ]


_COHERE_USAGE = {
    "billed_units": {"input_tokens": 11, "output_tokens": 7},
    "tokens": {"input_tokens": 11, "output_tokens": 7},
}


def cohere() -> Document:
    content = {"role": "assistant", "content": [{"type": "text", "text": TEXT}]}
    return {"id": "c1", "finish_reason": "COMPLETE", "message": content, "usage": _COHERE_USAGE}


def cohere_events() -> list[Document]:
    start = {
        "message": {"role": "assistant", "content": [], "tool_plan": "", "tool_calls": [], "citations": []}
    }

    def content(kind: str, text: Document) -> Document:
        return {"type": kind, "index": 0, "delta": {"message": {"content": text}}}

    return [
        {"type": "message-start", "id": "c1", "delta": start},
        content("content-start", {"type": "text", "text": ""}),
        *(content("content-delta", {"text": word}) for word in WORDS),
        {"type": "content-end", "index": 0},
        {"type": "message-end", "delta": {"finish_reason": "COMPLETE", "usage": _COHERE_USAGE}},
    ]


def ollama(model: str, text: str, done: bool) -> Document:
    made = {
        "model": model,
        "created_at": "2026-01-01T00:00:00Z",
        "message": {"role": "assistant", "content": text},
        "done": done,
    }
    counts = {"done_reason": "stop", "total_duration": 1, "prompt_eval_count": 11, "eval_count": 7}
    return {**made, **counts} if done else made


def embedding(model: str, encoding: str) -> Document:
    vector: Any = [0.1, 0.2]
    if encoding == "base64":
        vector = base64.b64encode(struct.pack("<2f", *vector)).decode()
    data = [{"object": "embedding", "index": 0, "embedding": vector}]
    return {
        "object": "list",
        "model": model,
        "data": data,
        "usage": {"prompt_tokens": 11, "total_tokens": 11},
    }


# --- frames --------------------------------------------------------------------------------------


def sse(documents: Iterable[Document], named: bool = True) -> list[bytes]:
    """Frame documents as server-sent events."""
    return [
        (f"event: {one['type']}\n" if named else "").encode() + b"data: " + json.dumps(one).encode() + b"\n\n"
        for one in documents
    ]


def aws(events: Iterable[tuple[str, Document]]) -> list[bytes]:
    """Frame documents as AWS's event stream."""
    return [_aws(kind, json.dumps(document).encode()) for kind, document in events]


def _aws(kind: str, payload: bytes) -> bytes:
    values = {":event-type": kind, ":content-type": "application/json", ":message-type": "event"}
    headers = b"".join(
        struct.pack(">B", len(name)) + name.encode() + struct.pack(">BH", 7, len(value)) + value.encode()
        for name, value in values.items()
    )
    prelude = struct.pack(">II", 16 + len(headers) + len(payload), len(headers))
    frame = prelude + struct.pack(">I", binascii.crc32(prelude)) + headers + payload
    return frame + struct.pack(">I", binascii.crc32(frame))


# --- the server ----------------------------------------------------------------------------------


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        self.answer({"error": "nothing here"}, 404)

    def do_POST(self) -> None:
        body = json.loads(self.received() or b"{}")
        path = self.path.partition("?")[0]
        model = str(body.get("model") or path.rpartition("/")[2].partition(":")[0])
        if "busy" in path + model:
            _counts[path + model] += 1
            if _counts[path + model] % 2:
                error = {"type": "rate_limit_error", "message": "slow down", "code": 429}
                self.answer({"type": "error", "error": error, "message": "slow down"}, 429, retry_after="0")
                return
        for end, speak in _DIALECTS.items():
            if path.endswith(end):
                speak(self, model, body)
                return
        self.answer({"error": f"unknown {path}"}, 404)

    def received(self) -> bytes:
        """Return the body of the request."""
        length = self.headers.get("Content-Length")
        if length is not None:
            return self.rfile.read(int(length))
        pieces = []
        while size := int(self.rfile.readline().partition(b";")[0] or b"0", 16):
            pieces.append(self.rfile.read(size))
            self.rfile.readline()
        self.rfile.readline()
        return b"".join(pieces)

    def answer(self, document: Document, status: int = 200, **headers: str) -> None:
        """Send one document."""
        data = json.dumps(document).encode()
        self.send_response(status)
        for name, value in {"content_type": "application/json", **headers}.items():
            self.send_header(name.replace("_", "-"), value)
        self.send_header("content-length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def stream(self, kind: str, pieces: list[bytes], before: int) -> None:
        """Send a stream in chunks; ``before`` so many of them nothing is content."""
        self.send_response(200)
        self.send_header("content-type", kind)
        self.send_header("transfer-encoding", "chunked")
        self.end_headers()
        for number, piece in enumerate((*pieces, b"")):
            if number == before:
                time.sleep(PAUSE)
            self.wfile.write(b"%x\r\n%s\r\n" % (len(piece), piece))
            self.wfile.flush()

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - name given by http.server
        """Log nothing."""


SSE = "text/event-stream"
AWS = "application/vnd.amazon.eventstream"


def _messages(server: _Handler, model: str, body: Document) -> None:
    if body.get("stream"):
        server.stream(SSE, sse(message_events(model)), 2)
    else:
        server.answer(message(model))


def _completions(server: _Handler, model: str, body: Document) -> None:
    if body.get("stream"):
        server.stream(SSE, [*sse(completion_chunks(model), named=False), b"data: [DONE]\n\n"], 1)
    else:
        server.answer(completion(model))


def _responses(server: _Handler, model: str, body: Document) -> None:
    if body.get("stream"):
        server.stream(SSE, sse(response_events(model)), 3)
    else:
        server.answer(response(model))


def _generate_stream(server: _Handler, model: str, _: Document) -> None:
    parts = [candidates(model, word, last=word == WORDS[-1]) for word in WORDS]
    server.stream(SSE, sse(parts, named=False), 0)


def _invoke_stream(server: _Handler, _: str, __: Document) -> None:
    coded = (base64.b64encode(json.dumps(one).encode()).decode() for one in message_events("claude"))
    server.stream(AWS, aws(("chunk", {"bytes": one}) for one in coded), 2)


def _cohere(server: _Handler, _: str, body: Document) -> None:
    if body.get("stream"):
        server.stream(SSE, sse(cohere_events()), 2)
    else:
        server.answer(cohere())


def _ollama(server: _Handler, model: str, body: Document) -> None:
    if body.get("stream", True):
        parts = [*(ollama(model, word, done=False) for word in WORDS), ollama(model, "", done=True)]
        server.stream("application/x-ndjson", [json.dumps(one).encode() + b"\n" for one in parts], 0)
    else:
        server.answer(ollama(model, TEXT, done=True))


_DIALECTS: dict[str, Callable[[_Handler, str, Document], None]] = {
    "/messages": _messages,
    "/completions": _completions,
    "/responses": _responses,
    "/embeddings": lambda s, model, body: s.answer(embedding(model, body.get("encoding_format", "float"))),
    ":generateContent": lambda s, model, _: s.answer(candidates(model)),
    ":streamGenerateContent": _generate_stream,
    "/converse": lambda s, *_: s.answer(converse()),
    "/converse-stream": lambda s, *_: s.stream(AWS, aws(converse_events()), 1),
    "/invoke": lambda s, *_: s.answer(message("claude")),
    "/invoke-with-response-stream": _invoke_stream,
    "/v2/chat": _cohere,
    "/api/chat": _ollama,
}


class _Server(ThreadingHTTPServer):
    daemon_threads = True

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Clients that leave are none of this server's business."""


@contextmanager
def served() -> Iterator[str]:
    """Serve until the block is left; gives the address."""
    server = _Server(("127.0.0.1", 0), _Handler)
    threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True).start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        server.server_close()
