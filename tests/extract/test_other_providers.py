"""Gemini, Bedrock, Cohere, Ollama, watsonx: what the recorded exchanges do not show."""

from __future__ import annotations

from base64 import b64encode
from typing import Any

import pytest

from tests.extract.build import answer, dumps, sse, tokens
from tests.extract.test_framing import frame

GEMINI = "https://generativelanguage.googleapis.com/v1beta/models/g:streamGenerateContent"
GENERATE = "https://generativelanguage.googleapis.com/v1beta/models/g:generateContent"
BEDROCK = "https://bedrock-runtime.us-east-1.amazonaws.com/model/"
COHERE = "https://api.cohere.com/v2/chat"
OLLAMA = "http://localhost:11434/api/chat"
FRAMES = {"content-type": "application/vnd.amazon.eventstream"}
LINES = {"content-type": "application/x-ndjson"}
CHAT = {"model": "m", "messages": [{"role": "user", "content": "x"}]}


def gemini(*parts: Any, finish: str | None = None, **usage: Any) -> dict[str, Any]:
    """A chunk of Gemini."""
    candidate = {"content": {"parts": list(parts)}, "index": 0} | ({"finishReason": finish} if finish else {})
    return {"candidates": [candidate], "modelVersion": "g-1", "responseId": "r"} | (
        {"usageMetadata": usage} if usage else {}
    )


FIRST = gemini({"text": "hmm", "thought": True}, promptTokenCount=10, thoughtsTokenCount=3)
LAST = gemini(
    {"text": "hi"},
    finish="STOP",
    promptTokenCount=10,
    candidatesTokenCount=2,
    thoughtsTokenCount=5,
    toolUsePromptTokenCount=7,
    cachedContentTokenCount=4,
)


def test_gemini_counts() -> None:
    """Each chunk holds a running total; tool results are input, thoughts are output."""
    facts = answer(GEMINI, {}, sse(FIRST), sse(LAST))
    assert (17, 4, None, 7) == tokens(facts)
    assert (5, ["STOP"], True, True) == (
        facts.reasoning_tokens,
        facts.finish_reasons,
        facts.usage_seen,
        facts.terminal,
    )
    assert (2, 0.0) == (facts.content_events, facts.first_content_at)


def test_gemini_cut() -> None:
    """A stream that was cut states a running total, which is not the last word."""
    facts = answer(GEMINI, {}, sse(FIRST))
    assert (10, 3) == (facts.input_tokens, facts.output_tokens)
    assert (False, False, False) == (facts.usage_seen, facts.output_final, facts.terminal)


def test_gemini_stream_as_a_list() -> None:
    """Without alt=sse a stream is one JSON list of chunks."""
    facts = answer(GEMINI, {}, b"[" + dumps(FIRST) + b",\r\n" + dumps(LAST) + b"]")
    assert (17, 4, None, 7) == tokens(facts)
    assert (True, True, None) == (facts.stream, facts.has_content, facts.first_content_at)


def test_gemini_blocked_prompt() -> None:
    """A blocked prompt is an answer without candidates."""
    facts = answer(
        GENERATE,
        {},
        dumps({"promptFeedback": {"blockReason": "SAFETY"}, "usageMetadata": {"promptTokenCount": 3}}),
    )
    assert (3, None, True, False) == (
        facts.input_tokens,
        facts.output_tokens,
        facts.terminal,
        facts.has_content,
    )


def test_gemini_modalities() -> None:
    """Tokens by modality add up to the whole; kinds without a name of ours are unknown."""
    details = [
        {"modality": "TEXT", "tokenCount": 2},
        {"modality": "IMAGE", "tokenCount": 5},
        {"modality": "VIDEO", "tokenCount": 1},
    ]
    facts = answer(
        GENERATE,
        {},
        dumps(
            gemini(
                {"text": "x"},
                finish="STOP",
                promptTokenCount=10,
                candidatesTokenCount=1,
                promptTokensDetails=details,
            )
        ),
    )
    assert {"image": 5, "unknown": 1, "text": 4} == facts.input_tokens_by_modality
    assert facts.output_tokens_by_modality is None


