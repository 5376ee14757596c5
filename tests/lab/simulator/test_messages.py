"""The official Anthropic client over loopback."""

from __future__ import annotations

import asyncio
import re
from typing import Any

import pytest

from lz_otel.lab.simulator import parse, running

anthropic = pytest.importorskip("anthropic")

ASK: dict[str, Any] = {
    "model": "claude-sonnet-5-5",
    "max_tokens": 300,
    "messages": [{"role": "user", "content": "hello there"}],
}
TOOL = {"name": "look_up", "input_schema": {"type": "object", "properties": {"title": {"type": "string"}}}}
MISS = {"x-sim-force": "symbolic=miss"}


def read(answer: Any) -> None:
    """Read a stream to its end; a plain answer has been read already."""
    if isinstance(answer, anthropic.Stream):
        list(answer)


def test_plain(claude: Any, sim: Any) -> None:
    """A message with text, and the usage that the truth log holds."""
    message = claude.messages.create(**ASK, extra_headers=MISS)
    (record,) = sim.truth()
    assert ("text", "end_turn") == (message.content[0].type, message.stop_reason)
    assert (record["input_tokens"], record["output_tokens"]) == (
        message.usage.input_tokens,
        message.usage.output_tokens,
    )
    assert "standard" == message.usage.service_tier


def test_stream_says_the_same_as_a_plain_answer(claude: Any) -> None:
    """The same call streamed and not streamed has the same text and usage."""
    headers = {**MISS, "x-sim-call": "one"}
    plain = claude.messages.create(**ASK, extra_headers=headers)
    with claude.messages.stream(**ASK, extra_headers=headers) as stream:
        streamed = stream.get_final_message()
    assert plain.content[0].text == streamed.content[0].text
    assert plain.usage.model_dump(exclude={"cache_creation"}) == streamed.usage.model_dump(
        exclude={"cache_creation"}
    )


def test_stream_order(claude: Any) -> None:
    """The events come in the documented order."""
    events = [e.type for e in claude.messages.create(**ASK, stream=True, extra_headers=MISS)]
    assert re.fullmatch(
        "message_start (content_block_start (content_block_delta )+content_block_stop )+"
        "message_delta message_stop",
        " ".join(events),
    )


@pytest.mark.parametrize("stream", [False, True])
def test_tools_and_thinking(claude: Any, stream: bool) -> None:
    """Thinking comes first, then text, then the call with input by the schema; its tokens are reported."""
    asked = {
        **ASK,
        "tools": [TOOL],
        "thinking": {"type": "adaptive"},
        "extra_headers": {"x-sim-force": "symbolic=miss;tool=1"},
    }
    if stream:
        with claude.messages.stream(**asked) as s:
            message = s.get_final_message()
    else:
        message = claude.messages.create(**asked)
    assert ["thinking", "text", "tool_use"] == [b.type for b in message.content]
    assert ("tool_use", ["title"]) == (message.stop_reason, list(message.content[2].input))
    assert 0 < message.usage.output_tokens_details.thinking_tokens < message.usage.output_tokens


def test_a_tool_result_is_answered_with_text(claude: Any) -> None:
    """No tool is called again right away."""
    messages = [
        *ASK["messages"],
        {"role": "assistant", "content": [{"type": "tool_use", "id": "t1", "name": "look_up", "input": {}}]},
        {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "t1", "content": "found"}]},
    ]
    message = claude.messages.create(
        **{**ASK, "messages": messages}, tools=[TOOL], extra_headers={"x-sim-force": "tool=1"}
    )
    assert ["text"] == [b.type for b in message.content]


def test_max_tokens_cuts(claude: Any) -> None:
    """The answer is no longer than allowed, and says why it stopped."""
    message = claude.messages.create(
        **{**ASK, "max_tokens": 5}, extra_headers={"x-sim-force": "symbolic=miss;output=50"}
    )
    assert ("max_tokens", 5) == (message.stop_reason, message.usage.output_tokens)


def test_count_tokens_agrees_with_the_bill(claude: Any) -> None:
    """What is counted before is what is billed after."""
    counted = claude.messages.count_tokens(
        model=ASK["model"], messages=ASK["messages"], system="Be brief.", tools=[TOOL]
    )
    billed = claude.messages.create(**ASK, system="Be brief.", tools=[TOOL])
    assert counted.input_tokens == billed.usage.input_tokens


@pytest.mark.parametrize(
    ("fault", "status", "kind"),
    [
        ("400", 400, "invalid_request_error"),
        ("429", 429, "rate_limit_error"),
        ("500", 500, "api_error"),
        ("504", 504, "timeout_error"),
        ("529", 529, "overloaded_error"),
        ("spend_limit", 429, "rate_limit_error"),
    ],
)
def test_errors_in_the_vendors_shape(claude: Any, fault: str, status: int, kind: str) -> None:
    """Type, message and request id as documented; the client raises its own class for it."""
    with pytest.raises(anthropic.APIStatusError) as caught:
        claude.with_options(max_retries=0).messages.create(
            **ASK, extra_headers={"x-sim-force": f"fault={fault}"}
        )
    error = caught.value
    assert (status, kind) == (error.status_code, error.body["error"]["type"])
    assert error.body["request_id"] == error.response.headers["request-id"]
    assert (fault == "spend_limit") == ("details" in error.body["error"])
    assert (fault in ("400", "spend_limit")) == ("retry-after-ms" not in error.response.headers)


