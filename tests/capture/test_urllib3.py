"""urllib3, by itself and under requests and botocore, against a real server."""

from __future__ import annotations

import gc
import io
import json
from typing import TYPE_CHECKING, Any

import boto3
import pytest
import requests
import urllib3
from botocore.config import Config

import lz_otel
from lz_otel.testing import Capture, capture
from tests.capture.serving import ASK, EVENTS
from tests.wire_doubles import O_JSON

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.capture.serving import Server

DURATION = "gen_ai.client.inference.duration"
INPUT = "gen_ai.client.inference.usage.input_tokens"
BODIES = ["plain", "chunked", "gzip", "bare"]


def by_requests(url: str) -> Any:
    return requests.post(url, json=ASK, timeout=5).json()


def by_urllib3(url: str) -> Any:
    return urllib3.PoolManager().request("POST", url, json=ASK).json()


def in_pieces(url: str) -> Any:
    response = urllib3.PoolManager().request("POST", url, json=ASK, preload_content=False)
    pieces = []
    while piece := response.read(10):
        pieces.append(piece)
    response.release_conn()
    return json.loads(b"".join(pieces))


def in_a_stream(url: str) -> Any:
    with requests.post(url, json=ASK, timeout=5, stream=True) as response:
        return json.loads(b"".join(response.iter_content(7)))


@pytest.mark.parametrize("way", BODIES)
@pytest.mark.parametrize("send", [by_requests, by_urllib3, in_pieces, in_a_stream])
def test_an_answer(send: Callable[[str], Any], way: str, server: Server, seen: Capture) -> None:
    """However the body is framed, coded and read: the host has it, and it is counted once."""
    assert O_JSON == send(server.url(way))
    assert 1 == seen.value(DURATION, lz_ending="ok") == seen.value("lz.attempts", status="200")
    assert O_JSON["usage"]["prompt_tokens"] == seen.value(INPUT)


@pytest.mark.parametrize(
    "body", [json.dumps(ASK), json.dumps(ASK).encode(), io.BytesIO(json.dumps(ASK).encode())]
)
def test_a_request_body(body: Any, server: Server, seen: Capture) -> None:
    """Text, bytes and a file in memory are read, and sent as ever; a generator is left to who sends it."""
    assert requests.post(server.url("plain"), data=body, timeout=5).ok
    assert requests.post(server.url("plain"), data=iter([json.dumps(ASK).encode()]), timeout=5).ok
    assert 1 == seen.value(DURATION, gen_ai_request_model="gpt-4o")


def test_events(server: Server, seen: Capture) -> None:
    """A stream is read as it passes."""
    with requests.post(
        server.url("stream"), json={**ASK, "stream": True}, timeout=5, stream=True
    ) as response:
        assert b"".join(EVENTS) == b"".join(response.iter_content(None))
    assert 1 == seen.value(DURATION, lz_stream="true", lz_ending="ok")
    assert 1 == seen.value("lz.call.time_to_first_token")


@pytest.mark.parametrize("close", [True, False])
def test_a_stream_that_is_left(close: bool, server: Server, seen: Capture) -> None:
    """Closed or dropped in the middle: abandoned, and nothing stays active."""

    def leave() -> None:
        response = requests.post(server.url("slow"), json={**ASK, "stream": True}, timeout=5, stream=True)
        assert EVENTS[0] == next(response.iter_content(None))
        if close:
            response.close()

    leave()
    gc.collect()
    assert 1 == seen.value(DURATION, lz_ending="abandoned")
    assert 0 == seen.value("lz.call.active")


@pytest.mark.parametrize(
    ("way", "status"), [("broken", "protocol_error"), ("cut", "protocol_error"), ("gone", "protocol_error")]
)
def test_a_connection_that_breaks(way: str, status: str, server: Server, seen: Capture) -> None:
    """The host gets its exception, and the call is an error."""
    with pytest.raises(requests.RequestException):
        requests.post(server.url(way), json=ASK, timeout=5)
    assert 1 == seen.value(DURATION, lz_ending="error") == seen.value("lz.attempts", status=status)


