"""Every attempt ends exactly once, with the right ending, on both modules and in both worlds."""

from __future__ import annotations

import asyncio
import gc
import json
from typing import Any

import pytest

import lz_otel
from lz_otel._capture.attempt import KEPT_PIECES, Attempt
from lz_otel.testing import Capture, capture
from tests.wire_doubles import A_JSON, a_full, module_of, transport

URL = "https://api.anthropic.com/v1/messages"
BODY = {"model": "claude-opus-5", "max_tokens": 10, "messages": [{"role": "user", "content": "x"}]}
SSE = {"content-type": "text/event-stream"}
DURATION = "gen_ai.client.inference.duration"


@pytest.fixture(params=["httpx", "httpx2"])
def module(request: pytest.FixtureRequest) -> Any:
    """Both generations of the client."""
    return module_of(request.param)


def client(module: Any, answer: Any) -> Any:
    """A sync client on a double, observed."""
    made = module.Client(transport=transport(module, answer))
    lz_otel.instrument_client(made)
    return made


def endings(seen: Capture) -> dict[str, float]:
    """Samples by ending."""
    out: dict[str, float] = {}
    for labels, value in seen.points(DURATION).items():
        out[labels[-1]] = out.get(labels[-1], 0) + value.count
    return out


def test_plain_answer_is_ok(module: Any) -> None:
    """A plain answer is one ok call with its tokens."""
    with capture(strict=True) as seen:
        answer = client(module, lambda r: module.Response(200, json=A_JSON)).post(URL, json=BODY)
        assert answer.json() == A_JSON
        assert endings(seen) == {"ok": 1}
        assert seen.value("gen_ai.client.inference.usage.input_tokens") == 2104
        assert seen.value("gen_ai.client.inference.usage.output_tokens") == 20
        assert seen.value("lz.call.active") == 0