def test_retries_are_honoured(claude: Any, sim: Any) -> None:
    """429, then 529, then an answer: three attempts of one call."""
    message = claude.messages.create(**ASK, extra_headers={"x-sim-force": "fault=429,529", "x-sim-call": "a"})
    assert message.content
    seen = [(r["call"], r.get("attempt", 0), r["status"]) for r in sim.truth()]
    assert [("a", 0, 429), ("a", 1, 529), ("a", 2, 200)] == seen


def test_an_error_inside_a_stream(claude: Any, sim: Any) -> None:
    """It comes after a 200, with the type in the event, and is not tried again."""
    with pytest.raises(anthropic.APIStatusError) as caught:
        list(claude.messages.create(**ASK, stream=True, extra_headers={"x-sim-force": "fault=stream_error"}))
    (record,) = sim.truth()
    assert (200, "overloaded_error") == (caught.value.status_code, caught.value.body["error"]["type"])
    assert ("stream_error", "start") == (record["ending"], record["usage_sent"])


def test_a_stream_without_its_end(claude: Any, sim: Any) -> None:
    """The body ends properly, the message does not."""
    events = list(claude.messages.create(**ASK, stream=True, extra_headers={"x-sim-force": "fault=no_stop"}))
    assert not {"message_delta", "message_stop"} & {e.type for e in events}
    assert "no_stop" == sim.truth()[0]["ending"]


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize("fault", ["drop", "disconnect", "malformed_json"])
def test_broken_answers_break_the_client(claude: Any, sim: Any, fault: str, stream: bool) -> None:
    """A connection that ends midway or at once, and a body that is no JSON."""
    once = claude.with_options(max_retries=0)
    with pytest.raises(Exception) as caught:  # noqa: PT011 - its class depends on the client's generation
        read(once.messages.create(**ASK, stream=stream, extra_headers={"x-sim-force": f"fault={fault}"}))
    seen = [(r["ending"], r["fault"]) for r in sim.truth()]
    assert [(fault.removesuffix("_json"), fault)] == seen, repr(caught.value)


@pytest.mark.parametrize(("fault", "stream"), [("slow_headers", False), ("stall", True)])
def test_read_timeouts(claude: Any, sim: Any, fault: str, stream: bool) -> None:
    """The answer is too late for a client that waits a tenth of a second."""
    impatient = claude.with_options(max_retries=0, timeout=0.1)
    with pytest.raises(Exception, match=r"(?i)timed out|timeout"):
        read(impatient.messages.create(**ASK, stream=stream, extra_headers={"x-sim-force": f"fault={fault}"}))
    assert fault == sim.truth()[0]["fault"]


@pytest.mark.parametrize(
    ("stream", "expected"), [(True, ("client_closed", "start")), (False, ("client_closed", "none"))]
)
def test_a_client_that_leaves_is_noticed(stream: bool, expected: tuple[str, str]) -> None:
    """In the midst of a stream, or before the answer has begun; what was told until then is known."""
    with (
        running(parse("[latency]\nfull_ms = [600, 600]\n[symbolic]\nenabled = true\nhit_rate = 0.0")) as slow,
        anthropic.Anthropic(base_url=slow.url, api_key="k", max_retries=0) as client,
    ):
        if stream:
            with client.messages.create(**ASK, stream=True) as events:
                next(iter(events))
        else:
            with pytest.raises(anthropic.APITimeoutError):
                client.messages.create(**ASK, timeout=0.1)
        (record,) = slow.truth()
    assert expected == (record["ending"], record["usage_sent"])
    assert stream == record["mechanisms"]["symbolic"]["visible"]


def test_requests_that_break_a_rule(claude: Any) -> None:
    """A sampling parameter in the newest API version, and a request without messages."""
    with pytest.raises(anthropic.BadRequestError, match="temperature"):
        claude.messages.create(
            **ASK, extra_body={"temperature": 0.5}, extra_headers={"anthropic-version": "2026-10-21"}
        )
    with pytest.raises(anthropic.BadRequestError, match="messages"):
        claude.messages.create(**{**ASK, "messages": []})


def test_the_async_client(sim: Any) -> None:
    """Many calls at once, streamed and not: each is in the truth log once."""

    async def main() -> None:
        async with anthropic.AsyncAnthropic(base_url=sim.url, api_key="k") as client:

            async def one(number: int) -> None:
                answer = await client.messages.create(
                    **ASK, stream=number % 2 == 1, extra_headers={"x-sim-call": f"c{number}"}
                )
                if number % 2:
                    async for _ in answer:
                        pass

            await asyncio.gather(*[one(n) for n in range(30)])

    asyncio.run(main())
    records = sim.truth()
    assert {f"c{n}" for n in range(30)} == {r["call"] for r in records}
    assert (30, {"complete"}) == (len(records), {r["ending"] for r in records})


def test_rate_limit_headers_count_down(claude: Any) -> None:
    """All four resources, resets as RFC 3339 times, less remaining than the limit."""
    left = []
    for _ in range(3):
        headers = claude.messages.with_raw_response.create(**ASK).headers
        left.append(int(headers["anthropic-ratelimit-requests-remaining"]))
        for resource in ("requests", "tokens", "input-tokens", "output-tokens"):
            prefix = f"anthropic-ratelimit-{resource}"
            assert int(headers[f"{prefix}-remaining"]) <= int(headers[f"{prefix}-limit"])
            assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ", headers[f"{prefix}-reset"])
    assert all(3990 <= n < 4000 for n in left)
