"""Who answers at a host: names of ``gen_ai.provider.name``.

Registered names are OpenTelemetry's (D); those it has no name for are ours (C): openrouter,
ollama, together_ai, cerebras, huggingface, voyageai, writer, z_ai, snowflake, heroku and the
like. ``other`` is a host without a name.
"""

from __future__ import annotations

import re

OTHER = "other"

HOSTS = {
    "api.anthropic.com": "anthropic", "claude.googleapis.com": "anthropic", "api.openai.com": "openai",
    "generativelanguage.googleapis.com": "gcp.gemini", "aiplatform.googleapis.com": "gcp.vertex_ai",
    "models.inference.ai.azure.com": "azure.ai.inference", "models.github.ai": "azure.ai.inference",
    "api.mistral.ai": "mistral_ai", "codestral.mistral.ai": "mistral_ai", "api.groq.com": "groq",
    "api.deepseek.com": "deepseek", "api.x.ai": "x_ai", "openrouter.ai": "openrouter",
    "api.cohere.com": "cohere", "api.cohere.ai": "cohere", "api.perplexity.ai": "perplexity",
    "api.together.xyz": "together_ai", "api.together.ai": "together_ai", "api.cerebras.ai": "cerebras",
    "router.huggingface.co": "huggingface", "api-inference.huggingface.co": "huggingface",
    "api.writer.com": "writer", "api.z.ai": "z_ai", "open.bigmodel.cn": "z_ai",
    "api.moonshot.ai": "moonshot_ai", "api.moonshot.cn": "moonshot_ai", "api.fireworks.ai": "fireworks_ai",
    "api.voyageai.com": "voyageai", "api.sambanova.ai": "sambanova", "api.deepinfra.com": "deepinfra",
    "integrate.api.nvidia.com": "nvidia", "ollama.com": "ollama",
}  # fmt: skip
_SUFFIXES = (
    (".api.openai.com", "openai"), (".openai.azure.com", "azure.ai.openai"),
    (".cognitiveservices.azure.com", "azure.ai.openai"), (".services.ai.azure.com", "azure.ai.inference"),
    (".models.ai.azure.com", "azure.ai.inference"), (".inference.ml.azure.com", "azure.ai.inference"),
    (".aiplatform.googleapis.com", "gcp.vertex_ai"), ("-aiplatform.googleapis.com", "gcp.vertex_ai"),
    (".rep.googleapis.com", "gcp.vertex_ai"), (".snowflakecomputing.com", "snowflake"),
    (".ml.cloud.ibm.com", "ibm.watsonx.ai"), (".inference.heroku.com", "heroku"),
    (".endpoints.huggingface.cloud", "huggingface"), (".api.x.ai", "x_ai"),
    (".openrouter.ai", "openrouter"),
)  # fmt: skip
SUFFIXES = (*(suffix for suffix, _ in _SUFFIXES), ".amazonaws.com", ".api.aws")
# Segments of a path by which gateways name the provider they pass a request on to.
_SEGMENTS = {
    "anthropic": "anthropic", "openai": "openai", "azure": "azure.ai.openai",
    "azure-openai": "azure.ai.openai", "aws-bedrock": "aws.bedrock", "bedrock": "aws.bedrock",
    "google-ai-studio": "gcp.gemini", "gemini": "gcp.gemini", "google-vertex-ai": "gcp.vertex_ai",
    "vertex_ai": "gcp.vertex_ai", "mistral": "mistral_ai", "groq": "groq", "deepseek": "deepseek",
    "grok": "x_ai", "xai": "x_ai", "openrouter": "openrouter", "cohere": "cohere",
    "perplexity": "perplexity", "perplexity-ai": "perplexity", "together": "together_ai",
    "cerebras": "cerebras", "huggingface": "huggingface",
}  # fmt: skip
GATEWAY_SEGMENT = re.compile(f"/({'|'.join(_SEGMENTS)})(?=/)").search


def provider_by_suffix(host: str, path: str) -> str | None:
    """Return the provider of a host in a domain of `SUFFIXES`, ``None`` where none is named."""
    for suffix, provider in _SUFFIXES:
        if host.endswith(suffix):
            return _azure(path) if provider == "azure.ai.inference" else provider
    return _aws(host)


def provider_in_path(path: str) -> str | None:
    """Return the provider that a gateway's path names. It says who answers, not that it is a call."""
    if "/openai/deployments/" in path:
        return "azure.ai.openai"
    segment = GATEWAY_SEGMENT(path)
    return None if segment is None else _SEGMENTS[segment[1]]


def _azure(path: str) -> str:
    """Tell the three APIs of one Azure resource apart; Claude's own SDK calls its one ``anthropic`` (D)."""
    if "/openai/" in path:
        return "azure.ai.openai"
    return "anthropic" if "/anthropic/" in path else "azure.ai.inference"


def _aws(host: str) -> str | None:
    if host.startswith("bedrock"):
        return "aws.bedrock"
    return "anthropic" if host.startswith("aws-external-anthropic") else None
