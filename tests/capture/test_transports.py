"""Hooks on transports of the host's own:
they hold nothing, and nobody else's context is theirs to fail in.
"""

from __future__ import annotations

import asyncio
import contextvars
import copy
import functools
import gc
import http.server
import json
import pickle
import threading
import weakref
from typing import TYPE_CHECKING, Any
from unittest.mock import Mock

import anthropic
import httpx
import httpx2
import pytest
import wrapt

import lz_otel
from lz_otel import _runtime
from lz_otel.testing import capture
from tests.wire_doubles import A_JSON

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Iterator

ASK: dict[str, Any] = {
    "model": "claude-opus-5",
    "max_tokens": 10,
    "messages": [{"role": "user", "content": "x"}],
}
URL = "https://api.anthropic.com/v1/messages"
PIECES = [json.dumps(A_JSON).encode()[part] for part in (slice(9), slice(9, None))]
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
        before = len(_runtime._clients.http._counted)
        references = [weakref.ref(use()) for _ in range(5)]
        gc.collect()
        assert [None] * 5 == [reference() for reference in references]
        assert before == len(_runtime._clients.http._counted)
        assert seen.value(DURATION) == 5


def test_nothing_is_put_on_a_transport() -> None:
    """Its class, its method, its copies and its pickle are what they were, while it is observed and after."""

    def looks(one: Any) -> list[Any]:
        method = one.handle_request
        return [type(one), vars(one), method.__self__ is one, method.__func__, method.__func__.__name__]

    one = Signing()
    bare, code = looks(one), Signing.handle_request.__code__
    with capture(strict=True):
        assert 1 == lz_otel.instrument_client(httpx2.Client(transport=one))
        assert Signing.handle_request.__code__ is not code
        assert bare == looks(one)
        for again in (copy.copy(one), copy.deepcopy(one), pickle.loads(pickle.dumps(one))):
            assert again is not one
            assert bare == looks(again)
        assert Signing.handle_request is pickle.loads(pickle.dumps(Signing.handle_request))
    assert bare == looks(one)
    assert (code, {}) == (Signing.handle_request.__code__, vars(Signing.handle_request))


class Tenant(httpx2.BaseTransport):
    """A transport that says whose it is."""

    def __init__(self, name: str) -> None:
        self.name = name

    def handle_request(self, request: Any) -> Any:
        return httpx2.Response(200, json=A_JSON, headers={"tenant": self.name})


@pytest.mark.parametrize("again", [copy.copy, copy.deepcopy, lambda one: pickle.loads(pickle.dumps(one))])
def test_a_copy_sends_its_own_requests(again: Callable[[Any], Any]) -> None:
    """The copy of a transport that an SDK's client has used is no way to the first one's tenant."""
    first = Tenant("a")
    with capture(strict=True) as seen:
        for one in (first, again(first)):
            with anthropic.Anthropic(api_key="k", http_client=httpx2.Client(transport=one)) as client:
                client.messages.create(**ASK)
        second = again(first)
        second.name = "b"
        with anthropic.Anthropic(api_key="k", http_client=httpx2.Client(transport=second)) as client:
            answer = client.messages.with_raw_response.create(**ASK)
        assert "b" == answer.headers["tenant"]
        assert (3, 3) == (seen.value(DURATION), seen.value("lz.attempts"))


class Canned(httpx2.HTTPTransport):
    """Overrides an ordinary transport, and never asks it."""

    def handle_request(self, request: Any) -> Any:
        return answer(request)


class Heir(Canned):
    """Overrides nothing."""


class Both(Canned):
    """Overrides, and asks the class it inherits from."""

    def handle_request(self, request: Any) -> Any:
        return super().handle_request(request)


class Forwarding(httpx2.BaseTransport):
    """Asks another transport."""

    def __init__(self, inner: Any) -> None:
        self.inner = inner

    def handle_request(self, request: Any) -> Any:
        return self.inner.handle_request(request)


class Partial(httpx2.BaseTransport):
    """Its method is no function."""

    def _send(self, extra: str, request: Any) -> Any:
        return answer(request)

    handle_request = functools.partialmethod(_send, "x")  # type: ignore[assignment]


class Called(httpx2.BaseTransport):
    """Its method is a double, which is not bound to it."""

    handle_request = Mock(side_effect=answer)


class Static(httpx2.BaseTransport):
    """Its method does without it."""

    @staticmethod
    def handle_request(request: Any) -> Any:  # type: ignore[override]
        return answer(request)


class Proxy:
    """Hands out what another transport has."""

    def __init__(self, inner: Any) -> None:
        self.inner = inner

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return getattr(self.inner, name)


def made(extra: str, more: str) -> Any:
    """Return a transport whose method is a closure over several names."""

    class Closed(httpx2.BaseTransport):
        def handle_request(self, request: Any) -> Any:
            assert [] != [__class__, extra, more]  # type: ignore[name-defined]
            return answer(request)

    return Closed()


@pytest.mark.parametrize(
    "make",
    [
        Signing,
        Canned,
        Heir,
        Both,
        lambda: Forwarding(Both()),
        lambda: Forwarding(Forwarding(Signing())),
        lambda: Proxy(Signing()),
        lambda: wrapt.ObjectProxy(Signing()),
        Partial,
        Called,
        Static,
        lambda: made("x", "y"),
        lambda: httpx2.MockTransport(answer),
    ],
)
def test_a_transport_is_seen_by_its_class(make: Callable[[], Any]) -> None:
    """Wherever along the order of classes its method is, and of whatever kind:
    each exchange counts once, and afterwards the class is as before.
    """
    one = make()
    before = [vars(cls).get("handle_request") for cls in type(one).__mro__]
    with capture(strict=True) as seen:
        client = httpx2.Client(transport=one)
        assert (1, 0) == (lz_otel.instrument_client(client), lz_otel.instrument_client(client))
        if isinstance(one, Forwarding):
            lz_otel.instrument_client(httpx2.Client(transport=one.inner))
        for _ in range(3):
            assert A_JSON == client.post(URL, json=ASK).json()
        assert (3, 3) == (seen.value(DURATION), seen.value("lz.attempts"))
        # another transport of the class is counted, too: it is observed because of the call
        assert 1 == lz_otel.instrument_client(httpx2.Client(transport=make()))
    assert before == [vars(cls).get("handle_request") for cls in type(one).__mro__]
    client.post(URL, json=ASK)


