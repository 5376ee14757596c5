"""What belongs together: attempts of one SDK call, calls of one operation; and hooks that come and go."""

from __future__ import annotations

import asyncio
import inspect
import threading
from typing import Any

import anthropic
import httpx
import httpx2
import openai
import pytest

import lz_otel
from lz_otel.testing import capture
from tests.wire_doubles import A_JSON, O_JSON, a_full, o_full, transport

ASK: dict[str, Any] = {
    "model": "claude-opus-5",
    "max_tokens": 10,
    "messages": [{"role": "user", "content": "x"}],
}
DURATION = "gen_ai.client.inference.duration"
SSE = {"content-type": "text/event-stream"}


def overloaded(kind: str = "overloaded_error", status: int = 529) -> Any:
    """An error answer that asks to be retried in 10 ms."""
    body = {"type": "error", "error": {"type": kind, "message": "no"}}
    return httpx2.Response(status, headers={"retry-after-ms": "10"}, json=body)


def answers(*given: Any) -> Any:
    """A transport that gives these answers one after the other, the last one for ever."""
    left = list(given)

    def answer(request: Any) -> Any:
        found = left.pop(0) if len(left) > 1 else left[0]
        return found() if callable(found) else found

    return transport(httpx2, answer)


def claude(double: Any, **options: Any) -> anthropic.Anthropic:
    """The official client on a double."""
    return anthropic.Anthropic(api_key="k", http_client=httpx2.Client(transport=double), **options)


def good() -> Any:
    """A fresh good answer."""
    return httpx2.Response(200, json=A_JSON)


def test_three_attempts_are_one_call() -> None:
    """429, 529, 200: one call, three attempts, two retries, with the reasons of the attempts before."""
    with capture(strict=True) as seen:
        double = answers(lambda: overloaded("rate_limit_error", 429), overloaded, good)
        assert claude(double).messages.create(**ASK).usage.output_tokens == 20
        assert seen.value(DURATION) == 1
        assert {k[5]: v for k, v in seen.points("lz.attempts").items()} == {"429": 1, "529": 1, "200": 1}
        assert {k[5]: v for k, v in seen.points("lz.call.retries").items()} == {"429": 1, "529": 1}
        assert seen.value("gen_ai.client.inference.usage.input_tokens") == 2104
        assert seen.histogram(DURATION).sum >= 0.015  # the back-off is part of what the user waited


def test_all_attempts_fail() -> None:
    """Three times 529 is one failed call with the provider's own error type."""
    with capture(strict=True) as seen:
        with pytest.raises(anthropic.APIStatusError):
            claude(answers(overloaded)).messages.create(**ASK)
        assert [(k[6], k[-1]) for k in seen.points(DURATION)] == [("overloaded_error", "error")]
        assert seen.value("lz.attempts", status="529") == 3
        assert seen.value("lz.call.retries") == 2
        assert seen.value("lz.call.active") == 0


def test_asynchronous_calls_in_one_loop_are_not_mixed_up() -> None:
    """Retries of concurrent calls stay with their call."""
    tried: set[str] = set()

    def answer(request: Any) -> Any:
        name = request.headers["x-name"]
        if name in tried:
            return good()
        tried.add(name)
        return overloaded()

    async def run() -> None:
        client = anthropic.AsyncAnthropic(
            api_key="k", http_client=httpx2.AsyncClient(transport=transport(httpx2, answer))
        )
        await asyncio.gather(
            *(client.messages.create(**ASK, extra_headers={"x-name": str(i)}) for i in range(20))
        )

    with capture(strict=True) as seen:
        asyncio.run(run())
        assert (seen.value(DURATION), seen.value("lz.attempts"), seen.value("lz.call.retries")) == (
            20,
            40,
            20,
        )


def test_cancel_between_attempts_is_cancelled() -> None:
    """A task cancelled while its SDK waits to try again is a cancelled call, not a failed one."""

    async def run() -> None:
        slow = httpx2.Response(529, headers={"retry-after-ms": "30000"}, json={})
        client = anthropic.AsyncAnthropic(
            api_key="k", http_client=httpx2.AsyncClient(transport=transport(httpx2, lambda r: slow))
        )
        task = asyncio.create_task(client.messages.create(**ASK))
        await asyncio.sleep(0.1)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    with capture(strict=True) as seen:
        asyncio.run(run())
        assert [k[-1] for k in seen.points(DURATION)] == ["cancelled"]


