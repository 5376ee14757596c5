"""A call of a plain client is one ``send``: redirects, authentication, transports that send again."""

from __future__ import annotations

import asyncio
import gc
from typing import TYPE_CHECKING, Any

import anthropic
import httpx
import httpx2
import openai
import pytest

from lz_otel.testing import Capture, capture
from tests.loopback import Asked, Reply, serving
from tests.wire_doubles import A_JSON, O_JSON

if TYPE_CHECKING:
    from collections.abc import Iterator

MESSAGES = [{"role": "user", "content": "x"}]
ASK: dict[str, Any] = {
    "model": "claude-opus-5",
    "max_tokens": 9,
    "messages": [{"role": "user", "content": "x"}],
}
HEADERS = {"anthropic-version": "2023-06-01"}
DURATION = "gen_ai.client.inference.duration"


@pytest.fixture(params=[httpx, httpx2], ids=["httpx", "httpx2"])
def module(request: pytest.FixtureRequest) -> Any:
    return request.param


@pytest.fixture
def seen() -> Iterator[Capture]:
    """Observe, with the garbage collector switched off: nothing here may wait for it."""
    with capture(strict=True) as found:
        gc.collect()
        gc.disable()
        try:
            yield found
        finally:
            gc.enable()


def calls(seen: Capture) -> dict[tuple[str, str], int]:
    """Calls by ending and error."""
    points = seen.points(DURATION).items()
    return {(labels[10], labels[6]): value.count for labels, value in points if value.count}


def by(seen: Capture, metric: str) -> dict[str, float]:
    """Values of a counter by its last attribute."""
    return {labels[-1]: value for labels, value in seen.points(metric).items() if value}


def post(module: Any, url: str, waits: bool, stream: bool, **options: Any) -> Any:
    """Send one request, and read its answer; the response, or what was raised."""

    async def ask() -> Any:
        async with module.AsyncClient(trust_env=False, **options) as client:
            request = client.build_request("POST", url + "/v1/messages", json=ASK, headers=HEADERS)
            response = await client.send(request, stream=stream)
            await response.aread()
            return response

    try:
        if waits:
            return asyncio.run(ask())
        with module.Client(trust_env=False, **options) as client:
            request = client.build_request("POST", url + "/v1/messages", json=ASK, headers=HEADERS)
            response = client.send(request, stream=stream)
            response.read()
            return response
    except module.HTTPError as error:
        return error


def moved(status: int, place: str) -> Any:
    """Answer every first request by a redirect."""

    def answer(asked: Asked) -> Reply:
        if asked.path == "/v1/messages" and asked.method == "POST":
            return Reply(status=status, headers={"Location": place})
        return Reply(A_JSON)

    return answer


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize("waits", [False, True])
@pytest.mark.parametrize(
    ("status", "place", "options", "ended", "attempts"),
    [
        (307, "/v2/v1/messages", {"follow_redirects": True}, ("ok", ""), {"3xx": 1, "200": 1}),
        (308, "/elsewhere", {"follow_redirects": True}, ("ok", ""), {"3xx": 1, "200": 1}),
        (303, "/v1/messages", {"follow_redirects": True}, ("ok", ""), {"3xx": 1, "200": 1}),
        (307, "/v2/v1/messages", {}, ("error", "307"), {"3xx": 1}),
        (307, "/v1/messages", {"follow_redirects": True}, ("error", "TooManyRedirects"), {"3xx": 21}),
        (307, "http://[::/", {"follow_redirects": True}, ("error", "RemoteProtocolError"), {"3xx": 1}),
    ],
)
def test_a_redirect_is_within_its_call(
    module: Any, seen: Capture, waits: bool, stream: bool,
    status: int, place: str, options: dict[str, Any], ended: tuple[str, str], attempts: dict[str, int],
) -> None:  # fmt: skip
    """One call, which has ended as soon as the client has, without a garbage collection, and no retry."""
    with serving(moved(status, place)) as url:
        post(module, url, waits, stream, **options)
        assert {ended: 1} == calls(seen)
        assert attempts == by(seen, "lz.attempts")
        assert {} == by(seen, "lz.call.retries")
        assert 0 == seen.value("lz.call.active")


def refusing(*statuses: int, body: Any = A_JSON) -> Any:
    """Answer by these statuses in turn, and well from then on."""
    left = list(statuses)
    error = {"type": "error", "error": {"type": "rate_limit_error", "message": "slow down"}}
    return lambda asked: Reply(error, left.pop(0)) if left else Reply(body)


