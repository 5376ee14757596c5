"""Cohere v1 and v2 (D): chat, embed, rerank.

Billed units are reported, as the GenAI conventions ask; the larger used counts are not. The
cached and the reasoning count belong to the used ones, so each is a count of its own that may exceed
the billed input or output: it is reported as it is stated.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

import msgspec
from msgspec import Struct

from lz_otel._extract.provider_error import ProviderError
from lz_otel._extract.reader import Reader
from lz_otel._extract.values import (
    error_word,
    json_object,
    json_objects,
    label_name,
    nonempty_text,
    token_count,
)
from lz_otel.model import Facts, Request

if TYPE_CHECKING:
    from lz_otel._extract.request import Fields


class _Said(Struct, gc=False):
    id: Any = None
    type: Any = None
    event_type: Any = None
    response_id: Any = None
    text: Any = None
    message: Any = None
    delta: Any = None
    finish_reason: Any = None
    usage: Any = None
    meta: Any = None
    response: Any = None
    tool_calls: Any = None
    tool_call_delta: Any = None


class CohereReader(Reader):
    """Answers of v1 and v2, plain and streamed (SSE, or one JSON document per line)."""

    _EVENT = _ANSWER = msgspec.json.Decoder(_Said)

    def _take_event(self, name: bytes, event: _Said) -> int:
        return self._version_1(event) if event.event_type is not None else self._version_2(event)

    def _version_1(self, said: _Said) -> int:
        if said.event_type == "text-generation":
            return self._text(said.text)
        if said.event_type == "stream-end":
            response = json_object(said.response)
            self._names(response.get("response_id"))
            self._ended(said.finish_reason or response.get("finish_reason"))
            self._counts_of(json_object(response.get("meta")))
        return 1 if said.tool_call_delta else 0

    def _version_2(self, said: _Said) -> int:
        delta = json_object(said.delta)
        if said.type == "message-start":
            self._names(said.id)
        elif said.type == "message-end":
            self._ended(delta.get("finish_reason"))
            self._counts_of(json_object(delta.get("usage")))
            if nonempty_text(delta.get("error")):
                self._error(ProviderError("ERROR", None, nonempty_text(delta.get("error"))), in_stream=True)
        message = json_object(delta.get("message"))
        content = json_object(message.get("content"))
        if content.get("text"):
            return self._text(content["text"])
        if content.get("thinking"):
            return self._thought(True)
        if message.get("tool_plan"):
            return 1
        calls = json_object(message.get("tool_calls"))
        return 1 if json_object(calls.get("function")).get("arguments") else 0

    def _take_answer(self, answer: _Said) -> int:
        self._names(answer.response_id)
        self._names(answer.id)
        message = json_object(answer.message)
        content = self._text(answer.text) + bool(answer.tool_calls or message.get("tool_calls"))
        for part in json_objects(message.get("content"), 1000):
            content += self._text(part.get("text")) or bool(part.get("thinking"))
        self._ended(answer.finish_reason)
        self._counts_of(json_object(answer.usage) or json_object(answer.meta))
        return content

    def _ended(self, reason: Any) -> None:
        found = label_name(reason)
        if found is not None:
            self.facts.finish_reasons = [found]
            self.facts.terminal = True
            if found.startswith("ERROR"):
                self._error(ProviderError(error_word(found)), in_stream=self.facts.stream)

    def _counts_of(self, usage: dict[str, Any]) -> None:
        facts = self.facts
        billed, used = json_object(usage.get("billed_units")), json_object(usage.get("tokens"))
        counts = billed if "input_tokens" in billed or "output_tokens" in billed else used
        facts.input_tokens, facts.output_tokens = self._counts(counts, "input_tokens", "output_tokens")
        facts.cache_read_tokens = token_count(usage.get("cached_tokens"))
        facts.reasoning_tokens = token_count(used.get("reasoning_tokens"))
        # Reranking is billed by search units, which are no tokens
        facts.usage_seen = any(
            token_count(number) is not None for number in (*billed.values(), *counts.values())
        )
        facts.output_final = facts.output_tokens is not None


def _is_cohere(path: str, fields: Fields | None) -> bool:
    """Return whether a request to a host that is not known is meant for this API."""
    if "/cohere/" in path:
        return True
    if fields is None or not isinstance(fields.model, str):
        return False
    return path.endswith("/v2/embed") or (path.endswith("/v2/chat") and bool(fields.messages))


def _reader(operation: str, request: Request, provider: str | None, fields: Fields | None) -> Reader | None:
    if provider != "cohere" and (provider is not None or not _is_cohere(request.path, fields)):
        return None
    facts = Facts("cohere", operation, inference=operation == "chat", llm_call=True)
    return CohereReader(facts, fields)


# POST /v1/... and /v2/...
chat = partial(_reader, "chat")
embed = partial(_reader, "embeddings")
rerank = partial(_reader, "other")
