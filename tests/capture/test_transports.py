"""Hooks on transports of the host's own:
they hold nothing, and nobody else's context is theirs to fail in.
"""

from __future__ import annotations

import asyncio
import contextvars
import gc
import weakref
from typing import TYPE_CHECKING, Any

import anthropic
import httpx
import httpx2
import pytest

import lz_otel
from lz_otel._capture import transports
from lz_otel.testing import capture
from tests.wire_doubles import A_JSON

if TYPE_CHECKING:
    from collections.abc import Callable

ASK: dict[str, Any] = {
    "model": "claude-opus-5",
    "max_tokens": 10,
    "messages": [{"role": "user", "content": "x"}],
}
URL = "https://api.anthropic.com/v1/messages"
DURATION = "gen_ai.client.inference.duration"


def answer(request: Any) -> Any:
    return httpx2.Response(200, json=A_JSON)


class Signing(httpx2.BaseTransport):
    """A transport as hosts write them."""

    def handle_request(self, request: Any) -> Any:
        return answer(request)


class SigningAsync(httpx2.AsyncBaseTransport):
    """The same for an async client."""

    async def handle_async_request(self, request: Any) -> Any:
        return answer(request)


class Waiting(httpx2.AsyncBaseTransport):
    """Never answers."""

    async def handle_async_request(self, request: Any) -> Any:
        await asyncio.get_running_loop().create_future()


def an_sdk_client() -> Any:
    one = Signing()
    with anthropic.Anthropic(api_key="k", http_client=httpx2.Client(transport=one)) as client:
        client.messages.create(**ASK)
    return one


def a_client() -> Any:
    one = Signing()
    with httpx2.Client(transport=one) as client:
        lz_otel.instrument_client(client)
        client.post(URL, json=ASK)
    return one


def an_async_client() -> Any:
    one = SigningAsync()

    async def ask() -> None:
        async with httpx2.AsyncClient(transport=one) as client:
            lz_otel.instrument_client(client)
            await client.post(URL, json=ASK)

    asyncio.run(ask())
    return one


@pytest.mark.parametrize("use", [an_sdk_client, a_client, an_async_client])
def test_a_transport_goes_with_its_client(use: Callable[[], Any]) -> None:
    """A client per request, each with a transport of its own:
    none of them stays, nor anything kept about it.
    """
    with capture(strict=True) as seen:
        gc.collect()
        before = len(transports._OWN_TRANSPORTS)
        references = [weakref.ref(use()) for _ in range(5)]
        gc.collect()
        assert [None] * 5 == [reference() for reference in references]
        assert before == len(transports._OWN_TRANSPORTS)
        assert seen.value(DURATION) == 5


def test_uninstrument_takes_off_what_is_ours() -> None:
    """A transport that is alive is as before; a wrapper that somebody set over our hook stays."""
    free, covered = Signing(), Signing()
    with capture(strict=True):
        for one in (free, covered):
            lz_otel.instrument_client(httpx2.Client(transport=one))
            assert "handle_request" in vars(one)
        covered.handle_request = wrapper = lambda request: answer(request)  # type: ignore[method-assign]  # as hosts do
    assert {} == vars(free)
    assert {"handle_request": wrapper} == vars(covered)
    assert {} == transports._OWN_TRANSPORTS


def test_a_method_taken_off_a_transport_works_without_it() -> None:
    """Who keeps only the method may call it, as without us."""
    with capture(strict=True):
        one = Signing()
        lz_otel.instrument_client(httpx2.Client(transport=one))
        send = one.handle_request
        del one
        gc.collect()
        assert send(httpx2.Request("POST", URL, json=ASK)).status_code == 200


class Slotted:
    """A transport that cannot be referred to weakly."""

    __slots__ = ("__dict__",)

    def handle_request(self, request: Any) -> Any:
        return answer(request)

    def close(self) -> None:
        pass


def test_a_transport_that_cannot_be_let_go_of_is_left_alone() -> None:
    """What we could hold only for ever is not observed, and works as before."""
    with capture(strict=True) as seen:
        one: Any = Slotted()
        client = httpx2.Client(transport=one)
        assert 0 == lz_otel.instrument_client(client)
        assert {} == vars(one)
        assert client.post(URL, json=ASK).status_code == 200
        assert seen.value(DURATION) == 0


@pytest.mark.parametrize("module", [httpx, httpx2])
def test_a_request_closed_in_another_context(module: Any) -> None:
    """A coroutine begun in one context and closed in another ends quietly, and is counted."""

    async def run() -> None:
        made: Any = Waiting()
        client = module.AsyncClient(transport=made)
        lz_otel.instrument_client(client)
        request: Any = client.post(URL, json=ASK)
        contextvars.copy_context().run(request.send, None)
        request.close()

    with capture(strict=True) as seen:
        asyncio.run(run())
        assert seen.value(DURATION) == seen.value(DURATION, lz_ending="cancelled") == 1


def test_an_exception_in_another_context_is_the_hosts_own() -> None:
    """What the host throws into such a coroutine comes out, not a ValueError of ours in its place."""

    async def run() -> None:
        client = httpx2.AsyncClient(transport=Waiting())
        lz_otel.instrument_client(client)
        request: Any = client.post(URL, json=ASK)
        contextvars.copy_context().run(request.send, None)
        with pytest.raises(LookupError, match="mine"):
            request.throw(LookupError("mine"))

    with capture(strict=True):
        asyncio.run(run())
