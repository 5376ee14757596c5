"""Calls whose end another exchange states, on real sockets: counted once, at the end that shows it."""

from __future__ import annotations

import asyncio
import json
from typing import TYPE_CHECKING, Any

import anthropic
import httpx
import httpx2
import openai
import pytest

import lz_otel
from lz_otel.testing import Capture, capture
from tests.loopback import Asked, Reply, serving

if TYPE_CHECKING:
    from collections.abc import Iterator

INPUT = "gen_ai.client.inference.usage.input_tokens"
OUTPUT = "gen_ai.client.inference.usage.output_tokens"
DURATION = "gen_ai.client.inference.duration"
USAGE = {
    "input_tokens": 5000,
    "input_tokens_details": {"cached_tokens": 1024},
    "output_tokens": 900,
    "output_tokens_details": {"reasoning_tokens": 640},
    "total_tokens": 5900,
}


@pytest.fixture
def seen() -> Iterator[Capture]:
    with capture(strict=True, providers="127.0.0.1=openai") as found:
        yield found


def by(seen: Capture, metric: str) -> dict[str, float]:
    """Values of a counter by its last attribute."""
    return {labels[-1]: value for labels, value in seen.points(metric).items() if value}


def endings(seen: Capture, metric: str = DURATION) -> dict[tuple[str, str], int]:
    """Calls by ending and error."""
    return {(k[10], k[6]): v.count for k, v in seen.points(metric).items() if v.count}


def answer_of(state: str, background: bool = True, **more: Any) -> dict[str, Any]:
    """A response as it is stored."""
    return {
        "id": "resp_9", "object": "response", "created_at": 1, "status": state, "background": background,
        "model": "gpt-5.4", "error": None, "output": [], "parallel_tool_calls": True, "tools": [],
        "tool_choice": "auto", "service_tier": "default",
        "usage": USAGE if state == "completed" else None, **more,
    }  # fmt: skip


def sse(*events: dict[str, Any]) -> Reply:
    text = "".join(f"event: {e['type']}\ndata: {json.dumps(e)}\n\n" for e in events)
    return Reply(text.encode(), kind="text/event-stream")


class Stored:
    """An API that answers a request at once, and is asked for the end."""

    def __init__(self, *states: dict[str, Any] | Reply, first: dict[str, Any] | Reply | None = None) -> None:
        self.states = list(states)
        self.first = first or answer_of("queued")

    def __call__(self, asked: Asked) -> Reply:
        if asked.method == "POST" and asked.path.endswith("/responses"):
            found = self.first
        else:
            found = self.states.pop(0) if len(self.states) > 1 else self.states[0]
        return found if isinstance(found, Reply) else Reply(found)


def requests(module: Any, waits: bool, *asked: tuple[str, str]) -> None:
    """Send requests in turn, and read their answers."""
    body = {"model": "gpt-5.4", "input": "x", "background": True}

    async def ask() -> None:
        async with module.AsyncClient(trust_env=False) as client:
            for method, url in asked:
                await client.request(method, url, json=body if method == "POST" else None)

    if waits:
        asyncio.run(ask())
        return
    with module.Client(trust_env=False) as client:
        for method, url in asked:
            client.request(method, url, json=body if method == "POST" else None)


@pytest.mark.parametrize("waits", [False, True])
@pytest.mark.parametrize("module", [httpx, httpx2], ids=["httpx", "httpx2"])
def test_a_background_response_is_counted_once(module: Any, waits: bool, seen: Capture) -> None:
    """At its end, with the time since it began, however often it is read again; until then it is awaited."""
    with serving(Stored(answer_of("in_progress"), answer_of("completed"))) as url:
        requests(module, waits, ("POST", url + "/v1/responses"), ("GET", url + "/v1/responses/resp_9"))
        assert ({}, {"later": 1}) == (endings(seen), by(seen, "lz.call.usage_missing"))
        assert 0 == seen.value("lz.call.active")
        requests(module, waits, *[("GET", url + "/v1/responses/resp_9?include=x")] * 3)
        assert {("ok", ""): 1} == endings(seen)
        assert (5000, 900) == (seen.value(INPUT), seen.value(OUTPUT))
        assert {"200": 1} == by(seen, "lz.attempts")
        assert {"later": 1} == by(seen, "lz.call.usage_missing")
        assert 0 < seen.value("lz.cost.usd")


def test_the_sdk_polls(seen: Capture) -> None:
    """The operation in which it began counts one call, and names the route of its end."""
    with serving(Stored(answer_of("in_progress"), answer_of("completed"))) as url:
        client = openai.OpenAI(api_key="k", base_url=url + "/v1")
        with lz_otel.operation("research"):
            response = client.responses.create(model="gpt-5.4", input="x", background=True)
            while response.status != "completed":
                response = client.responses.retrieve(response.id)
        assert 5000 == seen.value(INPUT, lz_route="research")
        assert 1 == seen.histogram("lz.operation.calls", lz_route="research", outcome="full").sum


