"""What is billed beside tokens, as each API states it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from tests.extract.build import CHAT, MESSAGES, RESPONSES, answer, dumps, sse

if TYPE_CHECKING:
    from lz_otel.model import Facts

ASKED = {"model": "m", "input": "x"}
GENERATE = "https://generativelanguage.googleapis.com/v1beta/models/g:generateContent"
VERTEX = (
    "https://aiplatform.googleapis.com/v1/projects/p/locations/r/publishers/google/models/g:generateContent"
)
USAGE = {"input_tokens": 10, "output_tokens": 1, "total_tokens": 11}


def call(kind: str, **more: Any) -> dict[str, Any]:
    """An output item."""
    return {"type": kind + "_call", "status": "completed", **more}


SEARCH, OPEN = {"action": {"type": "search"}}, {"action": {"type": "open_page"}}


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        ({"output": [call("web_search", **SEARCH)] * 3}, {"web_search": 3}),
        ({"output": [call("web_search")]}, {"web_search": 1}),
        ({"output": [call("web_search", **OPEN), call("web_search", action={"type": "find_in_page"})]}, None),
        (
            {"output": [call("web_search", **SEARCH)], "tool_usage": {"web_search": {"num_requests": 5}}},
            {"web_search": 5},
        ),
        (
            {
                "output": [],
                "tool_usage": {"web_search": {"num_requests": 0}, "image_gen": {"total_tokens": 0}},
            },
            None,
        ),
        ({"output": [], "tool_usage": {"image_gen": {"total_tokens": 7}}}, {"image_generation": 1}),
        (
            {"output": [call("web_search", **SEARCH)], "tools": [{"type": "web_search_preview_2025_03_11"}]},
            {"web_search_preview": 1},
        ),
        (
            {
                "output": [
                    call("file_search"),
                    call("code_interpreter"),
                    call("image_generation"),
                    call("computer"),
                    call("mcp"),
                ]
            },
            {"file_search": 1, "code_interpreter": 1, "image_generation": 1, "computer": 1, "mcp": 1},
        ),
        (
            {
                "output": [
                    call("function"),
                    call("custom_tool"),
                    call("local_shell"),
                    call("apply_patch"),
                    {"type": "reasoning"},
                    {"type": 7},
                    {},
                ]
            },
            None,
        ),
        ({"output": [call("shell", environment={"type": "local"})]}, None),
        ({"output": [call("shell", environment={"type": "container_reference"})]}, {"shell": 1}),
        ({"output": [{**call("web_search", **SEARCH), "status": "failed"}]}, None),
        ({"output": [call("telepathy")]}, {"telepathy": 1}),
        (
            {"output": [call("web_search", action="search")], "tool_usage": [], "tools": "none"},
            {"web_search": 1},
        ),
    ],
)
@pytest.mark.parametrize("stream", [False, True])
def test_hosted_tools_of_responses(body: dict[str, Any], expected: Any, stream: bool) -> None:
    """05: three web searches of 0.01 each were not in the cost."""
    response = {"id": "r", "model": "gpt-5.4", "status": "completed", "usage": USAGE, **body}
    piece = sse({"type": "response.completed", "response": response}) if stream else dumps(response)
    assert expected == answer(RESPONSES, ASKED | {"stream": stream}, piece).fees


def chat(usage: dict[str, Any], model: str = "m") -> Facts:
    """Facts of a chat completion with this usage."""
    usage = {"prompt_tokens": 10, "completion_tokens": 1, **usage}
    asked = {"model": model, "messages": [{"role": "user", "content": "x"}]}
    return answer(CHAT, asked, dumps({"id": "c", "model": model, "choices": [], "usage": usage}))


@pytest.mark.parametrize(
    ("usage", "expected"),
    [
        ({"prompt_audio_seconds": 12}, {"audio_second": 12}),
        ({"num_sources_used": 4}, {"live_search_source": 4}),
        ({"num_sources_used": 0, "prompt_audio_seconds": None}, None),
        (
            {
                "prompt_tokens_details": {
                    "cache_write_tokens_details": {"ttl_30m_tokens": 5, "ttl_12h_tokens": 0}
                }
            },
            None,
        ),
        (
            {"prompt_tokens_details": {"cache_write_tokens_details": {"ttl_12h_tokens": 9}}},
            {"cache_write_12h": 9},
        ),
    ],
)
def test_usage_beside_tokens(usage: dict[str, Any], expected: Any) -> None:
    """Seconds of audio, sources of a live search, writes of a lifetime whose price is not published."""
    assert expected == chat(usage).fees


def test_models_that_search_by_themselves() -> None:
    """A search model of chat completions does not say how often it searched."""
    assert {"search_model": 1} == chat({}, "gpt-4o-search-preview").fees


@pytest.mark.parametrize(
    ("more", "expected"),
    [
        ({"is_byok": True, "cost_details": {"upstream_inference_cost": 0.4}}, (0.1, 0.4)),
        ({"is_byok": True, "cost_details": {"upstream_inference_cost": None}}, (0.1, float("inf"))),
        ({"is_byok": False, "cost_details": {"upstream_inference_cost": 0.09}}, (0.1, 0.0)),
    ],
)
def test_a_key_of_ones_own_behind_a_gateway(more: dict[str, Any], expected: tuple[float, float]) -> None:
    """What the provider bills for the call is no part of the gateway's fee."""
    facts = chat({"cost": 0.1, **more})
    assert expected == (facts.cost_reported, facts.cost_besides)


def test_cached_tokens_by_kind() -> None:
    """Cached audio has a price of its own."""
    details = {
        "audio_tokens": 8,
        "cached_tokens": 6,
        "cached_tokens_details": {"audio_tokens": 5, "text_tokens": 1},
    }
    assert {"audio": 5, "text": 1} == chat({"prompt_tokens_details": details}).cached_tokens_by_modality


