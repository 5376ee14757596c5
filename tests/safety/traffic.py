"""The calls of a host that meet every stage, and all that the host can see of them."""

from __future__ import annotations

import asyncio
import base64
import gc
import gzip
import json
import zlib
from functools import cache
from typing import TYPE_CHECKING, Any

import anthropic
import httpx
import httpx2
import openai
from prometheus_client import CollectorRegistry, generate_latest

import lz_otel
from tests.extract.samples import exchanges
from tests.wire_doubles import A_JSON, O_JSON, a_full, o_full, transport

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["a_few", "host_sees", "registry"]

URL = "https://api.anthropic.com/v1/messages"
SSE = {"content-type": "text/event-stream"}
JSON = {"content-type": "application/json"}
MODEL = "claude-opus-5"
WORDS = (
    "please check order 4711-0815 of ann@example.com and tell me when it will arrive at my address in berlin"
)
BODY: dict[str, Any] = {"model": MODEL, "max_tokens": 10, "messages": [{"role": "user", "content": WORDS}]}
LONG = [{"type": "text", "text": "rule " * 1200, "cache_control": {"type": "ephemeral"}}]
TAG = '<layer-zero enabled="true" prune_ratio="0.32"/>\nYou help.'
REPORT = {"total_layers": 32, "zeroed_layers": 14, "zeroed_params_ratio": 0.4, "fallback_triggered": False}
LIMITS = {
    "anthropic-ratelimit-requests-limit": "100",
    "anthropic-ratelimit-requests-remaining": "99",
    "anthropic-ratelimit-requests-reset": "2027-01-01T00:00:00Z",
    "x-ratelimit-remaining-tokens": "7",
    "x-ratelimit-reset-tokens": "6m0s",
}
OVERLOADED = {"type": "error", "error": {"type": "overloaded_error", "message": "no"}}

registry = CollectorRegistry()
"""Where the host's own page of metrics comes from; ours are registered in it."""


class QuitError(Exception):
    """The host's own."""


def seen(error: BaseException) -> Any:
    """What a host can tell of an exception: it, what it came from, and nothing of ours in between."""
    chain = []
    at: BaseException | None = error
    while at is not None and len(chain) < 20:
        places, tb = [], at.__traceback__
        while tb is not None:
            places.append(tb.tb_frame.f_code.co_name)
            tb = tb.tb_next
        chain.append((type(at).__name__, str(at), "boom" in places))
        at = at.__cause__ or at.__context__
    return chain


def tried(what: Callable[[], Any]) -> Any:
    """What a call gave: its result or its exception."""
    try:
        return what()
    except Exception as error:
        return seen(error)


def answering(module: Any, pieces: Any, headers: dict[str, str], status: int = 200) -> Any:
    """A client of a module whose transport always answers the same."""
    made = module.Client(transport=transport(module, lambda r: (status, headers, list(pieces))))
    lz_otel.instrument_client(made)
    return made


def post(
    module: Any, answer: Any, headers: dict[str, str], body: Any = BODY, url: str = URL, **sent: str
) -> Any:
    """A plain call on a module's own client: status, headers and bytes."""
    client = answering(
        module, [answer if isinstance(answer, bytes) else json.dumps(answer).encode()], headers
    )

    def run() -> Any:
        response = client.post(url, json=body, headers=sent)
        return response.status_code, response.content

    return tried(run)


def stream(
    module: Any, pieces: list[Any], headers: dict[str, str] = SSE, *, read: int = 99, how: str = ""
) -> Any:
    """A streamed call read for so many pieces, then closed, dropped or left by an exception."""
    client = answering(module, pieces, headers)

    def run() -> Any:
        got: list[bytes] = []
        if how == "drop":
            response = client.send(
                client.build_request("POST", URL, json={**BODY, "stream": True}), stream=True
            )
            raw = response.iter_raw()
            got = [next(raw) for _ in range(read)]
            cycle: list[Any] = [response, raw]
            cycle.append(cycle)
            del response, raw, cycle
            gc.collect()
            return got
        with client.stream("POST", URL, json={**BODY, "stream": True}) as response:
            for piece in response.iter_raw():
                got.append(piece)
                if len(got) >= read:
                    if how == "raise":
                        raise QuitError
                    break
        return got

    return tried(run)


