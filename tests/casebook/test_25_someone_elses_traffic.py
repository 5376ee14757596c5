"""Case 25: the same HTTP package serves the whole application; only model calls are ours to see."""

from __future__ import annotations

import json
import tracemalloc
from typing import TYPE_CHECKING, Any

import httpx2
import openai
import pytest

import lz_otel
from lz_otel import _later
from lz_otel._capture import attempt
from tests.casebook.bodies import ASK, CHAT, MESSAGES_URL
from tests.casebook.helpers import CALLS, INFLIGHT, INPUT, claude, gpt, json_body, observed
from tests.wire_doubles import A_JSON, O_JSON, pieces_for, transport

if TYPE_CHECKING:
    from pathlib import Path

PIECE = bytes(65_536)
MEGABYTES = 40  # the case has 200


def everything(found: Any) -> dict[str, Any]:
    """All points of all metrics."""
    return {m.name: found.seen.points(m.name) for m in found.seen.store.metrics}


def observed_client(answer: Any) -> httpx2.Client:
    """A plain client on a double, observed."""
    http = httpx2.Client(transport=transport(httpx2, answer))
    lz_otel.instrument_client(http)
    return http


@pytest.mark.parametrize("method", ["GET", "POST"])
def test_25_a_big_download_is_not_touched(method: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """No metric, no entry into our code per piece, no memory, the same pieces, the same body object."""
    entered: list[str] = []
    for owner, name in (
        (attempt.Attempt, "_along"),
        (attempt.Attempt, "_keep"),
        (attempt.Attempt, "head"),
    ):
        monkeypatch.setattr(owner, name, lambda *a, n=name: entered.append(n))
    body: Any = None

    def answer(request: Any) -> Any:
        nonlocal body
        body = pieces_for(httpx2, [PIECE] * (MEGABYTES * 16))
        return httpx2.Response(200, headers={"content-type": "application/octet-stream"}, stream=body)

    with observed() as found:
        http = observed_client(answer)
        before = everything(found)
        tracemalloc.start()
        try:
            with http.stream(method, "https://files.test/big") as response:
                assert not isinstance(response.stream, attempt._Shell)
                held = tracemalloc.get_traced_memory()[0]
                n = 0
                for piece in response.iter_raw():
                    assert len(piece) == len(PIECE)
                    n += 1
                grown = tracemalloc.get_traced_memory()[1] - held
        finally:
            tracemalloc.stop()
        assert MEGABYTES * 16 == n == body.asked
        assert grown < 1_000_000
        assert (before, []) == (everything(found), entered)


def test_25_a_usage_field_makes_no_model_call() -> None:
    """A shop whose path and answer look like ours: nothing is counted, and the answer is not touched."""
    order = {"order": 1, "messages": "hello"}
    with observed() as found:
        http = observed_client(json_body({"usage": {"input_tokens": 5}}))
        before = everything(found)
        response = http.post("https://shop.test/v1/messages", json=order)
        assert not isinstance(response.stream, attempt._Shell)
        assert before == everything(found)


def test_25_lists_files_and_counting_have_no_tokens() -> None:
    """A model list, an upload, and a count of tokens: no tokens were generated, none is billed."""
    files = {"id": "f", "object": "file", "bytes": 1, "created_at": 1, "filename": "x", "purpose": "batch"}
    with observed() as found:
        claude(json_body({"data": [], "has_more": False, "first_id": None, "last_id": None})).models.list()
        counted = claude(json_body({"input_tokens": 2104})).messages.count_tokens(
            model="claude-opus-5", messages=[{"role": "user", "content": "x"}]
        )
        assert 2104 == counted.input_tokens
        assert "f" == gpt(json_body(files)).files.create(file=b"x" * 5_000_000, purpose="batch").id
        assert ({}, {}, {}) == tuple(found.seen.points(m) for m in (INPUT, CALLS, INFLIGHT))


def test_25_counting_leaves_no_trace_in_shared_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Worker processes, who count calls in flight as they begin,
    have none below zero after a count of tokens.
    """
    monkeypatch.setenv("PROMETHEUS_MULTIPROC_DIR", str(tmp_path))
    with observed() as found:
        claude(json_body({"input_tokens": 5})).messages.count_tokens(model="m", messages=ASK["messages"])
        assert {} == found.seen.points(INFLIGHT)
        claude(json_body(A_JSON)).messages.create(**ASK)
        assert 0 == found.inflight


def test_25_a_gateway_is_the_provider_in_its_path() -> None:
    """A company's gateway: counted as the vendor its path names; its host is nowhere."""
    with observed() as found:
        claude(json_body(A_JSON), base_url="https://gateway.test/anthropic").messages.create(**ASK)
        assert [("chat", "anthropic", "claude-opus-5")] == [k[:3] for k in found.seen.points(CALLS)]
        assert ((1, 2104), (1, 20)) == found.tokens()
        assert "gateway.test" not in str(everything(found))


def test_25_a_gateway_by_its_configured_name() -> None:
    """A host on the configured list has the name it was given there."""
    with observed(providers={"llm.corp.test": "our-gateway"}) as found:
        gpt(json_body(O_JSON), base_url="https://llm.corp.test/v1").chat.completions.create(**CHAT)
        assert ["our-gateway"] == [k[1] for k in found.seen.points(CALLS)]


def test_25_azure() -> None:
    """Azure: provider by host and path, model from the body."""
    with observed() as found:
        client = openai.AzureOpenAI(
            api_key="k", api_version="1", azure_endpoint="https://x.openai.azure.com", azure_deployment="d",
            http_client=httpx2.Client(transport=transport(httpx2, json_body(O_JSON))),
        )  # fmt: skip
        client.chat.completions.create(**CHAT)
        assert [("chat", "azure.ai.openai", "gpt-5")] == [k[:3] for k in found.seen.points(CALLS)]
        assert ((1, 100), (1, 30)) == found.tokens()
        assert "openai.azure.com" not in str(everything(found))


def test_25_a_plain_client_to_a_known_host_counts() -> None:
    """No SDK is needed."""
    with observed() as found:
        observed_client(json_body(A_JSON)).post(MESSAGES_URL, json=ASK)
        assert ((1, 2104), (1, 20)) == found.tokens()


@pytest.mark.parametrize(("method", "status"), [("GET", 101), ("HEAD", 200), ("OPTIONS", 204)])
def test_25_upgrades_and_heads_pass(method: str, status: int) -> None:
    """A WebSocket upgrade and a HEAD to a known host are not observed."""
    with observed() as found:
        http = observed_client(lambda r: httpx2.Response(status, headers={"upgrade": "websocket"}))
        before = everything(found)
        assert status == http.request(method, MESSAGES_URL).status_code
        assert before == everything(found)


def test_25_requests_are_sent_as_they_are() -> None:
    """No header is added to anybody's request, and a streamed upload is not read by us."""
    sent: list[Any] = []

    class Recorder(httpx2.BaseTransport):
        def handle_request(self, request: Any) -> Any:
            sent.append((request.headers.raw, b"".join(request.stream)))
            return httpx2.Response(200, json=A_JSON)

    def parts() -> Any:
        yield b'{"model": "claude-opus-5", '
        yield b'"messages": [], "max_tokens": 1}'

    def run() -> None:
        http = httpx2.Client(transport=Recorder())
        lz_otel.instrument_client(http)
        http.post("https://files.test/upload", content=parts())
        http.post(MESSAGES_URL, content=parts(), headers={"content-type": "application/json"})
        http.post(MESSAGES_URL, json=ASK)

    run()
    with observed() as found:
        run()
        assert 2 == found.calls().count
    assert sent[:3] == sent[3:]
    assert json.loads(sent[4][1])["model"] == "claude-opus-5"


def test_25_foreign_requests_never_reach_the_stages(monkeypatch: pytest.MonkeyPatch) -> None:
    """For other paths the first look at the path is the last."""
    looked: list[str] = []
    monkeypatch.setattr(_later.Later, "identify", lambda self, o: looked.append(o.request.path))
    with observed() as found:
        http = observed_client(json_body({}))
        for path in ("/", "/v1/orders", "/messages/1", "/chat/history", "/v1/models", "/healthz"):
            http.post(f"https://shop.test{path}", json={"usage": 1})
        assert [] == looked
        http.post("https://shop.test/v1/messages", json={"usage": 1})
        found.seen.store.snapshot()
        assert ["/v1/messages"] == looked  # where the look would have been noticed