def test_no_connection_and_no_answer(server: Server, seen: Capture) -> None:
    """A refused connection, and an answer that takes too long."""
    with pytest.raises(requests.ConnectionError):
        requests.post("http://127.0.0.1:1/v1/chat/completions", json=ASK, timeout=5)
    with pytest.raises(requests.RequestException):
        requests.post(server.url("slow"), json=ASK, timeout=0.2)
    assert 1 == seen.value("lz.attempts", status="connect_error")
    assert 1 == seen.value("lz.attempts", status="read_timeout")
    assert 2 == seen.value(DURATION, lz_ending="error")


def test_retries_and_redirects_are_one_call(server: Server, seen: Capture) -> None:
    """Those of an adapter of requests, of a pool of urllib3, and a redirect."""
    again = urllib3.Retry(3, status_forcelist=[429], allowed_methods=None, backoff_factor=0)
    with requests.Session() as session:
        session.mount("http://", requests.adapters.HTTPAdapter(max_retries=again))
        assert session.post(server.url("busy"), json=ASK, timeout=5).ok
    assert 200 == urllib3.PoolManager(retries=again).request("POST", server.url("busy"), json=ASK).status
    assert 2 == seen.value(DURATION) == seen.value("lz.call.retries", reason="429")
    assert requests.post(server.url("moved"), json=ASK, timeout=5).ok
    assert 3 == seen.value(DURATION, lz_ending="ok")
    assert 1 == seen.value("lz.attempts", status="3xx")


def bedrock(server: Server) -> Any:
    return boto3.client(
        "bedrock-runtime",
        endpoint_url=f"http://127.0.0.1:{server.server_port}",
        region_name="us-east-1",
        aws_access_key_id="a",
        aws_secret_access_key="b",
        config=Config(retries={"total_max_attempts": 3, "mode": "standard"}),
    )


def test_bedrock(server: Server, seen: Capture) -> None:
    """Converse and invoke_model, whose body is read later, with botocore's own retries."""
    client = bedrock(server)
    messages = [{"role": "user", "content": [{"text": "x"}]}]
    client.converse(modelId="anthropic.claude-haiku-4-5", messages=messages)
    body = {"anthropic_version": "bedrock-2023-05-31", "max_tokens": 5, "messages": []}
    answer = client.invoke_model(modelId="anthropic.claude-haiku-4-5", body=json.dumps(body))
    assert 1 == seen.value(DURATION)
    assert 7 == json.loads(answer["body"].read())["usage"]["output_tokens"]
    assert 2 == seen.value(DURATION, lz_ending="ok", gen_ai_provider_name="aws.bedrock")
    client.converse(modelId="anthropic.busy", messages=messages)
    assert 3 == seen.value(DURATION, lz_ending="ok")
    assert 1 == seen.value("lz.call.retries", reason="429")
    assert 33 == seen.value(INPUT)


def test_other_traffic_is_left_alone(server: Server, seen: Capture) -> None:
    """Responses of other requests have the class that they had, and nothing is counted."""
    response = requests.get(server.url("plain"), timeout=5, stream=True)
    assert type(response.raw) is urllib3.HTTPResponse
    assert 0 == seen.value("lz.attempts")


def test_a_response_is_what_it_was(server: Server, seen: Capture) -> None:
    """Its class is a HTTPResponse by name while it is read, and in truth when it is over."""
    response = requests.post(server.url("slow"), json=ASK, timeout=5, stream=True)
    assert isinstance(response.raw, urllib3.HTTPResponse)
    assert (
        "urllib3.response.HTTPResponse"
        == f"{type(response.raw).__module__}.{type(response.raw).__qualname__}"
    )
    response.close()
    assert type(response.raw) is urllib3.HTTPResponse
    assert 1 == seen.value(DURATION)


def test_hooks_come_off(server: Server) -> None:
    """After `uninstrument` the pool's function has its own code."""
    pool: Any = urllib3.HTTPConnectionPool
    before = pool._make_request.__code__
    with capture():
        assert pool._make_request.__code__ is not before
        assert "urllib3" in lz_otel.status().hooked
    assert pool._make_request.__code__ is before
    assert O_JSON == by_requests(server.url("plain"))