def test_hooks_come_and_go() -> None:
    """instrument() twice is once; uninstrument() restores the very objects; nothing is doubled after."""
    before = (
        httpx2.HTTPTransport.handle_request,
        httpx2.AsyncHTTPTransport.handle_async_request,
        httpx.HTTPTransport.handle_request,
        anthropic._base_client.SyncAPIClient.request,
        openai._base_client.AsyncAPIClient.request,
    )
    for _ in range(2):
        with capture() as seen:
            threads = [threading.Thread(target=lz_otel.instrument) for _ in range(10)]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
            client = claude(answers(good))
            client.messages.create(**ASK)
            assert seen.value(DURATION) == 1
            hooked = anthropic._base_client.SyncAPIClient.request
            assert inspect.signature(hooked) == inspect.signature(before[3])
        client.messages.create(**ASK)  # unseen
    assert before == (
        httpx2.HTTPTransport.handle_request,
        httpx2.AsyncHTTPTransport.handle_async_request,
        httpx.HTTPTransport.handle_request,
        anthropic._base_client.SyncAPIClient.request,
        openai._base_client.AsyncAPIClient.request,
    )


def test_another_librarys_wrapper_stays() -> None:
    """A wrapper that came after ours survives uninstrument(), and our buried hook counts nothing more."""
    original = httpx2.HTTPTransport.handle_request
    seen_by_other: list[str] = []
    try:
        with capture():
            ours = httpx2.HTTPTransport.handle_request

            def wrapper(self: Any, request: Any) -> Any:
                seen_by_other.append(request.method)
                return ours(self, request)

            wrapper.__wrapped__ = ours  # type: ignore[attr-defined]
            httpx2.HTTPTransport.handle_request = wrapper  # type: ignore[method-assign]
        assert httpx2.HTTPTransport.handle_request is wrapper
        with capture():
            assert httpx2.HTTPTransport.handle_request is wrapper  # ours is under it: not wrapped again
            with pytest.raises(httpx2.ConnectError):
                httpx2.Client().post("http://127.0.0.1:9/v1/messages", json=ASK)
        assert seen_by_other == ["POST"]
    finally:
        httpx2.HTTPTransport.handle_request = original  # type: ignore[method-assign]


def test_transport_around_a_transport_counts_once() -> None:
    """A custom transport that uses an ordinary one inside is counted where the request leaves."""

    class Outer(httpx2.BaseTransport):
        def __init__(self) -> None:
            self.inner = httpx2.HTTPTransport()

        def handle_request(self, request: Any) -> Any:
            return self.inner.handle_request(request)

    with capture(strict=True) as seen:
        client = httpx2.Client(transport=Outer())
        lz_otel.instrument_client(client)
        with pytest.raises(httpx2.ConnectError):
            client.post("http://127.0.0.1:9/v1/messages", json=ASK)
        assert seen.value(DURATION) == 1
        assert seen.value("lz.attempts", status="connect_error") == 1


@pytest.mark.parametrize("streamed", [False, True])
def test_openai_and_legacy_client(streamed: bool) -> None:
    """OpenAI's SDK on httpx2, and the same answers through the older httpx."""

    def answer(module: Any) -> Any:
        if streamed:
            return transport(module, lambda r: (200, SSE, o_full()))
        return transport(module, lambda r: module.Response(200, json=O_JSON))

    with capture(strict=True) as seen:
        for module in (httpx2, httpx):
            http = module.Client(transport=answer(module))
            if module is httpx2:
                client = openai.OpenAI(api_key="k", http_client=http)
                result: Any = client.chat.completions.create(model="gpt-5", messages=[], stream=streamed)
                if streamed:
                    list(result)
            else:
                lz_otel.instrument_client(http)
                body = {"model": "gpt-5", "messages": [], "stream": streamed}
                http.post("https://api.openai.com/v1/chat/completions", json=body).read()
        assert seen.value(DURATION, lz_ending="ok") == 2
        assert seen.value("gen_ai.client.inference.usage.input_tokens") == 200
        assert seen.value("gen_ai.client.inference.usage.cache_read.input_tokens") == 160
        assert seen.value("gen_ai.client.inference.usage.output_tokens") == 60


def test_foreign_traffic_leaves_nothing() -> None:
    """Requests that are no LLM calls leave no series, and their bodies are not touched."""
    with capture(strict=True) as seen:
        http = httpx2.Client(transport=transport(httpx2, lambda r: httpx2.Response(200, json={"usage": {}})))
        lz_otel.instrument_client(http)
        http.post("https://shop.test/v1/messages", json={"order": 1})
        http.get("https://api.anthropic.com/v1/models")
        http.post("https://api.anthropic.com/v1/messages/count_tokens", json=ASK)
        http.post("https://files.test/upload", content=b"x")
        for name in (DURATION, "lz.attempts", "gen_ai.client.inference.usage.input_tokens", "lz.call.active"):
            assert seen.points(name) == {}, name


def test_streams_of_the_sdk_are_what_they_were() -> None:
    """Helpers of the SDK give the same events and types as without lz_otel."""

    def run() -> Any:
        client = claude(transport(httpx2, lambda r: (200, SSE, a_full())))
        with client.messages.stream(**ASK) as stream:
            kinds = [type(event).__name__ for event in stream]
            return kinds, stream.get_final_text(), type(stream).__name__

    bare = run()
    with capture(strict=True) as seen:
        assert run() == bare
        assert seen.value(DURATION, lz_ending="ok") == 1