def test_gemini_error_in_a_stream() -> None:
    """An error chunk of a 200 stream is the provider's error."""
    facts = answer(GEMINI, {}, sse(FIRST, {"error": {"code": 503, "status": "UNAVAILABLE", "message": "m"}}))
    assert ("UNAVAILABLE", True, False) == (facts.error_type, facts.stream_error, facts.terminal)


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        (
            {
                "predictions": [
                    {"embeddings": {"statistics": {"token_count": 4}}},
                    {"embeddings": {"statistics": {"token_count": 5.0}}},
                ]
            },
            9,
        ),
        ({"predictions": [{"embeddings": {"statistics": {"token_count": 4}}}, {"embeddings": {}}]}, None),
        ({"predictions": []}, None),
    ],
)
def test_vertex_embeddings(body: Any, expected: int | None) -> None:
    """The tokens of all texts together, or nothing when one of them is not stated."""
    url = "https://aiplatform.googleapis.com/v1/projects/p/locations/l/publishers/google/models/text-embedding-005:predict"
    assert expected == answer(url, {"instances": []}, dumps(body)).input_tokens


def event(kind: str, body: Any) -> bytes:
    """A frame of a Converse stream."""
    return frame(dumps(body), event_type=kind, message_type="event")


USAGE = {
    "inputTokens": 10,
    "outputTokens": 5,
    "cacheReadInputTokens": 100,
    "cacheWriteInputTokens": 20,
    "cacheDetails": [{"ttl": "5m", "inputTokens": 15}, {"ttl": "1h", "inputTokens": 5}],
}
CONVERSE = [
    event("messageStart", {"role": "assistant"}),
    event("contentBlockDelta", {"delta": {"reasoningContent": {"text": "hm"}}}),
    event("contentBlockDelta", {"delta": {"reasoningContent": {"signature": "s"}}}),
    event("contentBlockDelta", {"delta": {"text": "hi"}}),
    event("contentBlockDelta", {"delta": {"toolUse": {"input": "{"}}}),
    event("messageStop", {"stopReason": "end_turn"}),
    event("metadata", {"usage": USAGE, "metrics": {"latencyMs": 1}}),
]


def test_converse_stream() -> None:
    """Input excludes cached and written tokens; the split of writes is by lifetime."""
    facts = answer(BEDROCK + "anthropic.claude-opus-5/converse-stream", {}, *CONVERSE, headers=FRAMES)
    assert (130, 100, 20, 5) == tokens(facts)
    assert (15, 5) == (facts.cache_write_5m_tokens, facts.cache_write_1h_tokens)
    assert (3, 1.0, 4.0, None) == (
        facts.content_events,
        facts.first_content_at,
        facts.last_content_at,
        facts.sse_events,
    )
    assert (["end_turn"], True) == (facts.finish_reasons, facts.terminal)


def test_converse_stream_cut() -> None:
    """Without the last frames nothing is known of usage, and the stream is not complete."""
    facts = answer(BEDROCK + "anthropic.claude-opus-5/converse-stream", {}, *CONVERSE[:4], headers=FRAMES)
    assert (None, None, None, None) == tokens(facts)
    assert not facts.terminal


def test_broken_frame_is_noted() -> None:
    """A frame with a wrong checksum is noted; what follows still counts."""
    bad = bytearray(CONVERSE[3])
    bad[-5] ^= 1
    facts = answer(
        BEDROCK + "anthropic.claude-opus-5/converse-stream", {}, bytes(bad), *CONVERSE[4:], headers=FRAMES
    )
    assert ((130, 100, 20, 5), ["frame"]) == (tokens(facts), facts.malformed)


def invoked(*bodies: Any) -> list[bytes]:
    """Frames of InvokeModelWithResponseStream."""
    return [event("chunk", {"bytes": b64encode(dumps(body)).decode(), "p": "abc"}) for body in bodies]


METRICS = {"amazon-bedrock-invocationMetrics": {"inputTokenCount": 23, "outputTokenCount": 120}}


