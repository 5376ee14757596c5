"""The official OpenAI client over loopback."""

from __future__ import annotations

import re
from typing import Any

import pytest

openai = pytest.importorskip("openai")

MESSAGES = [{"role": "user", "content": "hello there"}]
LONG = [{"role": "system", "content": "You are the help desk of a bookshop. " * 200}, *MESSAGES]
TOOL = {"name": "look_up", "parameters": {"type": "object", "properties": {"title": {"type": "string"}}}}
MODEL = "gpt-6.1-sol"


def force(**outcomes: object) -> dict[str, str]:
    """The request header that forces outcomes."""
    return {"x-sim-force": ";".join(f"{k}={v}" for k, v in outcomes.items())}


def test_chat(gpt: Any, sim: Any) -> None:
    """A chat completion with the usage of the truth log."""
    answer = gpt.chat.completions.create(model=MODEL, messages=MESSAGES)
    (record,) = sim.truth()
    assert "stop" == answer.choices[0].finish_reason
    assert (record["input_tokens"], record["output_tokens"]) == (
        answer.usage.prompt_tokens,
        answer.usage.completion_tokens,
    )
    assert answer.usage.total_tokens == answer.usage.prompt_tokens + answer.usage.completion_tokens


@pytest.mark.parametrize("wanted", [True, False])
def test_chat_stream_says_usage_only_when_asked(gpt: Any, sim: Any, wanted: bool) -> None:
    """With ``include_usage`` a last chunk without choices; else nothing."""
    options = {"stream_options": {"include_usage": True}} if wanted else {}
    chunks = list(gpt.chat.completions.create(model=MODEL, messages=MESSAGES, stream=True, **options))
    assert wanted == (chunks[-1].usage is not None)
    assert wanted == (chunks[-1].choices == [])
    assert ("full" if wanted else "not_requested") == sim.truth()[0]["usage_sent"]
    assert all(c.usage is None for c in chunks[:-1])


@pytest.mark.parametrize("stream", [True, False])
def test_chat_tools(gpt: Any, stream: bool) -> None:
    """A tool call with arguments by the schema."""
    asked: dict[str, Any] = {
        "model": MODEL,
        "messages": MESSAGES,
        "tools": [{"type": "function", "function": TOOL}],
    }
    if stream:
        chunks = list(gpt.chat.completions.create(**asked, stream=True, extra_headers=force(tool=1)))
        calls = [c.choices[0].delta.tool_calls[0] for c in chunks if c.choices[0].delta.tool_calls]
        name, arguments = calls[0].function.name, "".join(c.function.arguments for c in calls)
        finish = chunks[-1].choices[0].finish_reason
    else:
        choice = gpt.chat.completions.create(**asked, extra_headers=force(tool=1)).choices[0]
        call = choice.message.tool_calls[0].function
        name, arguments, finish = call.name, call.arguments, choice.finish_reason
    assert ("look_up", "tool_calls") == (name, finish)
    assert arguments.startswith('{"title":')


def test_prompt_cache_is_automatic(gpt: Any, sim: Any) -> None:
    """From 1024 tokens, in steps of 128, inside the prompt tokens; written tokens are told."""
    first, second = (gpt.chat.completions.create(model=MODEL, messages=LONG).usage for _ in range(2))
    assert (0, 1792) == (
        first.prompt_tokens_details.cached_tokens,
        second.prompt_tokens_details.cached_tokens,
    )
    assert 1792 == first.prompt_tokens_details.cache_write_tokens
    assert first.prompt_tokens == second.prompt_tokens
    assert ["miss", "hit"] == [r["mechanisms"]["prompt_cache"]["verdict"] for r in sim.truth()]


def test_short_prompts_are_not_cached(gpt: Any, sim: Any) -> None:
    """Below 1024 tokens there is no verdict."""
    gpt.chat.completions.create(model=MODEL, messages=MESSAGES)
    assert {} == sim.truth()[0]["mechanisms"]


def test_why_the_prompt_cache_missed(gpt: Any, sim: Any) -> None:
    """First use, another model, another system prompt, expired."""
    other = [{"role": "system", "content": "Other. " + LONG[0]["content"]}, *MESSAGES]
    gpt.chat.completions.create(model=MODEL, messages=LONG)
    gpt.chat.completions.create(model="gpt-6-sol", messages=LONG)
    gpt.chat.completions.create(model=MODEL, messages=other)
    sim.advance(301)
    gpt.chat.completions.create(model=MODEL, messages=LONG)
    reasons = [r["mechanisms"]["prompt_cache"]["reason"] for r in sim.truth()]
    assert ["first_use", "model_changed", "system_changed", "expired"] == reasons


