"""OpenAI and its look-alikes: usage inside the prompt, streams with and without it, errors."""

from __future__ import annotations

from typing import Any

import pytest

from tests.extract.build import CHAT, RESPONSES, answer, dumps, reader, sse, tokens

ASKED = {"model": "gpt-5", "messages": [{"role": "user", "content": "x"}]}
V = {
    "prompt_tokens": 100,
    "completion_tokens": 30,
    "total_tokens": 130,
    "prompt_tokens_details": {"cached_tokens": 80},
    "completion_tokens_details": {"reasoning_tokens": 10},
}


def streamed(usage: bool | None) -> dict[str, Any]:
    """A request for a stream, with or without usage."""
    return {**ASKED, "stream": True} | ({} if usage is None else {"stream_options": {"include_usage": usage}})


def chunk(choices: list[dict[str, Any]], **more: Any) -> dict[str, Any]:
    """A chunk of a chat stream."""
    return {
        "id": "chatcmpl-1",
        "object": "chat.completion.chunk",
        "model": "gpt-5-2025",
        "choices": choices,
        **more,
    }


def said(delta: dict[str, Any], reason: str | None = None, index: int = 0) -> list[dict[str, Any]]:
    """One choice of a chunk."""
    return [{"index": index, "delta": delta, "finish_reason": reason}]


ROLE = chunk(said({"role": "assistant", "content": ""}))
A, B = chunk(said({"content": "a"})), chunk(said({"content": "b"}))
END = chunk(said({}, "stop"))
USAGE = chunk([], usage=V)
COMPLETION = {
    "id": "chatcmpl-1",
    "model": "gpt-5-2025",
    "usage": V,
    "service_tier": "default",
    "choices": [{"index": 0, "message": {"role": "assistant", "content": "hello"}, "finish_reason": "stop"}],
}


@pytest.mark.parametrize(
    ("usage", "expected", "noted"),
    [
        (V, (100, 80, None, 30), []),
        (V | {"prompt_tokens_details": None}, (100, None, None, 30), []),
        (V | {"prompt_tokens_details": {"cached_tokens": 120}}, (100, None, None, 30), ["usage"]),
        (
            V | {"prompt_tokens_details": {"cached_tokens": 60, "cache_write_tokens": 60}},
            (100, None, None, 30),
            ["usage"],
        ),
        (V | {"prompt_tokens_details": {"cached_tokens": -1}}, (100, None, None, 30), ["usage"]),
        (
            {
                "prompt_tokens": 366,
                "completion_tokens": 5,
                "prompt_cache_hit_tokens": 256,
                "prompt_cache_miss_tokens": 110,
            },
            (366, 256, None, 5),
            [],
        ),
        ([], (None, None, None, None), ["usage"]),
        (None, (None, None, None, None), []),
    ],
)
def test_cached_tokens_are_inside(usage: Any, expected: tuple[int | None, ...], noted: list[str]) -> None:
    """Casebook 03: parts lie inside the prompt; those that exceed it are left out, and noted."""
    facts = answer(CHAT, ASKED, dumps(COMPLETION | {"usage": usage}))
    assert expected == tokens(facts)
    assert noted == facts.malformed


def test_reasoning_is_inside_the_output() -> None:
    """Reasoning tokens are part of the output, and not more than it."""
    facts = answer(CHAT, ASKED, dumps(COMPLETION))
    assert (30, 10) == (facts.output_tokens, facts.reasoning_tokens)
    wrong = V | {"completion_tokens_details": {"reasoning_tokens": 31}}
    facts = answer(CHAT, ASKED, dumps(COMPLETION | {"usage": wrong}))
    assert (30, None, ["usage"]) == (facts.output_tokens, facts.reasoning_tokens, facts.malformed)


def test_stream_without_usage() -> None:
    """Casebook 04: no usage asked for, none sent, none invented; the stream is complete all the same."""
    facts = answer(CHAT, streamed(None), sse(ROLE, A, B, END, "[DONE]"))
    assert (None, None, None, None) == tokens(facts)
    assert (False, False, True, 5) == (
        facts.usage_requested,
        facts.usage_seen,
        facts.terminal,
        facts.sse_events,
    )


@pytest.mark.parametrize("null", [False, True])
def test_stream_with_usage(null: bool) -> None:
    """Casebook 04: the last chunk holds the usage, the ones before may say null."""
    events = [one | ({"usage": None} if null else {}) for one in (ROLE, A, B, END)]
    facts = answer(CHAT, streamed(True), sse(*events, USAGE, "[DONE]"))
    assert (100, 80, None, 30) == tokens(facts)
    assert (True, True, True, ["stop"]) == (
        facts.usage_requested,
        facts.usage_seen,
        facts.output_final,
        facts.finish_reasons,
    )
    assert ("chatcmpl-1", "gpt-5-2025") == (facts.response_id, facts.response_model)


