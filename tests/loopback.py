"""A server on loopback whose answers a test scripts."""

from __future__ import annotations

import json
import threading
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping


class Reply(NamedTuple):
    """What the server answers: a JSON document, or bytes."""

    body: Any = b""
    status: int = 200
    headers: dict[str, str] = {}  # noqa: RUF012 - never changed
    kind: str = "application/json"


class Asked(NamedTuple):
    """What it was asked."""

    method: str
    path: str
    body: bytes
    headers: Mapping[str, str]


@contextmanager
def serving(answer: Callable[[Asked], Reply]) -> Iterator[str]:
    """Serve in threads; gives the address."""

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
            reply = answer(Asked(self.command, self.path, body, self.headers))
            data = reply.body if isinstance(reply.body, bytes) else json.dumps(reply.body).encode()
            self.send_response(reply.status)
            for name, value in {"Content-Type": reply.kind, **reply.headers}.items():
                self.send_header(name, value)
            self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

        do_GET = do_POST  # noqa: N815 - name given by http.server

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - name given by http.server
            """Write nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        server.server_close()
