"""Which requests are LLM calls, whose, and of what kind."""

from __future__ import annotations

from typing import Any

import pytest

from lz_otel._extract import candidate
from tests.extract.build import reader, request

CHAT = {"model": "m", "messages": [{"role": "user", "content": "x"}]}
INPUT = {"model": "m", "input": "x"}
PROMPT = {"model": "m", "prompt": "x"}
CONTENTS = {"contents": [{"parts": [{"text": "x"}]}]}
CONVERSE = {"messages": [{"role": "user", "content": [{"text": "x"}]}]}
VERSION = {"anthropic-version": "2026-10-21"}
BEDROCK = "https://bedrock-runtime.us-east-1.amazonaws.com/model/"
VERTEX = "https://us-east5-aiplatform.googleapis.com/v1/projects/p/locations/l/publishers/"
AZURE = "https://x.openai.azure.com/openai/"


@pytest.mark.parametrize(
    ("url", "body", "expected"),
    [
        ("https://api.anthropic.com/v1/messages", CHAT, ("anthropic", "chat", "m", True)),
        ("https://api.anthropic.com/v1/messages?beta=true", CHAT, ("anthropic", "chat", "m", True)),
        ("https://api.anthropic.com/v1/messages", None, ("anthropic", "chat", None, True)),
        (
            "https://api.anthropic.com/v1/messages/count_tokens",
            CHAT,
            ("anthropic", "count_tokens", "m", False),
        ),
        ("https://api.anthropic.com/v1/complete", PROMPT, ("anthropic", "text_completion", "m", True)),
        (
            "https://claude.googleapis.com/v1/projects/p/locations/l/workspaces/w/invoke/v1/messages",
            CHAT,
            ("anthropic", "chat", "m", True),
        ),
        (
            "https://aws-external-anthropic.us-east-1.api.aws/v1/messages",
            CHAT,
            ("anthropic", "chat", "m", True),
        ),
        (
            "https://bedrock-mantle.us-east-1.api.aws/anthropic/v1/messages",
            CHAT,
            ("aws.bedrock", "chat", "m", True),
        ),
        ("https://r.services.ai.azure.com/anthropic/v1/messages", CHAT, ("anthropic", "chat", "m", True)),
        ("https://api.deepseek.com/anthropic/v1/messages", CHAT, ("deepseek", "chat", "m", True)),
        ("https://openrouter.ai/api/v1/messages", CHAT, ("openrouter", "chat", "m", True)),
        ("https://gateway.test/anthropic/v1/messages", CHAT, ("anthropic", "chat", "m", True)),
        ("http://localhost:8787/v1/messages", CHAT, ("other", "chat", "m", True)),
        (
            VERTEX + "anthropic/models/claude-haiku-4-5@20251001:rawPredict",
            CHAT,
            ("gcp.vertex_ai", "chat", "claude-haiku-4-5@20251001", True),
        ),
        (
            VERTEX + "anthropic/models/claude-haiku-4-5@20251001:streamRawPredict",
            CHAT,
            ("gcp.vertex_ai", "chat", "claude-haiku-4-5@20251001", True),
        ),
        (
            VERTEX + "anthropic/models/count-tokens:rawPredict",
            CHAT,
            ("gcp.vertex_ai", "count_tokens", "m", False),
        ),
        (
            VERTEX + "mistralai/models/mistral-small:rawPredict",
            CHAT,
            ("gcp.vertex_ai", "chat", "mistral-small", True),
        ),
        ("https://api.openai.com/v1/chat/completions", CHAT, ("openai", "chat", "m", True)),
        ("https://eu.api.openai.com/v1/chat/completions", CHAT, ("openai", "chat", "m", True)),
        ("https://api.openai.com/v1/completions", PROMPT, ("openai", "text_completion", "m", True)),
        ("https://api.openai.com/v1/responses", INPUT, ("openai", "chat", "m", True)),
        ("https://api.openai.com/v1/responses/", INPUT, ("openai", "chat", "m", True)),
        ("https://api.openai.com/v1/responses/compact", INPUT, ("openai", "other", "m", True)),
        ("https://api.openai.com/v1/responses/input_tokens", INPUT, ("openai", "count_tokens", "m", False)),
        ("https://api.openai.com/v1/embeddings", INPUT, ("openai", "embeddings", "m", True)),
        ("https://api.openai.com/v1/moderations", INPUT, ("openai", "other", "m", True)),
        ("https://api.openai.com/v1/images/generations", PROMPT, ("openai", "other", "m", True)),
        ("https://api.openai.com/v1/audio/speech", INPUT, ("openai", "other", "m", True)),
        ("https://api.openai.com/v1/threads/t/runs", {"assistant_id": "a"}, ("openai", "other", None, True)),
        (
            AZURE + "deployments/d/chat/completions?api-version=1",
            {"messages": CHAT["messages"]},
            ("azure.ai.openai", "chat", "d", True),
        ),
        (
            AZURE + "deployments/d/embeddings?api-version=1",
            {"input": "x"},
            ("azure.ai.openai", "embeddings", "d", True),
        ),
        (AZURE + "responses?api-version=1", INPUT, ("azure.ai.openai", "chat", "m", True)),
        (AZURE + "v1/chat/completions", CHAT, ("azure.ai.openai", "chat", "m", True)),
        (
            "https://r.services.ai.azure.com/openai/v1/responses",
            INPUT,
            ("azure.ai.openai", "chat", "m", True),
        ),
        (
            "https://r.services.ai.azure.com/models/chat/completions",
            CHAT,
            ("azure.ai.inference", "chat", "m", True),
        ),
        (
            "https://apim.test/openai/deployments/d/chat/completions",
            {"messages": []},
            ("azure.ai.openai", "chat", "d", True),
        ),
        ("https://api.groq.com/openai/v1/chat/completions", CHAT, ("groq", "chat", "m", True)),
        ("https://api.mistral.ai/v1/chat/completions", CHAT, ("mistral_ai", "chat", "m", True)),
        ("https://api.mistral.ai/v1/fim/completions", PROMPT, ("mistral_ai", "text_completion", "m", True)),
        (
            "https://api.mistral.ai/v1/agents/completions",
            {"agent_id": "a", "messages": []},
            ("mistral_ai", "chat", None, True),
        ),
        ("https://api.deepseek.com/chat/completions", CHAT, ("deepseek", "chat", "m", True)),
        ("https://api.x.ai/v1/chat/completions", CHAT, ("x_ai", "chat", "m", True)),
        ("https://openrouter.ai/api/v1/chat/completions", CHAT, ("openrouter", "chat", "m", True)),
        ("https://api.perplexity.ai/chat/completions", CHAT, ("perplexity", "chat", "m", True)),
        ("https://api.together.xyz/v1/chat/completions", CHAT, ("together_ai", "chat", "m", True)),
        ("https://api.cerebras.ai/v1/chat/completions", CHAT, ("cerebras", "chat", "m", True)),
        ("https://router.huggingface.co/v1/chat/completions", CHAT, ("huggingface", "chat", "m", True)),
        ("https://api.writer.com/v1/chat", CHAT, ("writer", "chat", "m", True)),
        (
            "https://a-b.snowflakecomputing.com/api/v2/cortex/inference:complete",
            CHAT,
            ("snowflake", "chat", "m", True),
        ),
        ("https://us.inference.heroku.com/v1/chat/completions", CHAT, ("heroku", "chat", "m", True)),
        ("https://api.z.ai/api/paas/v4/chat/completions", CHAT, ("z_ai", "chat", "m", True)),
        ("https://api.cohere.com/v2/chat", CHAT, ("cohere", "chat", "m", True)),
        (
            "https://api.cohere.com/v1/embed",
            {"model": "m", "texts": ["x"]},
            ("cohere", "embeddings", "m", True),
        ),
        ("https://api.cohere.com/v2/rerank", {"model": "m"}, ("cohere", "other", "m", True)),
        ("https://api.cohere.ai/compatibility/v1/chat/completions", CHAT, ("cohere", "chat", "m", True)),
        ("http://127.0.0.1:11434/api/chat", CHAT, ("ollama", "chat", "m", True)),
        ("http://ollama:11434/api/generate", PROMPT, ("ollama", "text_completion", "m", True)),
        ("http://ollama:11434/api/embed", INPUT, ("ollama", "embeddings", "m", True)),
        (
            "https://eu-de.ml.cloud.ibm.com/ml/v1/text/chat",
            {"model_id": "i", "messages": []},
            ("ibm.watsonx.ai", "chat", "i", True),
        ),
        (
            "https://eu-de.ml.cloud.ibm.com/ml/v1/text/generation_stream",
            {"model_id": "i", "input": "x"},
            ("ibm.watsonx.ai", "text_completion", "i", True),
        ),
        (
            "https://generativelanguage.googleapis.com/v1beta/models/g:generateContent",
            CONTENTS,
            ("gcp.gemini", "generate_content", "g", True),
        ),
        (
            "https://generativelanguage.googleapis.com/v1beta/models/g:streamGenerateContent?alt=sse",
            CONTENTS,
            ("gcp.gemini", "generate_content", "g", True),
        ),
        (
            "https://generativelanguage.googleapis.com/v1beta/models/g:embedContent",
            {},
            ("gcp.gemini", "embeddings", "g", True),
        ),
        (
            "https://generativelanguage.googleapis.com/v1beta/models/g:countTokens",
            CONTENTS,
            ("gcp.gemini", "count_tokens", "g", False),
        ),
        (
            "https://generativelanguage.googleapis.com/v1beta/openai/chat/completions",
            CHAT,
            ("gcp.gemini", "chat", "m", True),
        ),
        (
            VERTEX + "google/models/g:generateContent",
            CONTENTS,
            ("gcp.vertex_ai", "generate_content", "g", True),
        ),
        (
            VERTEX + "google/models/text-embedding-005:predict",
            {"instances": []},
            ("gcp.vertex_ai", "embeddings", "text-embedding-005", True),
        ),
        (
            VERTEX + "google/models/imagen-4:predict",
            {"instances": []},
            ("gcp.vertex_ai", "other", "imagen-4", True),
        ),
        (
            "https://gateway.ai.cloudflare.com/v1/a/g/google-ai-studio/v1/models/g:generateContent",
            CONTENTS,
            ("gcp.gemini", "generate_content", "g", True),
        ),
        (
            "https://gateway.ai.cloudflare.com/v1/a/g/anthropic/v1/messages",
            CHAT,
            ("anthropic", "chat", "m", True),
        ),
        (
            "https://gateway.ai.cloudflare.com/v1/a/g/compat/chat/completions",
            CHAT,
            ("other", "chat", "m", True),
        ),
        (
            "https://llm.test/v1/models/g:generateContent",
            CONTENTS,
            ("gcp.gen_ai", "generate_content", "g", True),
        ),
        (
            BEDROCK + "us.amazon.nova-lite-v1%3A0/converse",
            CONVERSE,
            ("aws.bedrock", "chat", "us.amazon.nova-lite-v1:0", True),
        ),
        (
            BEDROCK + "arn%3Aaws%3Abedrock%3Aus-east-1%3A1%3Ap%2Fx/converse-stream",
            CONVERSE,
            ("aws.bedrock", "chat", "arn:aws:bedrock:us-east-1:1:p/x", True),
        ),
        (
            BEDROCK + "anthropic.claude-opus-5/invoke",
            {"messages": [], "anthropic_version": "b"},
            ("aws.bedrock", "chat", "anthropic.claude-opus-5", True),
        ),
        (
            BEDROCK + "meta.llama3-8b-instruct-v1:0/invoke",
            {"prompt": "x"},
            ("aws.bedrock", "text_completion", "meta.llama3-8b-instruct-v1:0", True),
        ),
        (
            BEDROCK + "amazon.titan-embed-text-v2:0/invoke",
            {"inputText": "x"},
            ("aws.bedrock", "embeddings", "amazon.titan-embed-text-v2:0", True),
        ),
        (
            BEDROCK + "stability.sd3-5-large-v1:0/invoke",
            {"prompt": "x"},
            ("aws.bedrock", "other", "stability.sd3-5-large-v1:0", True),
        ),
        (
            BEDROCK + "anthropic.claude-opus-5/count-tokens",
            {"input": {}},
            ("aws.bedrock", "count_tokens", "anthropic.claude-opus-5", False),
        ),
        (
            "http://localhost:4566/model/anthropic.claude-opus-5/converse",
            CONVERSE,
            ("aws.bedrock", "chat", "anthropic.claude-opus-5", True),
        ),
        ("http://localhost:8000/v1/chat/completions", CHAT, ("other", "chat", "m", True)),
        ("http://localhost:8000/v1/embeddings", INPUT, ("other", "embeddings", "m", True)),
        ("http://localhost:8000/v1/responses", INPUT, ("other", "chat", "m", True)),
    ],
)
def test_calls(url: str, body: Any, expected: tuple[str, str, str | None, bool]) -> None:
    """Provider, operation, model and whether a model runs, by host, path and body."""
    found = reader(url, body)
    assert found is not None
    facts = found.facts
    assert expected == (facts.provider, facts.operation, facts.request_model, facts.llm_call)


