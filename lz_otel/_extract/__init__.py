"""Extract: what an HTTP exchange with an LLM API says about itself.

``candidate`` looks at each request of the host (a dict lookup), ``identify`` at the few whose
path could be an LLM API's; the reader it gives fills ``model.Facts`` while the body passes.

A provider is one file with readers and a line in ``_TABLE``.
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

# By the last segment of the path, or the verb after its colon.
_TABLE: dict[str, tuple[Dialect, ...]] = {
    "messages": (anthropic.messages,),
    "count_tokens": (anthropic.count_tokens,),
    "complete": (anthropic.complete,),
    "completions": (openai.completions,),
    "responses": (responses.responses,),
    "compact": (responses.compact,),
    "input_tokens": (responses.input_tokens,),
    "embeddings": (watsonx.embeddings, openai_misc.embeddings, ollama.embed),
    "moderations": (openai_misc.moderations,),
    "generations": (openai_misc.media,),
    "edits": (openai_misc.media,),
    "variations": (openai_misc.media,),
    "speech": (openai_misc.media,),
    "transcriptions": (openai_misc.media,),
    "translations": (openai_misc.media,),
    "rerank": (cohere.rerank, openai_misc.rerank),
    "runs": (openai_misc.runs,),
    "chat": (cohere.chat, watsonx.chat, openai.chat, ollama.chat),
    "chat_stream": (watsonx.chat,),
    "generation": (watsonx.generation,),
    "generation_stream": (watsonx.generation,),
    "text": (watsonx.generation,),
    "text_stream": (watsonx.generation,),
    "generate": (ollama.generate,),
    "embed": (cohere.embed, ollama.embed),
    "interactions": (gemini.interactions,),
    ":generateContent": (gemini.generate,),
    ":streamGenerateContent": (gemini.generate,),
    ":embedContent": (gemini.embed,),
    ":batchEmbedContents": (gemini.embed,),
    ":countTokens": (gemini.count_tokens,),
    ":predict": (gemini.predict,),
    ":rawPredict": (gemini.raw_predict,),
    ":streamRawPredict": (gemini.raw_predict,),
    "converse": (bedrock.converse,),
    "converse-stream": (bedrock.converse,),
    "invoke": (bedrock_invoke.invoke,),
    "invoke-with-response-stream": (bedrock_invoke.invoke,),
    "count-tokens": (bedrock.count_tokens,),
    ":complete": (openai.chat,),
}


def candidate(method: str, path: str) -> tuple[Dialect, ...] | None:
    """The dialects that a request could speak, ``None`` for everything that is no LLM API.

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
