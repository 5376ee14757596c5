"""Extract: what an HTTP exchange with an LLM API says about itself.

``candidate`` looks at each request of the host (a dict lookup), ``identify`` at the few whose
path could be an LLM API's; the reader it gives fills ``model.Facts`` while the body passes.

A provider is one file with readers and its rows in ``_ROWS``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from lz_otel._extract import (
    anthropic,
    bedrock,
    bedrock_invoke,
    cohere,
    gemini,
    limits,
    ollama,
    openai,
    openai_misc,
    responses,
    watsonx,
)
from lz_otel._extract.request import identify

if TYPE_CHECKING:
    from lz_otel._extract.request import Dialect

__all__ = ["candidate", "identify", "limits"]

# Each dialect with the last segments of its paths, or verbs after a colon; the first that fits is taken.
_ROWS: tuple[tuple[Dialect, str], ...] = (
    (anthropic.messages, "messages"),
    (anthropic.count_tokens, "count_tokens"),
    (anthropic.complete, "complete"),
    (bedrock.converse, "converse converse-stream"),
    (bedrock.count_tokens, "count-tokens"),
    (bedrock_invoke.invoke, "invoke invoke-with-response-stream"),
    (cohere.chat, "chat"),
    (cohere.embed, "embed"),
    (cohere.rerank, "rerank"),
    (gemini.generate, ":generateContent :streamGenerateContent"),
    (gemini.embed, ":embedContent :batchEmbedContents"),
    (gemini.count_tokens, ":countTokens"),
    (gemini.predict, ":predict"),
    (gemini.raw_predict, ":rawPredict :streamRawPredict"),
    (gemini.interactions, "interactions"),
    (watsonx.chat, "chat chat_stream"),
    (watsonx.generation, "generation generation_stream text text_stream"),
    (watsonx.embeddings, "embeddings"),
    (openai.completions, "completions"),
    (openai.chat, "chat :complete"),
    (openai_misc.embeddings, "embeddings"),
    (openai_misc.moderations, "moderations"),
    (openai_misc.media, "generations edits variations speech transcriptions translations"),
    (openai_misc.rerank, "rerank"),
    (openai_misc.runs, "runs"),
    (responses.responses, "responses"),
    (responses.compact, "compact"),
    (responses.input_tokens, "input_tokens"),
    (ollama.chat, "chat"),
    (ollama.generate, "generate"),
    (ollama.embed, "embed embeddings"),
)
_TABLE: dict[str, tuple[Dialect, ...]] = {}
for _dialect, _segments in _ROWS:
    for _segment in _segments.split():
        _TABLE[_segment] = (*_TABLE.get(_segment, ()), _dialect)


def candidate(method: str, path: str) -> tuple[Dialect, ...] | None:
    """Return the dialects that a request could speak, ``None`` for everything that is no LLM API.

    Only ``POST`` runs a model: lists, polling and reading again never do. Costs well under a
    microsecond for other traffic, since it is asked for every request of the host.
    """
    if method != "POST":
        return None
    tail = path[path.rfind("/") + 1 :]
    found = _TABLE.get(tail)
    if found is None:
        if ":" in tail:
            return _TABLE.get(tail[tail.rfind(":") :])
        if not tail and path.endswith("/"):
            path = path.rstrip("/")
            return _TABLE.get(path[path.rfind("/") + 1 :])
    return found