@pytest.mark.parametrize(
    ("usage", "blocks", "tools", "expected"),
    [
        (
            {"web_search_requests": 2, "web_fetch_requests": 1},
            ["web_search", "web_fetch"],
            [],
            {"web_search": 2, "web_fetch": 1},
        ),
        ({"web_search_requests": 0}, [], [], None),
        ({"moon_requests": 3}, [], [], {"moon": 3}),
        (None, ["code_execution"], [], {"code_execution": 1}),
        (None, ["bash_code_execution", "bash_code_execution"], [], {"bash_code_execution": 1}),
        (None, ["bash_code_execution"], [{"type": "web_search_20260209", "name": "web_search"}], None),
        (None, ["tool_search_tool_regex"], [], {"tool_search": 1}),
        (None, ["advisor"], [], None),
    ],
)
@pytest.mark.parametrize("stream", [False, True])
def test_server_tools_of_messages(
    usage: Any, blocks: list[str], tools: list[Any], expected: Any, stream: bool
) -> None:
    """Searches are in the usage; code that the provider ran is in the content only."""
    counts = {"input_tokens": 1, "output_tokens": 1, "server_tool_use": usage}
    content = [{"type": "server_tool_use", "id": "s", "name": name, "input": {}} for name in blocks]
    message = {"type": "message", "id": "m", "model": "claude-opus-5", "content": content, "usage": counts}
    body = dumps(message | {"stop_reason": "end_turn"})
    if stream:
        begin = {"type": "message_start", "message": message | {"content": [], "usage": {"input_tokens": 1}}}
        events = [{"type": "content_block_start", "index": 0, "content_block": block} for block in content]
        body = sse(
            begin, *events, {"type": "message_delta", "delta": {}, "usage": counts}, {"type": "message_stop"}
        )
    asked = {"model": "claude-opus-5", "messages": [], "max_tokens": 9, "stream": stream, "tools": tools}
    facts = answer(MESSAGES, asked, body)
    assert (expected, True) == (facts.fees, facts.usage_seen)


@pytest.mark.parametrize(
    ("url", "grounding", "expected"),
    [
        (GENERATE, {"webSearchQueries": ["a", "b", ""]}, {"web_search": 2}),
        (GENERATE, {"webSearchQueries": []}, None),
        (GENERATE, {"groundingChunks": [{"web": {}}, {"maps": {}}]}, {"maps_grounding": 1}),
        (GENERATE, {"googleMapsWidgetContextToken": "t"}, {"maps_grounding": 1}),
        (GENERATE, {"retrievalQueries": ["a"]}, None),
        (VERTEX, {"retrievalQueries": ["a"]}, {"retrieval": 1}),
    ],
)
def test_grounding_of_gemini(url: str, grounding: dict[str, Any], expected: Any) -> None:
    """Searches are billed by query or by prompt; Maps and stored documents have prices of their own."""
    candidate = {
        "content": {"parts": [{"text": "a"}]},
        "finishReason": "STOP",
        "groundingMetadata": grounding,
    }
    body = {"candidates": [candidate], "usageMetadata": {"promptTokenCount": 1, "candidatesTokenCount": 1}}
    assert expected == answer(url, {"contents": []}, dumps(body)).fees
    body["candidates"].append(candidate)  # type: ignore[attr-defined]  # told twice, billed once
    assert expected == answer(url, {"contents": []}, dumps(body)).fees


def test_a_stored_cache_of_gemini() -> None:
    """A call that reads an explicit cache lives on storage that is billed by the hour."""
    body = dumps({"candidates": [], "usageMetadata": {"promptTokenCount": 9, "cachedContentTokenCount": 9}})
    asked = {"contents": [], "cachedContent": "cachedContents/1"}
    assert {"cache_storage": 1} == answer(GENERATE, asked, body).fees


def test_provisioned_throughput_has_no_price_by_token() -> None:
    """Vertex says where a call was paid for beforehand."""
    usage = {"promptTokenCount": 9, "candidatesTokenCount": 1, "trafficType": "PROVISIONED_THROUGHPUT"}
    facts = answer(VERTEX, {"contents": []}, dumps({"candidates": [], "usageMetadata": usage}))
    assert "provisioned_throughput" == facts.service_tier


def test_a_transcript_is_billed_by_the_second() -> None:
    """Whisper states its duration instead of tokens."""
    url = "https://api.openai.com/v1/audio/transcriptions"
    facts = answer(
        url, {"model": "whisper-1"}, dumps({"text": "x", "usage": {"type": "duration", "seconds": 9}})
    )
    assert {"audio_second": 9} == facts.fees


def test_tools_of_interactions() -> None:
    """Steps of hosted tools are billed as in ``generateContent``; a function of the client's own is not."""
    url = "https://generativelanguage.googleapis.com/v1beta/interactions"
    steps = [{"type": "google_search_call"}, {"type": "function_call"}, {"type": "text", "text": "x"}]
    body = {"id": "i", "outputs": steps, "usage": {"total_input_tokens": 1, "total_output_tokens": 1}}
    assert {"google_search": 1} == answer(url, {"model": "g", "input": "x"}, dumps(body)).fees


def test_no_more_names_than_fit() -> None:
    """A server that invents tools takes no memory."""
    usage = {f"tool{number}_requests": 1 for number in range(99)}
    counts = {"input_tokens": 1, "output_tokens": 1, "server_tool_use": usage}
    message = {"type": "message", "model": "claude-opus-5", "content": [], "usage": counts}
    facts = answer(MESSAGES, {"model": "claude-opus-5", "messages": [], "max_tokens": 9}, dumps(message))
    assert 16 == len(facts.fees or {})