async def cancelled(module: Any) -> Any:
    """A call whose task is cancelled while its body stands still."""
    client = module.AsyncClient(transport=transport(module, lambda r: (200, SSE, [*a_full()[:3], 30.0])))
    lz_otel.instrument_client(client)
    got: list[bytes] = []
    three = asyncio.Event()

    async def read() -> None:
        async with client.stream("POST", URL, json=BODY) as response:
            async for piece in response.aiter_raw():
                got.append(piece)
                if len(got) == 3:
                    three.set()

    task = asyncio.create_task(read())
    await asyncio.wait([task, asyncio.ensure_future(three.wait())], return_when=asyncio.FIRST_COMPLETED)
    task.cancel()
    try:
        await task
    except (asyncio.CancelledError, Exception) as error:
        return got, seen(error)
    return got, "not cancelled"


async def read_async(module: Any, pieces: list[Any]) -> Any:
    """An asynchronous stream read to its end, or to its error."""
    client = module.AsyncClient(transport=transport(module, lambda r: (200, SSE, list(pieces))))
    lz_otel.instrument_client(client)
    got: list[bytes] = []
    try:
        async with client.stream("POST", URL, json={**BODY, "stream": True}) as response:
            async for piece in response.aiter_raw():
                got.append(piece)  # noqa: PERF401 - what came before an exception must be kept
    except Exception as error:
        return got, seen(error)
    return got


def sdk(package: Any, answers: list[Any]) -> Any:
    """A client of an official SDK that gets one answer after the other, and does not wait in between."""
    left = list(answers)
    kept: Any = package(
        api_key="k",
        max_retries=2,
        http_client=httpx2.Client(transport=transport(httpx2, lambda r: left.pop(0))),
    )
    kept._calculate_retry_timeout = lambda *_: 0.0
    return kept


def retried() -> Any:
    """An overloaded provider, then an answer: one call of the SDK with two attempts."""
    client = sdk(
        anthropic.Anthropic, [(529, JSON, [json.dumps(OVERLOADED).encode()]), (200, JSON | LIMITS, [_A])]
    )
    return tried(lambda: client.messages.create(**BODY).model_dump_json())


def refused() -> Any:
    """Three refusals: the SDK's exception."""
    client = sdk(openai.OpenAI, [(429, JSON, [b'{"error":{"code":"insufficient_quota"}}'])] * 3)
    messages: Any = BODY["messages"]
    return tried(lambda: client.chat.completions.create(model="gpt-5", messages=messages))


def sdk_streams() -> Any:
    """Streams through both SDKs."""
    one = sdk(anthropic.Anthropic, [(200, SSE, a_full())])
    two = sdk(openai.OpenAI, [(200, SSE, o_full())])
    messages: Any = BODY["messages"]

    def run() -> Any:
        with one.messages.stream(**BODY) as events:
            first = events.get_final_text()
        return first, [
            c.model_dump_json()
            for c in two.chat.completions.create(model="gpt-5", messages=messages, stream=True)
        ]

    return tried(run)


def operation() -> Any:
    """A fallback to a second model, a refused answer, a score and a cache of the application's own."""

    def run() -> Any:
        with lz_otel.operation("classify", group="a", session="s") as active:
            first = post(httpx2, OVERLOADED, JSON, {**BODY, "model": "claude-sonnet-5"})
            second = post(
                httpx2, {**A_JSON, "usage": {"input_tokens": 2, "output_tokens": 0}}, JSON | SYMBOLIC
            )
            active.reject("schema_invalid")
            lz_otel.record_quality(0.5)
            lz_otel.record_response_cache(hit=True, model=MODEL)
        return first, second

    def left() -> Any:
        with lz_otel.operation("leave"):
            raise QuitError

    return tried(run), tried(left)


def redirected() -> Any:
    """A redirect that is followed."""

    def answer(request: Any) -> Any:
        if request.url.path == "/v1/messages":
            return httpx2.Response(307, headers={"location": "https://api.anthropic.com/x/v1/messages"})
        return httpx2.Response(200, json=A_JSON)

    client = httpx2.Client(transport=transport(httpx2, answer), follow_redirects=True)
    lz_otel.instrument_client(client)
    return tried(lambda: client.post(URL, json=BODY).content)