@pytest.mark.parametrize(
    ("url", "body"),
    [
        ("https://shop.test/v1/messages", {"text": "hi", "usage": {"input_tokens": 5}}),
        ("https://shop.test/v1/messages", {"model": "red", "messages": "two"}),
        ("https://shop.test/v1/messages", None),
        ("https://shop.test/anthropic/v1/messages", {"to": "you"}),
        ("https://shop.test/v1/responses", {"model": "survey"}),
        ("https://shop.test/v1/embeddings", {"texts": ["x"]}),
        ("https://shop.test/openai/embeddings", {"texts": ["x"]}),
        ("https://shop.test/chat/completions", {"model": "m"}),
        ("https://shop.test/completions", {"prefix": "x"}),
        ("https://shop.test/api/chat", {"text": "hi"}),
        ("https://shop.test/chat", CHAT),
        ("https://shop.test/api/generate", {"model": "m"}),
        ("https://shop.test/images/generations", PROMPT),
        ("https://shop.test/mistral/images/generations", PROMPT),
        ("https://shop.test/v1/moderations", {"comment": "x"}),
        ("https://shop.test/v1/rerank", INPUT),
        ("https://shop.test/repos/x/runs", {"model": "m"}),
        ("https://shop.test/model/car/invoke", {"prompt": "x"}),
        ("https://shop.test/v1/interactions", INPUT),
        ("https://shop.test/things:generateContent", {}),
        ("https://shop.test/models/m:predict", {"instances": []}),
        ("https://api.openai.com/v1/threads/t/messages", {"role": "user", "content": "x"}),
        ("https://api.openai.com/v1/files", b"x"),
        ("https://api.openai.com/v1/batches", {}),
        ("https://api.anthropic.com/v1/messages/batches", {}),
        ("https://api.anthropic.com/v1/messages/batches/b/cancel", {}),
        ("https://bedrock-runtime.us-east-1.amazonaws.com/guardrail/g/version/1/apply", {}),
        ("https://lambda.us-east-1.amazonaws.com/2015-03-31/functions/f/invoke", {}),
        ("https://generativelanguage.googleapis.com/v1beta/cachedContents", {}),
    ],
)
def test_someone_elses_traffic(url: str, body: Any) -> None:
    """Casebook 25: what only looks like a call is left alone."""
    assert reader(url, body) is None


