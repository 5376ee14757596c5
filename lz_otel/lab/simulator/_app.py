"""The starlette application: paths, delivery of answers, truth and control endpoints."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import msgspec
from starlette.applications import Starlette
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from lz_otel.lab.simulator._openai import OpenAI
from lz_otel.lab.simulator._provider import decoded
from lz_otel.lab.simulator._truth import hide

if TYPE_CHECKING:
    from starlette.requests import Request

    from lz_otel.lab.simulator._context import Answer, Upstream
    from lz_otel.lab.simulator._provider import Provider
    from lz_otel.lab.simulator._truth import Record
    from lz_otel.lab.simulator.scenario import Behaviour

Peers = dict[Any, asyncio.Transport]


@dataclass(frozen=True)
class _Endpoint:
    """A raw ASGI endpoint: read the body, ask the provider, send the pieces in their time."""

    provider: Provider
    api: str
    answer: Upstream
    peers: Peers

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        headers = dict(scope["headers"])
        record = self.provider.begin(headers, self.api)
        try:
            body = await _read(receive)
            if body is None:
                record.ending = "client_closed"
                return
            answer = self.provider.serve(self.answer, headers, body, record)
            transport = self.peers.get(scope["client"])
            begun = await _deliver(answer, record, send, transport)
            if not begun and answer.on_lost is not None:
                answer.on_lost()
        finally:
            self.provider.truth.finish(record)


async def _read(receive: Any) -> bytes | None:
    parts = []
    while True:
        message = await receive()
        if message["type"] == "http.disconnect":
            return None
        parts.append(message.get("body", b""))
        if not message.get("more_body"):
            return parts[0] if len(parts) == 1 else b"".join(parts)


async def _deliver(answer: Answer, record: Record, send: Any, transport: asyncio.Transport | None) -> bool:
    """Send an answer; whether its head was sent."""
    if answer.wait > 0.0:
        await asyncio.sleep(answer.wait)
    if _gone(transport):
        _client_closed(record, before_head=True)
        return False
    if answer.cut == "disconnect":
        if transport is not None:
            transport.abort()
        return False
    headers, pieces = answer.headers, answer.pieces
    if not answer.chunked:
        headers = [*headers, (b"content-length", b"%d" % len(pieces[0][1]))]
        if answer.cut == "drop":
            data = pieces[0][1]
            pieces = [(0.0, data[: len(data) // 2]), pieces[0]]
            answer.cut_after = 1
    await send({"type": "http.response.start", "status": answer.status, "headers": headers})
    if answer.on_begin is not None:
        answer.on_begin()
    last = len(pieces) - 1
    for number, (wait, data) in enumerate(pieces):
        if answer.cut and number >= answer.cut_after:
            if answer.stall:
                await asyncio.sleep(answer.stall)
            if transport is not None:
                transport.close()
            return True
        if wait > 0.0:
            await asyncio.sleep(wait)
        if _gone(transport):
            _client_closed(record, before_head=False)
            return True
        record.bytes_sent += len(data)
        await send({"type": "http.response.body", "body": data, "more_body": number < last})
    if not record.ending:
        record.ending = "complete"
    if answer.on_end is not None:
        answer.on_end()
    return True


def _gone(transport: asyncio.Transport | None) -> bool:
    return transport is not None and transport.is_closing()


def _client_closed(record: Record, *, before_head: bool) -> None:
    if not record.fault:
        record.ending = "client_closed"
    record.usage_sent = "start" if record.api == "messages" and record.stream and not before_head else "none"
    if record.usage_sent == "none":
        hide(record, everything=before_head)


def make_app(provider: Provider, peers: Peers) -> Starlette:
    """Build the application around one provider; ``peers``: open connections by client address."""
    openai = OpenAI(provider)

    async def truth(request: Request) -> Response:
        after = request.query_params.get("after", "0")
        lines = provider.truth.lines(int(after) if after.isdigit() else 0)
        return Response(lines, media_type="application/x-ndjson")

    async def summary(request: Request) -> Response:
        return JSONResponse(provider.truth.summary())

    async def reset(request: Request) -> Response:
        provider.reset()
        return JSONResponse({"reset": True})

    async def clock(request: Request) -> Response:
        body = msgspec.json.decode(await request.body())
        provider.clock.advance(float(body["advance"]))
        return JSONResponse({"now": provider.clock.now()})

    def api(path: str, name: str, answer: Upstream) -> Route:
        return Route(path, _Endpoint(provider, name, answer, peers), methods=["POST"])

    return Starlette(
        routes=[
            api("/v1/messages", "messages", provider.messages),
            api("/v1/messages/count_tokens", "count_tokens", provider.count_tokens),
            api("/v1/chat/completions", "chat", openai.answer),
            api("/v1/responses", "responses", openai.answer),
            api("/v1/embeddings", "embeddings", openai.answer),
            *_vendor_routes(provider),
            Route("/__truth", truth),
            Route("/__truth/summary", summary),
            Route("/__reset", reset, methods=["POST"]),
            Route("/__clock", clock, methods=["POST"]),
        ]
    )


def _refused(status: int, kind: str, message: str) -> JSONResponse:
    error = {"type": kind, "message": message}
    return JSONResponse({"type": "error", "error": error}, status_code=status)


def metrics_text(behaviour: Behaviour, layer_zero_on: bool) -> str:
    """Return what ``GET /v1/metrics`` of articles 003 and 004 says (A the names, C the transport).

    Shares are 0 to 1, the decompression time is in milliseconds. With the layer switched off nothing is
    shared and no anchors are cut.
    """
    part = behaviour.scheduling
    on = layer_zero_on and part.enabled
    rows = (
        ("cache_hit_rate", 'layer="zero"', part.cache_hit_rate if on else 0.0),
        ("decompression_latency_p95", 'precision="fp16"', part.decompression_ms),
        ("kv_slice_efficiency", 'block_type="anchor"', part.anchor_efficiency if on else 0.0),
    )
    return "".join(f"# TYPE {name} gauge\n{name}{{{labels}}} {value:g}\n" for name, labels, value in rows)


def _vendor_routes(provider: Provider) -> tuple[Route, Route]:
    """Return the vendor's own endpoints beside the API: metrics, and switching the families (A)."""

    async def metrics(request: Request) -> Response:
        if not (request.headers.get("x-api-key") or request.headers.get("authorization")):
            return _refused(401, "authentication_error", "an API key is required")
        text = metrics_text(provider.behaviour(), provider.layer_zero_on)
        return Response(text, media_type="text/plain; version=0.0.4")

    async def control(request: Request) -> Response:
        wish = decoded(await request.body())
        if wish is None or not isinstance(wish.get("enabled"), bool):
            return _refused(400, "invalid_request_error", "enabled: true or false is required")
        provider.layer_zero_on = wish["enabled"]
        return JSONResponse({"enabled": provider.layer_zero_on})

    return Route("/v1/metrics", metrics), Route("/v1/layer-zero/control", control, methods=["POST"])