@pytest.mark.parametrize(
    ("model", "bodies", "expected", "reasons"),
    [
        (
            "meta.llama3",
            [
                {"generation": "a", "prompt_token_count": 7},
                {"generation": "b", "generation_token_count": 2, "stop_reason": "stop"},
            ],
            (7, 2),
            ["stop"],
        ),
        (
            "amazon.titan-text",
            [
                {"outputText": "a", "inputTextTokenCount": 7},
                {"outputText": "b", "totalOutputTextTokenCount": 2, "completionReason": "FINISH"},
            ],
            (7, 2),
            ["FINISH"],
        ),
        (
            "mistral.mistral-7b",
            [
                {"outputs": [{"text": "a", "stop_reason": None}]},
                {"outputs": [{"text": "b", "stop_reason": "length"}]} | METRICS,
            ],
            (23, 120),
            ["length"],
        ),
        (
            "amazon.nova-lite",
            [
                {"contentBlockDelta": {"delta": {"text": "a"}}},
                {"contentBlockDelta": {"delta": {"text": "b"}}},
                {"messageStop": {"stopReason": "end_turn"}},
                {"metadata": {"usage": {"inputTokens": 7, "outputTokens": 2}}},
            ],
            (7, 2),
            ["end_turn"],
        ),
        (
            "openai.gpt-oss-120b",
            [
                {"choices": [{"delta": {"content": "a"}}]},
                {
                    "choices": [{"delta": {"content": "b"}, "finish_reason": "stop"}],
                    "usage": {"prompt_tokens": 7, "completion_tokens": 2},
                },
            ],
            (7, 2),
            ["stop"],
        ),
    ],
)
def test_invoke_streams(model: str, bodies: list[Any], expected: tuple[int, int], reasons: list[str]) -> None:
    """Each vendor's own shape inside the frames."""
    facts = answer(
        BEDROCK + model + "/invoke-with-response-stream", {"prompt": "x"}, *invoked(*bodies), headers=FRAMES
    )
    assert expected == (facts.input_tokens, facts.output_tokens)
    assert (reasons, 2, True, True) == (
        facts.finish_reasons,
        facts.content_events,
        facts.terminal,
        facts.output_final,
    )


@pytest.mark.parametrize(
    ("model", "body", "expected", "reasons"),
    [
        (
            "amazon.titan-text",
            {
                "inputTextTokenCount": 7,
                "results": [{"tokenCount": 2, "outputText": "a", "completionReason": "FINISH"}],
            },
            (7, 2),
            ["FINISH"],
        ),
        (
            "amazon.nova-lite",
            {
                "output": {"message": {"content": [{"text": "a"}]}},
                "stopReason": "end_turn",
                "usage": {"inputTokens": 7, "outputTokens": 2},
            },
            (7, 2),
            ["end_turn"],
        ),
        (
            "ai21.jamba",
            {
                "choices": [{"message": {"content": "a"}, "finish_reason": "stop"}],
                "usage": {"prompt_tokens": 7, "completion_tokens": 2},
            },
            (7, 2),
            ["stop"],
        ),
        ("amazon.titan-embed-text", {"embedding": [0.1], "inputTextTokenCount": 7}, (7, None), []),
    ],
)
def test_invoke(model: str, body: Any, expected: tuple[int, int | None], reasons: list[str]) -> None:
    """Each vendor's own shape in a plain body."""
    facts = answer(BEDROCK + model + "/invoke", {"prompt": "x"}, dumps(body))
    assert (*expected, reasons, True) == (
        facts.input_tokens,
        facts.output_tokens,
        facts.finish_reasons,
        facts.usage_seen,
    )


def test_invoke_headers_count_where_the_body_does_not() -> None:
    """Counts of the headers stand in, and never beside those of a body."""
    headers = {
        "content-type": "application/json",
        "x-amzn-bedrock-input-token-count": "4",
        "x-amzn-bedrock-output-token-count": "9",
    }
    asked = {"messages": [], "anthropic_version": "b"}
    url = BEDROCK + "anthropic.claude-opus-5/invoke"
    facts = answer(url, asked, dumps({"content": []}), headers=headers)
    assert (4, 9) == (facts.input_tokens, facts.output_tokens)
    facts = answer(
        url, asked, dumps({"content": [], "usage": {"input_tokens": 1, "output_tokens": 2}}), headers=headers
    )
    assert (1, 2) == (facts.input_tokens, facts.output_tokens)
    facts = answer(
        url, asked, dumps({"content": []}), headers=headers | {"x-amzn-bedrock-input-token-count": "-4"}
    )
    assert (None, 9, ["usage"]) == (facts.input_tokens, facts.output_tokens, facts.malformed)


@pytest.mark.parametrize("payload", [b"{}", b'{"bytes": 5}', b'{"bytes": "?"}', b"no"])
def test_invoke_payloads_that_are_none(payload: bytes) -> None:
    """A frame that holds no base64 text is noted."""
    facts = answer(
        BEDROCK + "meta.llama3/invoke-with-response-stream",
        {"prompt": "x"},
        frame(payload, event_type="chunk"),
        headers=FRAMES,
    )
    assert ["event"] == facts.malformed