@pytest.mark.parametrize("method", ["GET", "HEAD", "PUT", "DELETE", "OPTIONS", "PATCH"])
@pytest.mark.parametrize(
    "path", ["/v1/messages", "/v1/responses", "/v1/chat/completions", "/v1/responses/resp_1"]
)
def test_only_post_runs_a_model(method: str, path: str) -> None:
    """Polling and reading again are no inference."""
    assert candidate(method, path) is None


def test_version_header_tells() -> None:
    """The header of the Messages API makes a call of a path on any host, even without a readable body."""
    found = reader("https://gateway.test/v1/messages", None, VERSION)
    assert found is not None
    assert ("anthropic", None) == (found.facts.provider, found.facts.request_model)


def test_mapped_hosts() -> None:
    """A host the user has mapped is that provider, and is believed without a look at the body."""
    providers = {"llm.corp": "openai"}
    found = reader("https://llm.corp/v1/chat/completions", None, providers=providers)
    assert found is not None
    assert "openai" == found.facts.provider
    assert reader("https://llm.corp2/v1/chat/completions", None, providers=providers) is None


@pytest.mark.parametrize(
    "host",
    [
        "evil-openai.azure.com",
        "x.api.openai.com.evil.test",
        "api.openai.com.evil.test",
        "xaiplatform.googleapis.com",
        "openai.com",
    ],
)
def test_hosts_match_whole_names(host: str) -> None:
    """A host is known by its whole name or a whole suffix."""
    found = reader(f"https://{host}/v1/chat/completions", CHAT)
    assert found is not None
    assert "other" == found.facts.provider