def test_usage_is_final_when_it_comes_alone() -> None:
    """Some send no finish reason: the chunk without choices is the last word, one with choices is not."""
    facts = answer(CHAT, streamed(True), sse(ROLE, A, USAGE))
    assert (100, True, True) == (facts.input_tokens, facts.usage_seen, facts.output_final)
    facts = answer(CHAT, streamed(True), sse(ROLE, A | {"usage": V}))
    assert (30, False, False) == (facts.output_tokens, facts.usage_seen, facts.output_final)


def test_content_begins_after_the_role() -> None:
    """Casebook 08: a chunk with a role only is no content."""
    facts = answer(CHAT, streamed(True), sse(ROLE), sse(A), sse(B, END, USAGE, "[DONE]"))
    assert (1.0, 2.0, 2) == (facts.first_content_at, facts.last_content_at, facts.content_events)


@pytest.mark.parametrize(
    ("delta", "expected"),
    [
        ({"content": "a"}, 1),
        ({"content": ""}, 0),
        ({"content": None}, 0),
        ({}, 0),
        ({"reasoning_content": "a"}, 1),
        ({"reasoning": "a"}, 1),
        ({"refusal": "a"}, 1),
        ({"refusal": ""}, 0),
        ({"tool_calls": [{"index": 0}]}, 1),
        ({"tool_calls": []}, 0),
        ({"tool_calls": None, "content": "a"}, 1),
        ({"function_call": {"arguments": "a"}}, 1),
        ({"content": [{"type": "text", "text": "a"}]}, 1),
        ({"content": [{"type": "thinking", "thinking": [1]}]}, 1),
    ],
)
def test_what_is_content(delta: dict[str, Any], expected: int) -> None:
    """Text, reasoning, refusals and tool calls are content, the first time and later."""
    facts = answer(CHAT, streamed(None), sse(chunk(said(delta))), sse(chunk(said(delta))))
    assert 2 * expected == facts.content_events


def test_done_is_not_sent_by_all() -> None:
    """Without [DONE] the end of the last choice is the end, once the usage that was asked for has come."""
    assert answer(CHAT, streamed(None), sse(ROLE, A, END)).terminal
    assert answer(CHAT, streamed(True), sse(ROLE, A, END, USAGE)).terminal
    assert not answer(CHAT, streamed(True), sse(ROLE, A, END)).terminal
    assert not answer(CHAT, streamed(None), sse(ROLE, A)).terminal
    assert not answer(CHAT, streamed(None), sse(ROLE, A, END), complete=False).terminal


@pytest.mark.parametrize(
    ("event", "expected"),
    [
        (sse({"error": {"message": "boom", "type": "server_error", "code": "x"}}), ("server_error", "x")),
        (
            sse({"error": {"message": "boom", "type": "server_error", "code": "x"}}, name="error"),
            ("server_error", "x"),
        ),
        (sse({"message": "boom", "type": "bad", "code": 40303}, name="error"), ("bad", "40303")),
        (
            sse({"object": "error", "message": "boom", "type": "BadRequestError", "code": 400}),
            ("BadRequestError", "400"),
        ),
        (sse(chunk([], x_groq={"error": "boom"})), (None, None)),
        (sse(chunk(said({"content": ""}, "error"), error={"code": 502, "message": "boom"})), (None, "502")),
    ],
)
def test_errors_inside_a_200(event: bytes, expected: tuple[str | None, str | None]) -> None:
    """Casebook 13: an error in a stream, by its own event or a chunk, in all its shapes."""
    facts = answer(CHAT, streamed(None), sse(ROLE, A), event)
    assert (*expected, True, False) == (
        facts.error_type,
        facts.error_code,
        facts.stream_error,
        facts.terminal,
    )
    assert "boom" == facts.error_message


