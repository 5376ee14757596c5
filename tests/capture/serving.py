"""A server on loopback that answers as the path says, for tests of HTTP libraries.

``/ways/<way>/v1/chat/completions``: each way is a method of `_Handler`.
"""

from __future__ import annotations

import gzip
import json
import threading
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING, Any

from tests.wire_doubles import A_JSON, O_JSON

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["ASK", "EVENTS", "Server", "served"]

ASK: dict[str, Any] = {"model": "gpt-4o", "messages": [{"role": "user", "content": "x"}]}
BODY = json.dumps(O_JSON).encode()
_CHUNK = {"id": "c", "object": "chat.completion.chunk", "model": "gpt-4o"}
_CHOICE = {"index": 0, "delta": {"content": "hi"}}
_CHUNKS: list[dict[str, Any]] = [
    {**_CHUNK, "choices": [_CHOICE]},
    {**_CHUNK, "choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]},
    {**_CHUNK, "choices": [], "usage": O_JSON["usage"]},
]
EVENTS = [b"data: %s\n\n" % json.dumps(chunk).encode() for chunk in _CHUNKS] + [b"data: [DONE]\n\n"]


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: Server

    def do_POST(self) -> None:
        length = self.headers["Content-Length"]
        if length is not None:
            self.rfile.read(int(length))
        else:  # chunked
            while self.rfile.readline().strip() != b"0":
                pass
            self.rfile.readline()
        _, kind, way, *rest = self.path.split("/")
        if kind == "model":
            self.answer_bedrock(way, rest[-1])
            return
        self.server.asked.append(way)
        getattr(self, f"answer_{way}")()

    def do_GET(self) -> None:
        self.answer_plain()

    def answer_bedrock(self, model: str, operation: str) -> None:
        """Answer as Bedrock does: 11 tokens in, 7 out."""
        self.server.asked.append(model)
        if model.endswith("busy") and self.server.asked.count(model) % 2:
            self.answer_json({"message": "slow down"}, 429)
        elif operation == "converse":
            content = {"message": {"role": "assistant", "content": [{"text": "hi"}]}}
            usage = {"inputTokens": 11, "outputTokens": 7, "totalTokens": 18}
            self.answer_json({"output": content, "stopReason": "end_turn", "usage": usage})
        else:
            usage = {"input_tokens": 11, "output_tokens": 7}
            self.answer_json({**A_JSON, "usage": usage})

    def answer_json(self, document: Any, status: int = 200) -> None:
        """Answer with a document."""
        data = json.dumps(document).encode()
        self.head(status, content_type="application/json", content_length=str(len(data)))
        self.wfile.write(data)

    def head(self, status: int = 200, **headers: str) -> None:
        """Send a head."""
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name.replace("_", "-"), value)
        self.end_headers()

    def chunk(self, data: bytes) -> None:
        """Send one chunk."""
        self.wfile.write(b"%x\r\n%s\r\n" % (len(data), data))
        self.wfile.flush()

    def answer_plain(self) -> None:
        """Answer with a length."""
        self.head(content_type="application/json", content_length=str(len(BODY)))
        self.wfile.write(BODY)

    def answer_chunked(self) -> None:
        """Answer in chunks."""
        self.head(content_type="application/json", transfer_encoding="chunked")
        for start in range(0, len(BODY), 50):
            self.chunk(BODY[start : start + 50])
        self.chunk(b"")

    def answer_gzip(self) -> None:
        """Answer compressed."""
        data = gzip.compress(BODY)
        self.head(content_type="application/json", content_length=str(len(data)), content_encoding="gzip")
        self.wfile.write(data)

    def answer_bare(self) -> None:
        """Answer up to the end of the connection."""
        self.head(content_type="application/json", connection="close")
        self.wfile.write(BODY)
        self.close_connection = True

    def answer_stream(self) -> None:
        """Answer with events."""
        self.head(content_type="text/event-stream", transfer_encoding="chunked")
        for event in EVENTS:
            self.chunk(event)
        self.chunk(b"")

    def answer_slow(self) -> None:
        """Answer with events, and do not end."""
        self.head(content_type="text/event-stream", transfer_encoding="chunked")
        self.chunk(EVENTS[0])
        self.server.released.wait(20)
        self.close_connection = True

    def answer_broken(self) -> None:
        """Answer with half of what was announced."""
        self.head(content_type="application/json", content_length=str(len(BODY)))
        self.wfile.write(BODY[:20])
        self.close_connection = True

    def answer_cut(self) -> None:
        """Break off in the middle of a chunk."""
        self.head(content_type="text/event-stream", transfer_encoding="chunked")
        self.chunk(EVENTS[0])
        self.wfile.write(b"ff\r\nda")
        self.close_connection = True

    def answer_gone(self) -> None:
        """Answer nothing."""
        self.close_connection = True

    def answer_busy(self) -> None:
        """Refuse the first of two requests."""
        if self.server.asked.count("busy") % 2:
            self.head(429, content_length="2", content_type="application/json", retry_after="0")
            self.wfile.write(b"{}")
        else:
            self.answer_plain()

    def answer_moved(self) -> None:
        """Lead on to another address."""
        self.head(307, location="/ways/plain/v1/chat/completions", content_length="0")

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - name given by http.server
        """Log nothing."""


class Server(ThreadingHTTPServer):
    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.asked: list[str] = []
        self.released = threading.Event()

    def url(self, way: str) -> str:
        """Return the address for one way to answer."""
        return f"http://127.0.0.1:{self.server_port}/ways/{way}/v1/chat/completions"

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Clients that leave are part of the tests."""


@contextmanager
def served() -> Iterator[Server]:
    """Serve until the block is left."""
    server = Server()
    threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True).start()
    try:
        yield server
    finally:
        server.released.set()
        server.shutdown()
        server.server_close()
