"""Money of whole exchanges on real sockets, for both generations of httpx."""

from __future__ import annotations

import json
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING, Any

import pytest

import lz_otel
from lz_otel.testing import capture
from tests.wire_doubles import MODULES

if TYPE_CHECKING:
    from collections.abc import Iterator

SEARCH = {"type": "web_search_call", "status": "completed", "action": {"type": "search"}}
RESPONSE = {
    "id": "r",
    "object": "response",
    "model": "gpt-5.4",
    "status": "completed",
    "output": [SEARCH] * 3,
    "usage": {"input_tokens": 1000, "output_tokens": 100, "total_tokens": 1100},
}
AUDIO = {
    "id": "c",
    "model": "gpt-4o",
    "choices": [{"index": 0, "message": {"content": "hi"}, "finish_reason": "stop"}],
    "usage": {
        "prompt_tokens": 15,
        "completion_tokens": 47,
        "completion_tokens_details": {"audio_tokens": 34},
    },
}
CLAUDE = {
    "type": "message",
    "id": "m",
    "model": "claude-opus-4-5",
    "content": [{"type": "text", "text": "ok"}],
    "stop_reason": "end_turn",
    "usage": {"input_tokens": 2000, "output_tokens": 400},
}
FALLBACK = {"x-litellm-attempted-fallbacks": "1", "x-litellm-key-spend": "12.5"}
LITELLM = {**FALLBACK, "x-litellm-response-cost": "0.0011"}
MESSAGES, RESPONSES, CHAT = "/v1/messages", "/v1/responses", "/v1/chat/completions"
ASKED = {
    path: {"model": model, "input": "x", "messages": [{"role": "user", "content": "x"}], "max_tokens": 9}
    for path, model in ((MESSAGES, "claude-opus-4-5"), (RESPONSES, "gpt-5.4"), (CHAT, "gpt-4o"))
}


class Handler(BaseHTTPRequestHandler):
    """Answers with what the server holds."""

    protocol_version = "HTTP/1.1"

    def do_POST(self) -> None:
        self.rfile.read(int(self.headers.get("content-length") or 0))
        headers, body = self.server.answer  # type: ignore[attr-defined]
        data = json.dumps(body).encode()
        self.send_response(200)
        for name, value in {"content-type": "application/json", **headers}.items():
            self.send_header(name, value)
        self.send_header("content-length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, *_: object) -> None:
        """Say nothing."""


@pytest.fixture
def server() -> Iterator[Any]:
    """A server on a free port."""
    made = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=made.serve_forever, daemon=True)
    thread.start()
    yield made
    made.shutdown()
    made.server_close()
    thread.join()


@pytest.mark.parametrize("module", MODULES.values(), ids=MODULES)
@pytest.mark.parametrize(
    ("path", "headers", "body", "usd", "part"),
    [
        (RESPONSES, {}, RESPONSE, 0.034, None),
        (CHAT, {}, AUDIO, 0.0, "audio"),
        (MESSAGES, LITELLM, CLAUDE, 0.0011, None),
        (MESSAGES, FALLBACK, CLAUDE, 0.0, "gateway_fallback"),
        (MESSAGES, FALLBACK, CLAUDE | {"model": "claude-haiku-4-5"}, 0.004, None),
        (MESSAGES, {"x-litellm-key-spend": "12.5"}, CLAUDE, 0.02, None),
        (MESSAGES, LITELLM | {"x-litellm-cache-key": "k"}, CLAUDE, 0.0, None),  # spent before
        (
            CHAT,
            {},
            AUDIO | {"model": "nobodys", "usage": {"prompt_tokens": 1, "completion_tokens": 1}},
            0.0,
            "model",
        ),
    ],
    ids=[
        "fee",
        "audio",
        "stated",
        "fallback",
        "fallback that says to whom",
        "running total",
        "stored",
        "model",
    ],
)
def test_money_is_whole_or_unpriced(
    server: Any,
    module: Any,
    path: str,
    headers: dict[str, str],
    body: dict[str, Any],
    usd: float,
    part: str | None,
) -> None:
    """05, 29, 32: half a cost was booked as a whole one, and a gateway's own figure was not believed."""
    server.answer = headers, body
    provider = "anthropic" if path == MESSAGES else "openai"
    with capture(providers=f"127.0.0.1={provider}") as seen:
        with module.Client() as client:
            lz_otel.instrument_client(client)
            client.post(f"http://127.0.0.1:{server.server_port}{path}", json=ASKED[path])
        assert usd == pytest.approx(seen.value("lz.cost.usd"))
        parts = {
            labels[-1]: value for labels, value in seen.store.points(lz_otel.catalogue.COST_UNPRICED).items()
        }
        assert {name: number for name, number in parts.items() if number} == ({part: 1.0} if part else {})


@pytest.mark.parametrize("module", MODULES.values(), ids=MODULES)
def test_headroom_ends_and_keys_do_not_mix(server: Any, module: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """09: the last reading of the day stood all night; another key's plenty hid it."""
    now = [1_000_000.0]
    monkeypatch.setattr("lz_otel._later.time", lambda: now[0])
    with capture(providers="127.0.0.1=openai") as seen, module.Client() as client:
        lz_otel.instrument_client(client)
        for key, left, account in (("a", 10, ""), ("b", 400, ""), ("c", 300, "proj_1")):
            limits = {"limit": 500, "remaining": left, "reset": "1m0s"}
            server.answer = (
                {f"x-ratelimit-{name}-requests": str(value) for name, value in limits.items()},
                RESPONSE,
            )
            if account:
                server.answer[0]["openai-project"] = account
            url = f"http://127.0.0.1:{server.server_port}{RESPONSES}"
            client.post(url, json=ASKED[RESPONSES], headers={"authorization": f"Bearer {key}"})
        assert seen.value("lz.rate_limit.remaining", lz_account="") == 10
        assert seen.value("lz.rate_limit.remaining", lz_account="proj_1") == 300
        now[0] += 60.0
        seen.value("lz.rate_limit.remaining")
        assert {} == seen.store.points(lz_otel.catalogue.RATE_LIMIT_REMAINING)
        assert {} == seen.store.points(lz_otel.catalogue.RATE_LIMIT_LIMIT)