def again(module: Any, waits: bool) -> Any:
    """Make a transport that sends a request again when it is refused."""

    class Again(module.HTTPTransport):  # type: ignore[misc, name-defined]
        def handle_request(self, request: Any) -> Any:
            while (response := super().handle_request(request)).status_code in (429, 503):
                response.read()
            return response

    class AgainAsync(module.AsyncHTTPTransport):  # type: ignore[misc, name-defined]
        async def handle_async_request(self, request: Any) -> Any:
            while (response := await super().handle_async_request(request)).status_code in (429, 503):
                await response.aread()
            return response

    return AgainAsync() if waits else Again()


@pytest.mark.parametrize("waits", [False, True])
def test_a_transport_that_sends_again_retries(module: Any, seen: Capture, waits: bool) -> None:
    """Below a plain client, what a transport sends again belongs to the call that was sent."""
    with serving(refusing(429, 503)) as url:
        post(module, url, waits, False, transport=again(module, waits))
        assert {("ok", ""): 1} == calls(seen)
        assert {"429": 1, "503": 1} == by(seen, "lz.call.retries")


@pytest.mark.parametrize("waits", [False, True])
@pytest.mark.parametrize("way", ["transport", "client"])
def test_retries_below_an_sdk_are_retries(seen: Capture, waits: bool, way: str) -> None:
    """The SDK's own retries are off; a transport, or a client of the service's own, sends again."""

    class Client(httpx2.Client):
        def send(self, request: Any, **options: Any) -> Any:
            while (response := super().send(request, **options)).status_code in (429, 503):
                response.read()
            return response

    class AsyncClient(httpx2.AsyncClient):
        async def send(self, request: Any, **options: Any) -> Any:
            while (response := await super().send(request, **options)).status_code in (429, 503):
                await response.aread()
            return response

    with serving(refusing(429, 503, body=O_JSON)) as url:
        options: dict[str, Any] = {"api_key": "k", "base_url": url + "/v1", "max_retries": 0}
        ask: dict[str, Any] = {"model": "gpt-5", "messages": MESSAGES}
        if waits:
            http: Any = (
                AsyncClient() if way == "client" else httpx2.AsyncClient(transport=again(httpx2, True))
            )

            async def create() -> None:
                async with openai.AsyncOpenAI(http_client=http, **options) as client:
                    await client.chat.completions.create(**ask)

            asyncio.run(create())
        else:
            http = Client() if way == "client" else httpx2.Client(transport=again(httpx2, False))
            openai.OpenAI(http_client=http, **options).chat.completions.create(**ask)
        assert {("ok", ""): 1} == calls(seen)
        assert {"429": 1, "503": 1} == by(seen, "lz.call.retries")


def test_a_redirect_after_a_retry_is_no_retry(seen: Capture) -> None:
    """529, then a redirect, then the answer: one retry, whatever the SDK's header counts."""
    answers = [Reply(status=529), Reply(status=307, headers={"Location": "/v2/messages"}), Reply(A_JSON)]
    with serving(lambda asked: answers.pop(0)) as url:
        anthropic.Anthropic(api_key="k", base_url=url, max_retries=1).messages.create(**ASK)
        assert {("ok", ""): 1} == calls(seen)
        assert {"529": 1} == by(seen, "lz.call.retries")


def test_steps_of_authentication_are_within_the_call(module: Any, seen: Capture) -> None:
    """A 401 that the client answers itself is no call of its own."""

    class Token(module.Auth):  # type: ignore[misc, name-defined]
        def auth_flow(self, request: Any) -> Any:
            response = yield request
            if response.status_code == 401:
                yield request

    with serving(refusing(401)) as url:
        post(module, url, False, False, auth=Token())
        assert {("ok", ""): 1} == calls(seen)
        assert {"401": 1, "200": 1} == by(seen, "lz.attempts")


def test_other_traffic_is_as_before(module: Any, seen: Capture) -> None:
    """What is no LLM call, sent by any method, leaves no series; a redirect of it neither."""
    with (
        serving(moved(307, "/orders")) as url,
        module.Client(trust_env=False, follow_redirects=True) as client,
    ):
        assert 200 == client.get(url + "/responses").status_code
        assert 200 == client.post(url + "/orders", json={}).status_code
        assert {} == calls(seen)
        assert {} == by(seen, "lz.attempts")
