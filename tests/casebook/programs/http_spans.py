"""Makes requests that fail, whose addresses and headers hold a canary,
with the HTTP spans that lz_otel switches on.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING, Any

import httpx
import httpx2

import lz_otel

if TYPE_CHECKING:
    from collections.abc import Iterator

CANARY = os.environ["CANARY"]


class Upstream(BaseHTTPRequestHandler):
    """Fails each request."""

    def do_POST(self) -> None:
        self.send_response(500)
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - name given by http.server
        """Write nothing."""


def requests() -> Iterator[tuple[str, dict[str, str]]]:
    """Yield address and headers of each request."""
    for url in urls:
        yield url, {}
    yield urls[0], {"x-api-key": CANARY + "\n"}  # its text is in the exception's


def ask(module: Any) -> None:
    """Make the requests by a client that waits."""
    with module.Client(trust_env=False) as client:
        for url, headers in requests():
            with contextlib.suppress(module.HTTPError):
                client.post(url, headers=headers).raise_for_status()


async def ask_asynchronously(module: Any) -> None:
    """Make the requests by an asynchronous client."""
    async with module.AsyncClient(trust_env=False) as client:
        for url, headers in requests():
            with contextlib.suppress(module.HTTPError):
                (await client.post(url, headers=headers)).raise_for_status()


server = ThreadingHTTPServer(("127.0.0.1", 0), Upstream)
threading.Thread(target=server.serve_forever, daemon=True).start()
user = f"{CANARY}:{CANARY}@127.0.0.1"
gemini = "/v1beta/models/gemini-2.5-flash:generateContent"
urls = [
    f"http://{user}:{server.server_port}{gemini}?key={CANARY}#{CANARY}",
    f"http://{user}:{server.server_port}/elsewhere?{CANARY}",
    f"http://{user}:9/v1/messages?key={CANARY}",
]
lz_otel.instrument(exporters="none")
for module in (httpx, httpx2):
    ask(module)
    asyncio.run(ask_asynchronously(module))
lz_otel.uninstrument()