def test_cohere_stream() -> None:
    """Billed units of message-end, as integers though they are stated as doubles."""
    facts = answer(
        COHERE,
        CHAT | {"stream": True},
        sse({"type": "message-start", "id": "c-1"}),
        sse({"type": "content-delta", "delta": {"message": {"content": {"text": "hi"}}}}),
        sse(
            {
                "type": "tool-call-delta",
                "delta": {"message": {"tool_calls": {"function": {"arguments": "{"}}}},
            }
        ),
        sse(
            {
                "type": "message-end",
                "delta": {
                    "finish_reason": "COMPLETE",
                    "usage": {
                        "billed_units": {"input_tokens": 5.0, "output_tokens": 2.0},
                        "tokens": {"input_tokens": 99, "output_tokens": 9},
                    },
                },
            }
        ),
    )
    assert (5, 2, "c-1", ["COMPLETE"], 2, True) == (
        facts.input_tokens,
        facts.output_tokens,
        facts.response_id,
        facts.finish_reasons,
        facts.content_events,
        facts.terminal,
    )


def test_cohere_ends_with_an_error() -> None:
    """A finish reason that is an error is one."""
    facts = answer(
        COHERE,
        CHAT | {"stream": True},
        sse({"type": "message-end", "delta": {"finish_reason": "ERROR_TOXIC"}}),
    )
    assert ("ERROR_TOXIC", True) == (facts.error_type, facts.stream_error)


@pytest.mark.parametrize("value", [5.5, -1.0, 1e300, "5"])
def test_cohere_counts_that_are_none(value: Any) -> None:
    """A double with a fraction or out of range is no count."""
    facts = answer(
        COHERE,
        CHAT,
        dumps({"id": "c", "usage": {"billed_units": {"input_tokens": value, "output_tokens": 1}}}),
    )
    assert (None, 1, ["usage"]) == (facts.input_tokens, facts.output_tokens, facts.malformed)


def line(text: str, **more: Any) -> bytes:
    """A line of Ollama's stream."""
    return (
        dumps({"model": "llama3", "message": {"role": "assistant", "content": text}, "done": False} | more)
        + b"\n"
    )


def test_ollama_cut_and_failed() -> None:
    """Without the last line nothing is known; an error line is the provider's error."""
    facts = answer(OLLAMA, CHAT, line("a"), line("b"), headers=LINES)
    assert (None, None, False, 2) == (
        facts.input_tokens,
        facts.output_tokens,
        facts.terminal,
        facts.content_events,
    )
    facts = answer(OLLAMA, CHAT, line("a"), b'{"error":"out of memory"}\n', headers=LINES)
    assert (True, "out of memory") == (facts.stream_error, facts.error_message)


def test_lines_with_the_label_of_one_document() -> None:
    """Lines of JSON that are labelled as one document are read as lines."""
    last = line("", done=True, done_reason="stop", prompt_eval_count=3, eval_count=4)
    facts = answer(OLLAMA, CHAT, line("a") + last, headers={"content-type": "application/json"})
    assert (3, 4, True, True, []) == (
        facts.input_tokens,
        facts.output_tokens,
        facts.terminal,
        facts.has_content,
        facts.malformed,
    )


def test_last_line_without_an_end() -> None:
    """The last line of a stream needs no line end."""
    last = line("", done=True, prompt_eval_count=3, eval_count=4).rstrip()
    assert (3, 4) == tokens(answer(OLLAMA, CHAT, line("a"), last, headers=LINES))[::3]


@pytest.mark.parametrize(
    ("body", "kind", "streamed"),
    [
        (
            dumps(
                {
                    "id": "c",
                    "model": "m",
                    "choices": [],
                    "usage": {"prompt_tokens": 1, "completion_tokens": 2},
                }
            ),
            "text/event-stream",
            False,
        ),
        (
            b"\xef\xbb\xbf" + dumps({"id": "c", "usage": {"prompt_tokens": 1, "completion_tokens": 2}}),
            "",
            False,
        ),
        (
            b" \n" + dumps({"id": "c", "usage": {"prompt_tokens": 1, "completion_tokens": 2}}),
            "text/plain",
            False,
        ),
        (
            sse({"id": "c", "choices": [], "usage": {"prompt_tokens": 1, "completion_tokens": 2}}, "[DONE]"),
            "application/json",
            True,
        ),
        (
            b": ping\n\n"
            + sse({"id": "c", "choices": [], "usage": {"prompt_tokens": 1, "completion_tokens": 2}}),
            "",
            True,
        ),
    ],
)
@pytest.mark.parametrize("size", [1, 3, 10_000])
def test_bodies_are_not_what_their_label_says(body: bytes, kind: str, streamed: bool, size: int) -> None:
    """Casebook 20: the first bytes decide on the framing, in any chunking."""
    pieces = [body[at : at + size] for at in range(0, len(body), size)]
    facts = answer(
        "https://api.openai.com/v1/chat/completions", CHAT, *pieces, headers={"content-type": kind}
    )
    assert (1, 2, streamed, []) == (facts.input_tokens, facts.output_tokens, facts.stream, facts.malformed)