def test_ordinary_transports_need_nothing() -> None:
    """Those of the module are hooked anyway, and so are their heirs that override nothing else."""

    class Named(httpx2.HTTPTransport):
        def close(self) -> None:
            super().close()

    with capture(strict=True), httpx2.Client(transport=Named()) as client:
        assert 0 == lz_otel.instrument_client(client)


def replaced(one: Any) -> None:
    """Set a function on the transport itself."""
    one.handle_request = lambda request: answer(request)


def wrapped(one: Any) -> None:
    """Set a wrapper of wrapt, as OpenTelemetry's ``instrument_client(client)`` does."""
    wrapt.wrap_function_wrapper(one, "handle_request", lambda call, _, args, kwargs: call(*args, **kwargs))


@pytest.mark.parametrize("change", [replaced, wrapped])
@pytest.mark.parametrize("kind", [Signing, httpx2.HTTPTransport])
def test_what_the_host_has_set_on_a_transport_is_seen(change: Any, kind: Any) -> None:
    """A function that stands on one transport is what its client calls; it stays there."""
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Answer) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        one = kind()
        change(one)
        before = dict(vars(one))
        with capture(strict=True) as seen, httpx2.Client(transport=one) as client:
            lz_otel.instrument_client(client)
            for _ in range(2):
                url = f"http://127.0.0.1:{server.server_port}/v1/messages"
                assert 200 == client.post(url, json=ASK).status_code
            assert (2, 2) == (seen.value(DURATION), seen.value("lz.attempts"))
            assert before["handle_request"] is vars(one)["handle_request"]
        server.shutdown()


class Answer(http.server.BaseHTTPRequestHandler):
    """Answers as the API does."""

    def do_POST(self) -> None:
        body = json.dumps(A_JSON).encode()
        self.rfile.read(int(self.headers["content-length"]))
        self.send_response(200)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        """Log nothing."""


def test_one_class_for_both_modules() -> None:
    """A transport that answers clients of httpx and of httpx2 gets a body of the right one."""

    class Either:
        def handle_request(self, request: Any) -> Any:
            module: Any = httpx if isinstance(request, httpx.Request) else httpx2
            return module.Response(200, json=A_JSON)

        def close(self) -> None:
            """Hold nothing."""

    with capture(strict=True) as seen:
        for module in (httpx, httpx2):
            client = module.Client(transport=Either())
            assert 1 == lz_otel.instrument_client(client)
            assert A_JSON == client.post(URL, json=ASK).json()
        assert 2 == seen.value(DURATION)


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
    """A transport that nothing can be put on, and that cannot be referred to weakly."""

    __slots__ = ()

    def handle_request(self, request: Any) -> Any:
        return answer(request)

    def close(self) -> None:
        pass


def test_a_transport_with_slots() -> None:
    """It is seen by its class, like any other."""
    with capture(strict=True) as seen:
        client = httpx2.Client(transport=Slotted())  # type: ignore[arg-type]
        assert 1 == lz_otel.instrument_client(client)
        assert client.post(URL, json=ASK).status_code == 200
        assert seen.value(DURATION) == 1


def test_an_odd_client_is_left_alone() -> None:
    """What a client's attributes raise is a fault of ours, counted and never raised."""

    class Odd(httpx2.Client):
        def __getattribute__(self, name: str) -> Any:
            if name == "_mounts":
                raise LookupError("mine")
            return super().__getattribute__(name)

    odd = Odd.__new__(Odd)
    with capture() as seen:
        assert 0 == lz_otel.instrument_client(odd)
        assert 1 == seen.value("lz.internal.errors", where="capture")


@pytest.mark.parametrize("module", [httpx, httpx2])
def test_a_transport_of_both_kinds(module: Any) -> None:
    """Its streams, too, can be read in both ways, whichever of its methods has made them."""

    class Stream(module.SyncByteStream, module.AsyncByteStream):  # type: ignore[misc, name-defined]
        def __iter__(self) -> Iterator[bytes]:
            yield from PIECES

        async def __aiter__(self) -> AsyncIterator[bytes]:
            for piece in PIECES:
                yield piece

    class Transport(module.BaseTransport, module.AsyncBaseTransport):  # type: ignore[misc, name-defined]
        def handle_request(self, _: Any) -> Any:
            return module.Response(200, headers={"content-type": "application/json"}, stream=Stream())

        async def handle_async_request(self, request: Any) -> Any:
            return self.handle_request(request)

    async def call() -> Any:
        async with module.AsyncClient(transport=Transport()) as client:
            lz_otel.instrument_client(client)
            return (await client.post(URL, json=ASK)).json()

    with capture(strict=True) as seen:
        assert A_JSON == asyncio.run(call())
        with module.Client(transport=Transport()) as client:
            assert A_JSON == client.post(URL, json=ASK).json()
            with pytest.raises(KeyError), client.stream("POST", URL, json=ASK):
                raise KeyError
        assert (2, 1) == (seen.value(DURATION, lz_ending="ok"), seen.value(DURATION, lz_ending="abandoned"))
        assert 3 == seen.value("lz.attempts")


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