@pytest.mark.parametrize(
    ("end", "ending"),
    [
        (answer_of("completed"), ("ok", "")),
        (answer_of("incomplete", usage=USAGE), ("ok", "")),
        (answer_of("failed", error={"code": "server_error", "message": "x"}), ("error", "server_error")),
        (answer_of("cancelled"), ("cancelled", "")),
        (sse({"type": "response.completed", "response": answer_of("completed")}), ("ok", "")),
    ],
)
@pytest.mark.parametrize("way", ["GET", "POST"])
def test_however_it_ends(seen: Capture, end: Any, ending: tuple[str, str], way: str) -> None:
    """Polled, streamed on, or cancelled: the end is what the exchange states."""
    with serving(Stored(end)) as url:
        again = "/v1/responses/resp_9" + ("/cancel" if way == "POST" else "?stream=true&starting_after=3")
        requests(httpx2, False, ("POST", url + "/v1/responses"), (way, url + again), ("GET", url + again))
        assert {ending: 1} == endings(seen)
        assert {"later": 1} == by(seen, "lz.call.usage_missing")


def test_a_broken_background_stream_is_awaited(seen: Capture) -> None:
    """A stream that breaks off goes on without its reader; one that ends is not counted again."""
    begun = {"type": "response.created", "response": answer_of("in_progress")}
    ended = {"type": "response.completed", "response": answer_of("completed")}
    with serving(Stored(sse(ended), first=sse(begun))) as url:
        requests(httpx2, False, ("POST", url + "/v1/responses"))
        assert ({}, {"later": 1}) == (endings(seen), by(seen, "lz.call.usage_missing"))
        requests(httpx2, False, *[("GET", url + "/v1/responses/resp_9?stream=true")] * 2)
        assert (1, 5000) == (endings(seen)["ok", ""], seen.value(INPUT))
    with serving(Stored(answer_of("completed", id="resp_2"), first=sse(begun, {**ended, "response": answer_of("completed", id="resp_2")}))) as url:  # fmt: skip  # noqa: E501
        requests(httpx2, False, ("POST", url + "/v1/responses"), ("GET", url + "/v1/responses/resp_2"))
        assert (2, 10_000) == (endings(seen)["ok", ""], seen.value(INPUT))


def test_who_sees_the_end_only(seen: Capture) -> None:
    """Tokens and money are counted, a duration is not known; an answer of an ordinary call is another's."""
    with serving(Stored(answer_of("completed"))) as url:
        requests(httpx2, False, *[("GET", url + "/v1/responses/resp_9")] * 2)
        assert ({}, 5000) == (endings(seen), seen.value(INPUT))
    with serving(Stored(answer_of("completed", background=False, id="resp_7"))) as url:
        requests(httpx2, False, ("GET", url + "/v1/responses/resp_7"))
        assert 5000 == seen.value(INPUT)


def test_runs_are_polled(seen: Capture) -> None:
    """A run of the Assistants API states its usage when it is asked for at its end."""
    usage = {"prompt_tokens": 70, "completion_tokens": 7, "total_tokens": 77}

    def run(asked: Asked) -> Reply:
        state = "queued" if asked.method == "POST" else "completed"
        said = {"id": "run_1", "object": "thread.run", "status": state, "model": "gpt-4o", "last_error": None}
        return Reply({**said, "usage": usage if state == "completed" else None})

    with serving(run) as url:
        requests(httpx2, False, ("POST", url + "/v1/threads/t/runs"))
        assert {"later": 1} == by(seen, "lz.call.usage_missing")
        requests(httpx2, False, *[("GET", url + "/v1/threads/t/runs/run_1")] * 2)
        assert (70, 7) == (seen.value(INPUT), seen.value(OUTPUT))


def message(number: int) -> dict[str, Any]:
    usage = {"input_tokens": 1000, "output_tokens": 100, "service_tier": "batch"}
    said = {"id": f"m{number}", "type": "message", "role": "assistant", "model": "claude-haiku-4-5"}
    said |= {"content": [{"type": "text", "text": "x"}], "stop_reason": "end_turn", "usage": usage}
    return {"custom_id": f"a{number}", "result": {"type": "succeeded", "message": said}}


def lines(*results: Any, kind: str = "application/x-jsonl", end: str = "\n") -> Reply:
    return Reply(("\n".join(json.dumps(result) for result in results) + end).encode(), kind=kind)


@pytest.mark.parametrize("end", ["\n", ""])
def test_results_of_an_anthropic_batch(seen: Capture, end: str) -> None:
    """Each line is a call at the batch's price; read again, or in part, it counts once."""
    error = {
        "type": "errored",
        "error": {"type": "error", "error": {"type": "overloaded_error", "message": "x"}},
    }
    results = lines(message(1), message(2), {"custom_id": "a3", "result": error}, message(4), end=end)
    counts = {"processing": 4, "succeeded": 0, "errored": 0, "canceled": 0, "expired": 0}

    def batches(asked: Asked) -> Reply:
        if asked.path.endswith("/results"):
            return results
        said = {"id": "msgbatch_1", "type": "message_batch", "processing_status": "ended"}
        return Reply(
            {**said, "request_counts": counts, "results_url": f"{url}/v1/messages/batches/msgbatch_1/results"}
        )

    with serving(batches) as url:
        client = anthropic.Anthropic(api_key="k", base_url=url)
        params: Any = {
            "model": "claude-haiku-4-5",
            "max_tokens": 9,
            "messages": [{"role": "user", "content": "x"}],
        }
        client.messages.batches.create(requests=[{"custom_id": "a1", "params": params}])
        assert {"later": 4} == by(seen, "lz.call.usage_missing")
        for _ in range(2):
            assert 4 == len(list(client.messages.batches.results("msgbatch_1")))
    assert (3000, 300) == (seen.value(INPUT), seen.value(OUTPUT))
    assert 3 * 0.00075 == pytest.approx(seen.value("lz.cost.usd"))
    wanted = {("ok", ""): 3, ("error", "overloaded_error"): 1}
    assert ({}, wanted) == (endings(seen), endings(seen, "gen_ai.client.operation.duration"))


