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
    elsewhere,
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

__all__ = ["again", "candidate", "identify", "limits"]

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
# The same of exchanges that say how a call goes on; a segment with a slash is the one before the last.
_AGAIN_ROWS: dict[str, tuple[tuple[Dialect, str], ...]] = {
    "GET": (
        (elsewhere.response, "responses/"),
        (elsewhere.run, "runs/"),
        (elsewhere.interaction, "interactions/"),
        (elsewhere.batch, "batches/ jobs/"),
        (elsewhere.lines, "results content :download"),
    ),
    "POST": (
        (elsewhere.run, "submit_tool_outputs cancel"),
        (elsewhere.response, "cancel"),
        (elsewhere.interaction, "cancel"),
        (elsewhere.batch, "batches jobs :batchGenerateContent"),
    ),
}


def _table(rows: tuple[tuple[Dialect, str], ...]) -> dict[str, tuple[Dialect, ...]]:
    table: dict[str, tuple[Dialect, ...]] = {}
    for dialect, segments in rows:
        for segment in segments.split():
            table[segment] = (*table.get(segment, ()), dialect)
    return table


_TABLE = _table(_ROWS)
_AGAIN = {method: _table(rows) for method, rows in _AGAIN_ROWS.items()}


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


def again(method: str, path: str) -> tuple[Dialect, ...] | None:
    """Return what may read an exchange that runs no model and says how a call goes on: a poll, a file.

    Two or three look-ups, for each ``GET`` of the host, and each ``POST`` that is no `candidate`.
    """
    table = _AGAIN.get(method)
    if table is None:
        return None
    head, _, tail = path.rpartition("/")
    found = table.get(tail)
    if found is None:
        found = table.get(head[head.rfind("/") + 1 :] + "/")
        if found is None and ":" in tail:
            return table.get(tail[tail.rfind(":") :])
    return found