def recorded() -> Any:
    """One recorded answer of every API."""
    out = []
    for one in exchanges():
        url = f"https://{one.request.host}{one.request.path}"
        client = answering(httpx2, [one.body[:700], one.body[700:]], one.headers, one.status)
        sent = one.request.body
        out.append(tried(lambda c=client, u=url, b=sent: c.post(u, content=b).content))  # type: ignore[misc]
    return out


def page() -> Any:
    """The host's page of metrics can always be made."""
    return tried(lambda: type(generate_latest(registry)).__name__)


_A = json.dumps(A_JSON).encode()
SYMBOLIC = {"x-anthropic-layer": "zero", "x-anthropic-zero-latency": "21"}


@cache
def _gzipped() -> tuple[list[bytes], list[bytes]]:
    whole = b"".join(a_full())
    return [gzip.compress(whole, mtime=0)], [zlib.compress(whole, wbits=-15)]


def host_sees() -> list[Any]:
    """Make all calls, and give everything that the host saw of them. The same each time."""
    gzipped, deflated = _gzipped()
    count_url = "https://api.anthropic.com/v1/messages/count_tokens"
    pruned = {**A_JSON, "usage": {**A_JSON["usage"], "layer_zero": {"pruned_tokens": 40}}}
    report = {"x-anthropic-layer-zero-report": base64.b64encode(json.dumps(REPORT).encode()).decode()}
    hint = {"x-anthropic-layer-hint": "zero-latency"}
    return [
        post(httpx2, A_JSON, JSON | LIMITS),
        post(httpx, A_JSON, JSON | LIMITS),
        post(
            httpx2,
            O_JSON,
            JSON | LIMITS,
            {"model": "gpt-5", "messages": []},
            "https://api.openai.com/v1/chat/completions",
        ),
        post(
            httpx2, {"input_tokens": 7}, JSON, {k: v for k, v in BODY.items() if k != "max_tokens"}, count_url
        ),
        post(httpx2, A_JSON, JSON, {**BODY, "system": LONG, "tools": []}),
        post(httpx2, A_JSON, JSON, {**BODY, "system": [{"type": "text", "text": "other"}, *LONG]}),
        post(httpx2, b"\xff\x00{", JSON),
        post(httpx2, b'{"id": 1, "usage": {"input_tokens": "x", "output_tokens": -1}}', JSON),
        post(httpx2, A_JSON, JSON | SYMBOLIC),
        post(httpx2, A_JSON, JSON | {"x-anthropic-layer-served": "zero"}, **hint),
        post(httpx2, A_JSON, JSON | {"x-anthropic-layer-served": "standard"}, **hint),
        post(httpx2, pruned, JSON, {**BODY, "system": TAG}),
        post(httpx2, A_JSON, JSON | report, **{"anthropic-layer-zero": "enabled"}),
        post(httpx2, A_JSON, JSON | {"cf-aig-cache-status": "HIT"}),
        stream(httpx2, a_full()),
        stream(httpx2, [b"".join(a_full())]),
        stream(httpx2, gzipped, SSE | {"content-encoding": "gzip"}),
        stream(httpx2, deflated, SSE | {"content-encoding": "deflate"}),
        stream(httpx2, gzipped, SSE | {"content-encoding": "deflate, gzip"}),
        stream(httpx2, [*a_full()[:3], httpx2.ReadTimeout("slow")]),
        stream(httpx2, a_full(), read=3),
        stream(httpx2, a_full(), read=3, how="raise"),
        stream(httpx2, a_full(), read=3, how="drop"),
        tried(lambda: httpx2.Client(transport=_failing()).post(URL, json=BODY)),
        retried(),
        refused(),
        sdk_streams(),
        operation(),
        redirected(),
        recorded(),
        asyncio.run(cancelled(httpx2)),
        asyncio.run(read_async(httpx2, a_full())),
        asyncio.run(read_async(httpx2, [*a_full()[:3], httpx2.ReadError("gone")])),
        page(),
    ]


def a_few() -> None:
    """A few calls more: what an earlier one left over is worked off."""
    post(httpx2, A_JSON, JSON | LIMITS)
    stream(httpx2, a_full())
    retried()
    page()


def _failing() -> Any:
    made = transport(httpx2, lambda r: httpx2.ConnectError("nobody"))
    client = httpx2.Client(transport=made)
    lz_otel.instrument_client(client)
    return made