@pytest.mark.parametrize(
    ("body", "headers", "expected"),
    [
        (
            {"error": {"type": "insufficient_quota", "code": "credit_balance_exhausted", "message": "m"}},
            {},
            ("insufficient_quota", "credit_balance_exhausted"),
        ),
        (
            {"error": {"code": "RateLimitReached", "message": "m"}},
            {},
            ("RateLimitReached", "RateLimitReached"),
        ),
        ({"error": {"code": "401", "message": "m"}}, {}, (None, "401")),
        ({"error": {"code": 429, "message": "m"}}, {}, (None, "429")),
        (
            {"error": {"code": 400, "status": "INVALID_ARGUMENT", "message": "m"}},
            {},
            ("INVALID_ARGUMENT", "400"),
        ),
        (
            [{"error": {"code": 400, "status": "INVALID_ARGUMENT", "message": "m"}}],
            {},
            ("INVALID_ARGUMENT", "400"),
        ),
        ({"code": "invalid-argument", "error": "m"}, {}, ("invalid-argument", "invalid-argument")),
        ({"error": "m"}, {}, (None, None)),
        ({"detail": "m"}, {}, (None, None)),
        (
            {"message": "m"},
            {"x-amzn-errortype": "ThrottlingException:http://internal/"},
            ("ThrottlingException", None),
        ),
        ({"error": {"type": "please, help\nme", "message": "m"}}, {}, ("other", None)),
        ({"error": {"type": "x" * 65, "message": "m"}}, {}, ("other", None)),
    ],
)
def test_error_bodies(body: Any, headers: dict[str, str], expected: tuple[str | None, str | None]) -> None:
    """The type of an error by the corpus's rule; free text never becomes one."""
    facts = answer(
        CHAT, ASKED, dumps(body), status=429, headers={"content-type": "application/json"} | headers
    )
    assert (*expected, False, "m") == (
        facts.error_type,
        facts.error_code,
        facts.stream_error,
        facts.error_message,
    )


@pytest.mark.parametrize("body", [b"", b"<html>502</html>", b"{", b"null", b"[]", b'"x"'])
def test_error_bodies_that_say_nothing(body: bytes) -> None:
    """No type is made up for an error without one."""
    facts = answer(CHAT, ASKED, body, status=502, headers={"content-type": "text/html"})
    assert (None, None, []) == (facts.error_type, facts.error_message, facts.malformed)


def test_two_choices_and_their_reasons() -> None:
    """Finish reasons stand in the order of the choices' indexes."""
    facts = answer(
        CHAT, streamed(None), sse(chunk(said({}, "length", 1)), chunk(said({}, "stop", 0)), "[DONE]")
    )
    assert ["stop", "length"] == facts.finish_reasons


def test_modalities_add_up() -> None:
    """Tokens by modality add up to the whole; text alone is not spelled out."""
    usage = V | {
        "prompt_tokens_details": {"audio_tokens": 40, "image_tokens": 10},
        "completion_tokens_details": {"audio_tokens": 0},
    }
    facts = answer(CHAT, ASKED, dumps(COMPLETION | {"usage": usage}))
    assert {"text": 50, "image": 10, "audio": 40} == facts.input_tokens_by_modality
    assert facts.output_tokens_by_modality is None


@pytest.mark.parametrize(
    ("usage", "expected"),
    [
        ({"cost": 0.0145}, 0.0145),
        ({"cost": {"total_cost": 0.00501}}, 0.00501),
        ({"cost_in_usd_ticks": 12_500_000}, 0.00125),
        ({"cost": "1"}, None),
        ({"cost": -1}, None),
        ({"cost": True}, None),
    ],
)
def test_cost_reported(usage: dict[str, Any], expected: float | None) -> None:
    """What the provider says it bills, in USD."""
    assert expected == answer(CHAT, ASKED, dumps(COMPLETION | {"usage": V | usage})).cost_reported


# --- Responses ----------------------------------------------------------------------------------

INPUT = {"model": "gpt-5", "input": "x"}
R_USAGE = {
    "input_tokens": 100,
    "output_tokens": 30,
    "total_tokens": 130,
    "input_tokens_details": {"cached_tokens": 60, "cache_write_tokens": 25},
    "output_tokens_details": {"reasoning_tokens": 10},
}


def response(status: str = "completed", **more: Any) -> dict[str, Any]:
    """A response object."""
    return {
        "id": "resp_1",
        "object": "response",
        "model": "gpt-5-2025",
        "status": status,
        "usage": R_USAGE,
        **more,
    }


def event(kind: str, **more: Any) -> dict[str, Any]:
    """An event of a Responses stream."""
    return {"type": "response." + kind, "sequence_number": 1, **more}


CREATED = event("created", response=response("in_progress", usage=None))


def test_responses_plain() -> None:
    """Casebook 03 (b): cached and written tokens lie inside the input."""
    output = [{"type": "message", "content": [{"type": "output_text", "text": "hi"}]}]
    facts = answer(RESPONSES, INPUT, dumps(response(output=output)))
    assert (100, 60, 25, 30) == tokens(facts)
    assert ("resp_1", True, True) == (facts.response_id, facts.has_content, facts.terminal)