@pytest.mark.parametrize(
    ("url", "body", "expected"),
    [
        ("https://api.openai.com/v1/chat/completions", CHAT | {"stream": True}, True),
        ("https://api.openai.com/v1/chat/completions", CHAT | {"stream": False}, False),
        ("https://api.openai.com/v1/chat/completions", CHAT | {"stream": 1}, False),
        ("http://ollama:11434/api/chat", CHAT, True),
        ("http://ollama:11434/api/chat", CHAT | {"stream": False}, False),
        ("http://ollama:11434/api/embed", INPUT, False),
        (BEDROCK + "x.y/converse-stream", CONVERSE, True),
        (VERTEX + "google/models/g:streamGenerateContent", CONTENTS, True),
    ],
)
def test_stream(url: str, body: Any, expected: bool) -> None:
    """Whether a stream was asked for, by body or by path."""
    found = reader(url, body)
    assert found is not None
    assert expected is found.facts.stream


def test_gemini_fields_have_the_common_names() -> None:
    """Contents and system instruction of Gemini stand where mechanisms look for messages and system."""
    found = reader(
        VERTEX + "google/models/g:generateContent",
        CONTENTS | {"systemInstruction": {"parts": []}, "tools": []},
    )
    assert found is not None
    fields = found.facts.request_fields
    assert [b'{"parts":[{"text":"x"}]}'] == [bytes(one) for one in fields.messages]
    assert (b'{"parts":[]}', b"[]") == (bytes(fields.system), bytes(fields.tools))


def test_the_body_is_not_looked_at_in_vain() -> None:
    """A path that is nobody's is told by the path alone."""
    asked = request("https://shop.test/v1/orders", CHAT)
    assert candidate(asked.method, asked.path) is None