@pytest.mark.parametrize(
    ("body", "complete", "expected"),
    [
        (b"<html>", True, ["body"]),
        (b'{"id": "c"', True, ["body"]),
        (b'{"id": "c"', False, []),
        (b"", True, []),
        (b"  ", True, []),
        (b"null", True, ["body"]),
        (b"data: nope\n\n", True, ["event"]),
        (b"data:\n\n", True, []),
    ],
)
def test_what_counts_as_malformed(body: bytes, complete: bool, expected: list[str]) -> None:
    """A body that cannot be read is noted, one that was cut short by its reader or is empty is not."""
    pieces = [body] if body else []
    facts = answer(
        "https://api.openai.com/v1/chat/completions",
        CHAT,
        *pieces,
        headers={"content-type": "application/json"},
        complete=complete,
    )
    assert expected == facts.malformed


def test_watsonx_counts() -> None:
    """The input count of the first event stands, the last output count stands."""

    def one(text: str, inp: int, out: int, stop: str) -> bytes:
        return sse(
            {
                "model_id": "i",
                "results": [
                    {
                        "generated_text": text,
                        "input_token_count": inp,
                        "generated_token_count": out,
                        "stop_reason": stop,
                    }
                ],
            },
            name="message",
        )

    url = "https://us-south.ml.cloud.ibm.com/ml/v1/text/generation_stream"
    pieces = [one("", 8, 0, "not_finished"), one("a", 0, 1, "not_finished"), one("", 0, 2, "eos_token")]
    facts = answer(url, {"model_id": "i", "input": "x"}, *pieces)
    assert (8, 2, ["eos_token"], 1, True) == (
        facts.input_tokens,
        facts.output_tokens,
        facts.finish_reasons,
        facts.content_events,
        facts.output_final,
    )
    cut = answer(url, {"model_id": "i", "input": "x"}, *pieces[:2])
    assert (False, False) == (cut.output_final, cut.terminal)


def test_thinking_is_content_and_not_visible() -> None:
    """The first content may be thinking, shown or redacted; the first visible piece is text or tool input."""
    redacted = {"type": "content_block_start", "content_block": {"type": "redacted_thinking", "data": "x"}}
    thought = {"type": "content_block_delta", "delta": {"type": "thinking_delta", "thinking": "x"}}
    text = {"type": "content_block_delta", "delta": {"type": "text_delta", "text": "a"}}
    tool = {"type": "content_block_delta", "delta": {"type": "input_json_delta", "partial_json": "{"}}
    asked = {"model": "m", "messages": [], "stream": True}
    messages = "https://api.anthropic.com/v1/messages"
    for thinks, speaks in ((redacted, text), (thought, tool)):
        facts = answer(messages, asked, sse({"type": "message_start"}), sse(thinks), sse(speaks), sse(speaks))
        assert (1.0, 2.0) == (facts.first_content_at, facts.first_visible_at)

    def chunk(**delta: Any) -> bytes:
        return sse({"id": "c", "model": "m", "choices": [{"delta": delta}]})

    for said in ({"reasoning": "x"}, {"reasoning_content": "x"}, {"content": [{"thinking": [1]}]}):
        url = "https://api.openai.com/v1/chat/completions"
        facts = answer(url, asked, chunk(content=""), chunk(**said), chunk(content="a"))
        assert (1.0, 2.0) == (facts.first_content_at, facts.first_visible_at)

    def part(*parts: dict[str, Any]) -> bytes:
        return sse({"candidates": [{"content": {"parts": list(parts)}}]})

    hidden, shown = {"text": "x", "thought": True}, {"text": "a"}
    url = "https://generativelanguage.googleapis.com/v1beta/models/m:streamGenerateContent"
    facts = answer(url, {"contents": []}, part(hidden), part(hidden, hidden), part(hidden, hidden, shown))
    assert (0.0, 2.0) == (facts.first_content_at, facts.first_visible_at)
    url = "https://api.openai.com/v1/responses"
    events = [{"type": f"response.{kind}.delta", "delta": "x"} for kind in ("reasoning_text", "output_text")]
    facts = answer(url, {"model": "m", "input": "x"}, *(sse(event) for event in events))
    assert (0.0, 1.0) == (facts.first_content_at, facts.first_visible_at)