def test_responses(gpt: Any) -> None:
    """Text, usage and status; the terminal event of a stream carries the same."""
    headers = {"x-sim-call": "one"}
    plain = gpt.responses.create(model=MODEL, input="hello", extra_headers=headers)
    with gpt.responses.stream(model=MODEL, input="hello", extra_headers=headers) as stream:
        streamed = stream.get_final_response()
    assert ("completed", plain.output_text) == (plain.status, streamed.output_text)
    assert plain.usage == streamed.usage


def test_responses_that_are_cut(gpt: Any) -> None:
    """Incomplete, with the reason."""
    answer = gpt.responses.create(
        model=MODEL, input="hello", max_output_tokens=3, extra_headers=force(output=50)
    )
    assert ("incomplete", "max_output_tokens") == (answer.status, answer.incomplete_details.reason)


def test_responses_events(gpt: Any) -> None:
    """Typed events, numbered without a gap, from created to completed."""
    tool = {"type": "function", "strict": False, **TOOL}
    events = list(
        gpt.responses.create(model=MODEL, input="x", tools=[tool], stream=True, extra_headers=force(tool=1))
    )
    assert list(range(len(events))) == [e.sequence_number for e in events]
    assert ("response.created", "response.completed") == (events[0].type, events[-1].type)
    assert {"response.output_text.delta", "response.function_call_arguments.delta"} <= {
        e.type for e in events
    }


def test_embeddings(gpt: Any, sim: Any) -> None:
    """One vector per input, as base64 or as floats."""
    one = gpt.embeddings.create(
        model="text-embedding-3-small", input=["a", "b"], extra_headers={"x-sim-call": "e"}
    )
    two = gpt.embeddings.create(
        model="text-embedding-3-small",
        input=["a", "b"],
        encoding_format="float",
        extra_headers={"x-sim-call": "e"},
    )
    assert 2 == len(one.data) == sim.truth()[0]["input_tokens"]
    assert one.data[0].embedding == pytest.approx(two.data[0].embedding, abs=1e-6)


@pytest.mark.parametrize(
    ("fault", "status", "code"),
    [
        ("429", 429, "rate_limit_exceeded"),
        ("500", 500, None),
        ("529", 503, "slow_down"),
        ("spend_limit", 429, "organization_spend_limit_exceeded"),
    ],
)
def test_errors_in_the_vendors_shape(gpt: Any, fault: str, status: int, code: str | None) -> None:
    """Type and code as documented."""
    with pytest.raises(openai.APIStatusError) as caught:
        gpt.with_options(max_retries=0).responses.create(
            model=MODEL, input="x", extra_headers=force(fault=fault)
        )
    assert (status, code) == (caught.value.status_code, caught.value.code)


def test_retries_are_honoured(gpt: Any, sim: Any) -> None:
    """429, then an answer."""
    gpt.chat.completions.create(model=MODEL, messages=MESSAGES, extra_headers=force(fault="429"))
    assert [429, 200] == [r["status"] for r in sim.truth()]


@pytest.mark.parametrize("fault", ["stream_error", "drop", "disconnect", "malformed_json"])
def test_broken_streams_say_no_usage(gpt: Any, sim: Any, fault: str) -> None:
    """The usage comes last, so a broken stream has none."""
    with pytest.raises(Exception) as caught:  # noqa: PT011 - its class depends on the client's generation
        list(
            gpt.with_options(max_retries=0).chat.completions.create(
                model=MODEL,
                messages=MESSAGES,
                stream=True,
                stream_options={"include_usage": True},
                extra_headers=force(fault=fault),
            )
        )
    assert [("none", fault)] == [(r["usage_sent"], r["fault"]) for r in sim.truth()], repr(caught.value)


def test_rate_limit_headers(gpt: Any) -> None:
    """Resets are durations in Go's form, not dates; the request id is there."""
    headers = gpt.chat.completions.with_raw_response.create(model=MODEL, messages=MESSAGES).headers
    for resource in ("requests", "tokens"):
        assert int(headers[f"x-ratelimit-remaining-{resource}"]) < int(
            headers[f"x-ratelimit-limit-{resource}"]
        )
        assert re.fullmatch(r"(\d+m)?[\d.]+s|\d+ms", headers[f"x-ratelimit-reset-{resource}"])
    assert headers["x-request-id"].startswith("req_")
