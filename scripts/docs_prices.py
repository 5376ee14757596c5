"""The table of what each provider bills beside tokens, asked of the price table itself."""

from __future__ import annotations

import datetime
from typing import TYPE_CHECKING, Any, NamedTuple

from lz_otel._price.cost import Prices
from lz_otel.model import Facts, Request

if TYPE_CHECKING:
    from collections.abc import Iterator


class Billed(NamedTuple):
    """One row: what is billed, and an answer of a model that holds one of it and no text."""

    provider: str
    what: str
    unit: str
    model: str
    facts: dict[str, Any]
    path: str = "/"
    note: str = ""


M = 1_000_000
OTHER = {"operation": "other", "input_tokens": None, "output_tokens": None}


def _fee(name: str) -> dict[str, Any]:
    return {"fees": {name: 1}}


def _tokens(side: str, kind: str) -> dict[str, Any]:
    return {f"{side}_tokens": M, f"{side}_tokens_by_modality": {kind: M}}


ROWS = (
    Billed("anthropic", "web search", "search", "claude-opus-5", _fee("web_search")),
    Billed("anthropic", "web fetch, tool search", "call", "claude-opus-5", _fee("web_fetch")),
    Billed(
        "anthropic",
        "code execution",
        "call",
        "claude-opus-5",
        _fee("code_execution"),
        note="by the hour of a container; free beside the web tools of 2026",
    ),
    Billed("anthropic", "fast mode", "M input tokens", "claude-opus-5", {"speed": "fast", "input_tokens": M}),
    Billed(
        "anthropic",
        "data residency in the USA",
        "M input tokens",
        "claude-opus-5",
        {"inference_geo": "us", "input_tokens": M},
    ),
    Billed(
        "anthropic",
        "priority tier",
        "M input tokens",
        "claude-opus-5",
        {"service_tier": "priority", "input_tokens": M},
        note="by contract",
    ),
    Billed("openai", "web search", "search", "gpt-5.4", _fee("web_search"), note="opening a page is free"),
    Billed(
        "openai",
        "web search of `gpt-4o-mini`, `gpt-4.1-mini`",
        "search",
        "gpt-4.1-mini",
        _fee("web_search"),
        note="bills a block of tokens too",
    ),
    Billed("openai", "`web_search_preview`", "search", "gpt-5.4", _fee("web_search_preview")),
    Billed(
        "openai", "search models of chat completions", "call", "gpt-4o-search-preview", _fee("search_model")
    ),
    Billed("openai", "file search", "call", "gpt-5.4", _fee("file_search")),
    Billed(
        "openai",
        "code interpreter, hosted shell",
        "call",
        "gpt-5.4",
        _fee("code_interpreter"),
        note="by the session of a container",
    ),
    Billed("openai", "computer use, MCP", "call", "gpt-5.4", _fee("computer"), note="tokens only"),
    Billed("openai", "image generation as a tool", "image", "gpt-5.4", _fee("image_generation")),
    Billed("openai", "audio in", "M tokens", "gpt-audio", _tokens("input", "audio")),
    Billed("openai", "audio out", "M tokens", "gpt-audio", _tokens("output", "audio")),
    Billed(
        "openai", "audio of a model without a price for it", "M tokens", "gpt-4o", _tokens("output", "audio")
    ),
    Billed("openai", "images in", "M tokens", "gpt-5.4", _tokens("input", "image")),
    Billed("openai", "images out", "M tokens", "gpt-image-1", _tokens("output", "image")),
    Billed("openai", "images without tokens", "image", "dall-e-3", OTHER, "/v1/images/generations"),
    Billed("openai", "transcription", "second", "whisper-1", {**OTHER, **_fee("audio_second")}),
    Billed("openai", "speech", "call", "tts-1", OTHER, "/v1/audio/speech", note="by characters"),
    Billed(
        "openai", "a prompt of more than 272,000 tokens", "M input tokens", "gpt-5.4", {"input_tokens": M}
    ),
    Billed("openai", "scale tier", "M input tokens", "gpt-5.4", {"service_tier": "scale", "input_tokens": M}),
    Billed("openai", "cache written for 12 hours", "call", "gpt-6-sol", _fee("cache_write_12h")),
    Billed(
        "azure.ai.openai",
        "everything",
        "call",
        "gpt-5.4",
        {"input_tokens": M},
        note="the kind of deployment is not told; state yours with `providers`",
    ),
    Billed(
        "gcp.gemini",
        "Google Search before Gemini 3",
        "prompt",
        "gemini-2.5-flash",
        _fee("web_search"),
        note="free allowances are not seen",
    ),
    Billed(
        "gcp.gemini",
        "Google Search from Gemini 3 on",
        "query",
        "gemini-3.1-pro-preview",
        _fee("web_search"),
        note="free allowances are not seen",
    ),
    Billed("gcp.gemini", "Google Maps", "call", "gemini-2.5-flash", _fee("maps_grounding")),
    Billed(
        "gcp.gemini",
        "code execution, URL context, file search",
        "call",
        "gemini-2.5-flash",
        _fee("code_execution"),
        note="tokens only",
    ),
    Billed("gcp.gemini", "audio in", "M tokens", "gemini-2.5-flash", _tokens("input", "audio")),
    Billed("gcp.gemini", "images and video in", "M tokens", "gemini-2.5-flash", _tokens("input", "image")),
    Billed("gcp.gemini", "images out", "M tokens", "gemini-2.5-flash-image", _tokens("output", "image")),
    Billed(
        "gcp.gemini",
        "storage of an explicit cache",
        "call",
        "gemini-2.5-flash",
        _fee("cache_storage"),
        note="by the hour; `fees = { cache_storage = 0 }` where you book it elsewhere",
    ),
    Billed("gcp.vertex_ai", "stored documents (RAG)", "call", "gemini-2.5-flash", _fee("retrieval")),
    Billed(
        "gcp.vertex_ai",
        "provisioned throughput",
        "M input tokens",
        "gemini-2.5-flash",
        {"service_tier": "provisioned_throughput", "input_tokens": M},
        note="paid beforehand",
    ),
    Billed(
        "gcp.vertex_ai", "images of `:predict`", "image", "imagen-4.0", OTHER, "/models/imagen-4.0:predict"
    ),
    Billed(
        "aws.bedrock",
        "a region outside the USA",
        "M input tokens",
        "amazon.nova-lite-v1:0",
        {"input_tokens": M},
        note="Claude is priced everywhere",
    ),
    Billed(
        "deepseek",
        "an hour of high demand (UTC 01–04, 06–10)",
        "M input tokens",
        "deepseek-v4-flash",
        {"input_tokens": M},
    ),
    Billed("mistral_ai", "audio in", "second", "voxtral-small-24b-2507", _fee("audio_second")),
    Billed("cohere", "rerank", "call", "rerank-v3.5", OTHER, "/v2/rerank"),
    Billed(
        "openrouter", "everything", "call", "any", {"cost_reported": 0.0}, note="its answers state the cost"
    ),
    Billed(
        "perplexity", "everything", "call", "any", {"cost_reported": 0.0}, note="its answers state the cost"
    ),
    Billed("x_ai", "everything", "call", "any", {"cost_reported": 0.0}, note="its answers state the cost"),
    Billed(
        "any",
        "a gateway's fallback that does not say to whom",
        "call",
        "gpt-5.4",
        {"gateway_fell_back": True},
        note="LiteLLM's `x-litellm-response-cost` is believed",
    ),
)
WHEN = datetime.datetime(2026, 12, 1, 2, tzinfo=datetime.UTC).timestamp()


def rows() -> Iterator[tuple[str, ...]]:
    """Yield provider, what is billed, price or part, and a note."""
    prices = Prices.load()
    for row in ROWS:
        facts = Facts(row.provider, "chat", inference=True, llm_call=True)
        facts.request_model, facts.input_tokens, facts.output_tokens = row.model, 0, 0
        for name, value in row.facts.items():
            setattr(facts, name, value)
        cost = prices.whole(facts, WHEN, Request("POST", "bedrock-runtime.eu-west-1.amazonaws.com", row.path))
        if isinstance(cost, str):
            told = f'`unpriced{{part="{cost}"}}`'
        elif facts.cost_reported is not None:
            told = "as stated"
        else:
            told = "free" if cost.usd == 0 else f"USD {cost.usd:.6g} per {row.unit} (`{row.model}`)"
        yield f"`{row.provider}`" if row.provider != "any" else "any", row.what, told, row.note