@pytest.mark.parametrize(
    "kind", ["application/octet-stream", "application/jsonl", "application/json", "text/plain"]
)
@pytest.mark.parametrize("made_here", [False, True])
def test_results_of_an_openai_batch(seen: Capture, kind: str, made_here: bool) -> None:
    """A file's lines hold answers of any API; another kind of file is none."""
    chat = {"id": "c", "object": "chat.completion", "model": "gpt-5.4", "choices": []}
    chat |= {"usage": {"prompt_tokens": 10, "completion_tokens": 1, "total_tokens": 11}}
    bodies = [
        (200, chat),
        (200, answer_of("completed", False)),
        (400, {"error": {"code": "bad", "message": "x"}}),
    ]
    file = lines(
        *[
            {
                "id": f"batch_req_{i}",
                "custom_id": str(i),
                "error": None,
                "response": {"status_code": s, "body": b},
            }
            for i, (s, b) in enumerate(bodies)
        ],
        kind=kind,
    )
    batch = {"id": "batch_1", "object": "batch", "endpoint": "/v1/responses", "request_counts": {"total": 0}}

    def api(asked: Asked) -> Reply:
        if asked.path.endswith("/file-out/content"):
            return file
        if asked.path.endswith("/file-in/content"):
            return lines({"custom_id": "0", "method": "POST", "url": "/v1/responses", "body": chat})
        return Reply({**batch, "output_file_id": None if asked.method == "POST" else "file-out"})

    with serving(api) as url:
        if made_here:
            requests(httpx, False, ("POST", url + "/v1/batches"), ("GET", url + "/v1/batches/batch_1"))
        requests(httpx, False, *[("GET", url + "/v1/files/file-out/content")] * 2)
        requests(httpx2, True, ("GET", url + "/v1/files/file-in/content"))
    assert (5010, 901) == (seen.value(INPUT), seen.value(OUTPUT))
    known = {("ok", ""): 2, ("error", "bad"): 1} if made_here else {}
    assert known == endings(seen, "gen_ai.client.operation.duration")
    assert ({"later": 1} if made_here else {}) == by(seen, "lz.call.usage_missing")


def test_results_of_a_gemini_batch() -> None:
    """They are in the batch itself, or in a file of lines."""
    usage = {"promptTokenCount": 20, "candidatesTokenCount": 2, "totalTokenCount": 22}
    said = {"candidates": [], "usageMetadata": usage, "modelVersion": "gemini-2.5-flash"}
    done = {
        "inlinedResponses": {"inlinedResponses": [{"response": said}, {"error": {"code": 8, "message": "x"}}]}
    }

    def api(asked: Asked) -> Reply:
        if asked.method == "POST":
            return Reply({"name": "batches/b1", "metadata": {}})
        if "download" in asked.path:
            return lines({"key": "k", "response": said}, kind="application/octet-stream")
        return Reply({"name": "batches/b1", "done": True, "response": done})

    with capture(strict=True, providers="127.0.0.1=gcp.gemini") as seen, serving(api) as url:
        requests(httpx2, False, ("POST", url + "/v1beta/models/gemini-2.5-flash:batchGenerateContent"))
        assert {"later": 1} == by(seen, "lz.call.usage_missing")
        requests(httpx2, False, *[("GET", url + "/v1beta/batches/b1")] * 2)
        assert (20, 2) == (seen.value(INPUT), seen.value(OUTPUT))
        requests(httpx2, False, *[("GET", url + "/download/v1beta/files/b2:download?alt=media")] * 2)
        assert (40, 4) == (seen.value(INPUT), seen.value(OUTPUT))


def test_files_of_other_kinds_are_left_alone(seen: Capture) -> None:
    """Whatever a file holds, the host gets it, and nothing is counted or complained of."""
    bodies = [
        b"",
        b"\x89PNG\r\n",
        b"{}\n{}\n",
        b'{"a": 1',
        b"[1, 2]",
        b"\n\n{",
        b'{"response": {"body": 7}}\n',
    ]
    for body in bodies:
        with serving(lambda _, body=body: Reply(body, kind="application/octet-stream")) as url:
            assert body == httpx2.get(url + "/v1/files/f/content", trust_env=False).content
    assert (0, {}) == (seen.value(INPUT), by(seen, "lz.malformed"))
