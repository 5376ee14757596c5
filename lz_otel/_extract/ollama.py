"""Ollama's own API (D): ``/api/chat``, ``/api/generate``, ``/api/embed``.

It runs on whatever host its user likes, so the path and the body tell. A stream is the default;
it is one JSON document per line, and the last one holds the counts.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

import msgspec
from msgspec import Struct

from lz_otel._extract.reader import Reader
from lz_otel._extract.values import json_object
from lz_otel.model import Facts, Request

if TYPE_CHECKING:
    from lz_otel._extract.request import Fields


class _Line(Struct, gc=False):
    model: Any = None
    message: Any = None
    response: Any = None
    thinking: Any = None
    done: Any = None
    done_reason: Any = None
    prompt_eval_count: Any = None
    eval_count: Any = None
    error: Any = None


class OllamaReader(Reader):
    """Answers of Ollama, plain and streamed."""

    _EVENT = _ANSWER = msgspec.json.Decoder(_Line)

    def _take_answer(self, line: _Line) -> int:
        facts = self.facts
        self._names(model=facts.response_model or line.model)
        message = json_object(line.message)
        content = self._text(message.get("content")) or self._text(line.response)
        if not content and not message.get("tool_calls"):
            content = self._thought(message.get("thinking") or line.thinking)
        content = content or int(bool(message.get("tool_calls")))
        if line.done is True:
            facts.terminal = True
            self._names(reason=line.done_reason)
        if line.done is True or facts.operation == "embeddings":
            self._counts_of(line)
        return content

    def _counts_of(self, line: _Line) -> None:
        facts = self.facts
        stated = {"input": line.prompt_eval_count, "output": line.eval_count}
        facts.input_tokens, facts.output_tokens = self._counts(stated, "input", "output")
        facts.usage_seen = facts.input_tokens is not None or facts.output_tokens is not None
        facts.output_final = facts.output_tokens is not None


def _reader(operation: str, request: Request, provider: str | None, fields: Fields | None) -> Reader | None:
    if not request.path.rstrip("/").rpartition("/")[0].endswith("/api"):
        return None
    if provider != "ollama":
        if fields is None or type(fields.model) is not str:
            return None
        if operation == "chat" and fields.messages is None:
            return None
        if operation != "chat" and not len(bytes(fields.prompt)) and not len(bytes(fields.input)):
            return None
    facts = Facts(provider or "ollama", operation, inference=operation != "embeddings", llm_call=True)
    reader = OllamaReader(facts, fields)
    facts.stream = operation != "embeddings" and (fields is None or fields.stream is not False)
    return reader


chat = partial(_reader, "chat")  # POST /api/chat
generate = partial(_reader, "text_completion")  # POST /api/generate
embed = partial(_reader, "embeddings")  # POST /api/embed and the older /api/embeddings