def test_a_plain_answer_in_very_many_pieces(module: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """A plain answer in many pieces is read as it passes: few pieces are held, each of which is an object."""
    kept: list[int] = []
    read_along = Attempt._read_along

    def note(attempt: Attempt) -> None:
        kept.append(len(attempt.pieces))
        read_along(attempt)

    monkeypatch.setattr(Attempt, "_read_along", note)
    body = json.dumps(A_JSON | {"more": "x" * 4000}).encode()
    pieces = [body[at : at + 2] for at in range(0, len(body), 2)]
    with capture(strict=True) as seen:
        head = {"content-type": "application/json"}
        with client(module, lambda r: (200, head, pieces)).stream("POST", URL, json=BODY) as response:
            assert list(response.iter_raw()) == pieces
        assert endings(seen) == {"ok": 1}
        assert seen.value("gen_ai.client.inference.usage.input_tokens") == 2104
    assert kept == [KEPT_PIECES + 1]


def test_streamed_bodies_are_read_as_they_pass(module: Any) -> None:
    """A streamed answer read to its end is one ok call, and the pieces arrive as they were sent."""
    with capture(strict=True) as seen:
        pieces = a_full()
        with client(module, lambda r: (200, SSE, pieces)).stream("POST", URL, json=BODY) as response:
            got = list(response.iter_raw())
        assert got == pieces
        assert endings(seen) == {"ok": 1}
        assert seen.value("lz.call.time_to_first_token") == 1


@pytest.mark.parametrize("how", ["close", "drop", "exception", "twice", "unread"])
def test_early_end_is_abandoned(module: Any, how: str) -> None:
    """A body that is closed or dropped half-way is abandoned: known input counts, output does not."""
    with capture(strict=True) as seen:
        c = client(module, lambda r: (200, SSE, a_full()))
        request = c.build_request("POST", URL, json={**BODY, "stream": True})
        response = c.send(request, stream=True)
        if how != "unread":
            iterator = response.iter_raw()
            for _ in range(3):
                next(iterator)
        if how == "exception":

            def use() -> None:
                try:
                    raise RuntimeError("mine")
                finally:
                    response.close()

            with pytest.raises(RuntimeError, match="mine"):
                use()
        elif how == "drop":
            del iterator, response
            gc.collect()
        else:
            response.close()
            if how == "twice":
                response.close()
        assert endings(seen) == {"abandoned": 1}
        assert seen.value("lz.call.active") == 0
        known = 0 if how == "unread" else 2104
        assert seen.value("gen_ai.client.inference.usage.input_tokens") == known
        assert seen.value("gen_ai.client.inference.usage.output_tokens") == 0
        assert seen.value("lz.call.usage_missing", reason="ended_early") == 1


def test_stream_without_its_end_is_incomplete(module: Any) -> None:
    """A stream that ends without its terminal event is incomplete."""
    with capture(strict=True) as seen:
        with client(module, lambda r: (200, SSE, a_full()[:3])).stream("POST", URL, json=BODY) as response:
            response.read()
        assert endings(seen) == {"incomplete": 1}


@pytest.mark.parametrize(
    ("name", "status"),
    [
        ("ConnectError", "connect_error"),
        ("ConnectTimeout", "connect_timeout"),
        ("ReadTimeout", "read_timeout"),
        ("PoolTimeout", "pool_timeout"),
        ("RemoteProtocolError", "protocol_error"),
    ],
)
def test_transport_errors_are_samples(module: Any, name: str, status: str) -> None:
    """A transport error leaves one sample and one attempt, and reaches the caller as it was raised."""
    error = getattr(module, name)("boom")
    with capture(strict=True) as seen:
        with pytest.raises(getattr(module, name)) as caught:
            client(module, lambda r: error).post(URL, json=BODY)
        assert caught.value is error
        assert caught.value.__context__ is None
        assert endings(seen) == {"error": 1}
        assert seen.value("lz.attempts", status=status) == 1
        assert [k[6] for k in seen.points(DURATION)] == [name]


def test_error_in_the_body_is_the_attempts_error(module: Any) -> None:
    """A timeout inside the body is no fast success."""
    with capture(strict=True) as seen:
        error = module.ReadTimeout("slow")
        with (
            pytest.raises(module.ReadTimeout),
            client(module, lambda r: (200, SSE, [*a_full()[:3], error])).stream(
                "POST", URL, json=BODY
            ) as response,
        ):
            response.read()
        assert endings(seen) == {"error": 1}
        assert seen.value("lz.attempts", status="read_timeout") == 1
        assert seen.value("gen_ai.client.inference.usage.input_tokens") == 2104


def test_error_status_has_the_providers_type(module: Any) -> None:
    """An error status is an error with the type that the provider names."""
    body = {"type": "error", "error": {"type": "overloaded_error", "message": "no"}}
    with capture(strict=True) as seen:
        client(module, lambda r: module.Response(529, json=body)).post(URL, json=BODY)
        assert [k[6] for k in seen.points(DURATION)] == ["overloaded_error"]
        assert seen.value("lz.attempts", status="529") == 1
        assert seen.value("lz.call.usage_missing") == 0


def test_cancelled_task_is_cancelled(module: Any) -> None:
    """A cancelled task's call is cancelled, whether it waits for the head or for the body."""

    async def run(pieces: list[Any], wait: float) -> None:
        c = module.AsyncClient(transport=transport(module, lambda r: (200, SSE, pieces)))
        lz_otel.instrument_client(c)

        async def read() -> None:
            async with c.stream("POST", URL, json=BODY) as response:
                async for _ in response.aiter_raw():
                    pass

        task = asyncio.create_task(read())
        await asyncio.sleep(wait)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    with capture(strict=True) as seen:
        asyncio.run(run([*a_full()[:3], 30.0], 0.05))
        assert endings(seen) == {"cancelled": 1}
        assert seen.value("lz.call.active") == 0
        assert seen.value("gen_ai.client.inference.usage.input_tokens") == 2104


def test_redirect_is_one_call_and_no_retry(module: Any) -> None:
    """A redirect that is followed belongs to the same call; one that is not ends the call by itself."""

    def answer(request: Any) -> Any:
        if request.url.path == "/v1/messages":
            return module.Response(307, headers={"location": "https://api.anthropic.com/x/v1/messages"})
        return module.Response(200, json=A_JSON)

    with capture(strict=True) as seen:
        c = client(module, answer)
        assert c.post(URL, json=BODY, follow_redirects=True).status_code == 200
        assert endings(seen) == {"ok": 1}
        assert seen.value("lz.attempts") == 2
        assert seen.value("lz.call.retries") == 0
        c.post(URL, json=BODY)
        gc.collect()
        assert seen.value("lz.attempts") == 3
        assert seen.value("lz.call.active") == 0