@pytest.mark.parametrize("end", ["completed", "incomplete", "failed"])
def test_responses_ends(end: str) -> None:
    """Each terminal event carries the usage."""
    more = {"error": {"code": "rate_limit_exceeded", "message": "m"}} if end == "failed" else {}
    last = event(end, response=response(end, **more))
    facts = answer(
        RESPONSES,
        INPUT | {"stream": True},
        sse(CREATED),
        sse(event("output_text.delta", delta="a")),
        sse(last),
    )
    assert (100, 60, 25, 30) == tokens(facts)
    assert (True, True, 1) == (facts.terminal, facts.usage_seen, facts.content_events)
    assert ("rate_limit_exceeded" if more else None, bool(more)) == (facts.error_type, facts.stream_error)


@pytest.mark.parametrize(
    ("kind", "expected"),
    [
        ("output_text.delta", 1),
        ("reasoning_summary_text.delta", 1),
        ("function_call_arguments.delta", 1),
        ("refusal.delta", 1),
        ("output_text.done", 0),
        ("content_part.added", 0),
    ],
)
@pytest.mark.parametrize("named", [True, False])
def test_responses_content(kind: str, expected: int, named: bool) -> None:
    """Deltas are content, named by their event line or by their type alone; an empty one is not."""
    stream = sse(event(kind, delta="a"), event(kind, delta=""))
    if not named:
        stream = b"\n".join(line for line in stream.split(b"\n") if not line.startswith(b"event:"))
    assert expected == answer(RESPONSES, INPUT | {"stream": True}, sse(CREATED), stream).content_events


def test_responses_error_event() -> None:
    """An error event has a code, no usage, and ends without a terminal event."""
    error = {"type": "error", "code": "server_error", "message": "boom", "param": None}
    facts = answer(RESPONSES, INPUT | {"stream": True}, sse(CREATED, error))
    assert ("server_error", True, False, None) == (
        facts.error_type,
        facts.stream_error,
        facts.terminal,
        facts.input_tokens,
    )


@pytest.mark.parametrize(
    ("diagnostics", "expected"),
    [
        ({"type": "cache_miss", "reason": "tools_changed"}, "tools_changed"),
        ({"cache_miss": {"reason": "input_changed"}}, "input_changed"),
        ({"type": "unavailable"}, "unavailable"),
        ({"type": "cache_hit"}, None),
        ("cache_hit", None),
        (None, None),
        (7, None),
    ],
)
def test_cache_diagnosis(diagnostics: Any, expected: str | None) -> None:
    """The vendor's word for a prompt-cache miss, in whichever of its shapes."""
    assert (
        expected
        == answer(RESPONSES, INPUT, dumps(response(prompt_cache_diagnostics=diagnostics))).cache_diagnosis
    )


def test_background_is_queued() -> None:
    """A background response states no usage; polling it is no call."""
    facts = answer(RESPONSES, INPUT | {"background": True}, dumps(response("queued", usage=None)))
    assert (None, False, True) == (facts.input_tokens, facts.usage_seen, facts.terminal)


# --- other APIs ---------------------------------------------------------------------------------


def test_embeddings() -> None:
    """Embeddings have input tokens only; a total alone is the input."""
    url = "https://api.openai.com/v1/embeddings"
    facts = answer(
        url, INPUT, dumps({"model": "e", "data": [], "usage": {"prompt_tokens": 8, "total_tokens": 8}})
    )
    assert ("embeddings", 8, None, True, False) == (
        facts.operation,
        facts.input_tokens,
        facts.output_tokens,
        facts.usage_seen,
        facts.inference,
    )
    facts = answer(
        "https://api.voyageai.com/v1/embeddings", INPUT, dumps({"model": "e", "usage": {"total_tokens": 9}})
    )
    assert ("voyageai", 9) == (facts.provider, facts.input_tokens)


def test_multipart_names_its_model() -> None:
    """The model of a form is found at either end of the body, without reading the file in it."""
    field = b'--b\r\nContent-Disposition: form-data; name="model"\r\n\r\nwhisper-1\r\n'
    file = (
        b'--b\r\nContent-Disposition: form-data; name="file"; filename="a"\r\n'
        b"Content-Type: audio/mpeg\r\n\r\n" + bytes(200_000) + b"\r\n"
    )
    headers = {"content-type": "multipart/form-data; boundary=b"}
    for body in (field + file + b"--b--\r\n", file + field + b"--b--\r\n"):
        found = reader("https://api.openai.com/v1/audio/transcriptions", body, headers)
        assert found is not None
        assert ("whisper-1", "other", True, False) == (
            found.facts.request_model,
            found.facts.operation,
            found.facts.llm_call,
            found.facts.inference,
        )


def test_speech_is_not_read() -> None:
    """Audio is neither text nor a fault."""
    facts = answer(
        "https://api.openai.com/v1/audio/speech",
        {"model": "tts", "input": "x"},
        b"\xff\xf3" + bytes(5000),
        headers={"content-type": "audio/mpeg"},
    )
    assert ([], None) == (facts.malformed, facts.input_tokens)
