"""IBM watsonx.ai (D): text generation in its own shape, chat in OpenAI's.

In a stream the input count stands only in the first event, 0 afterwards; the output count is a
running total.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec
from msgspec import Struct

from lz_otel._extract.openai import ChatReader
from lz_otel._extract.reader import Reader
from lz_otel._extract.request import Fields, decode_request, read_fields
from lz_otel._extract.values import json_object, label_name, model_name, token_count
from lz_otel.model import Facts

if TYPE_CHECKING:
    from lz_otel.model import Request

__all__ = ["chat", "embeddings", "generation"]

_PROVIDER = "ibm.watsonx.ai"


class _Request(Fields, gc=False):
    model_id: Any = None


class _Answer(Struct, gc=False):
    model_id: Any = None
    results: Any = None
    input_token_count: Any = None
    errors: Any = None


_REQUEST = msgspec.json.Decoder(_Request)
_ANSWER = msgspec.json.Decoder(_Answer)


class GenerationReader(Reader):
    """Answers of text generation, plain and streamed, and of embeddings."""

    __slots__ = ("_input", "_output")

    def __init__(self, facts: Facts) -> None:
        super().__init__(facts)
        self._input: Any = None
        self._output: Any = None

    def _event(self, name: bytes, data: bytes) -> int:
        answer = self._decode(_ANSWER, data)
        if answer is None:
            self._bad_event(data)
            return 0
        if answer.errors is not None:
            self._stated_error(answer.errors, in_stream=True)
        return 1 if self._take(answer) else 0

    def _document(self, body: bytes) -> bool:
        answer = self._decode(_ANSWER, body)
        if answer is None:
            return False
        self.facts.has_content = self._take(answer) > 0
        return True

    def _take(self, answer: _Answer) -> int:
        facts = self.facts
        facts.response_model = facts.response_model or model_name(answer.model_id)
        self._input = self._input or answer.input_token_count
        content = 0
        for result in answer.results[:128] if type(answer.results) is list else ():
            result = json_object(result)
            content += self._text(result.get("generated_text"))
            self._input = self._input or result.get("input_token_count")
            output = result.get("generated_token_count")
            if output is not None:
                self._output = (
                    output if not token_count(self._output) else max(token_count(output) or 0, self._output)
                )
            reason = label_name(result.get("stop_reason"))
            if reason is not None and reason.lower() != "not_finished":
                facts.finish_reasons = [reason]
                facts.terminal = True
        return content

    def _end(self) -> None:
        facts = self.facts
        stated = {"input": self._input, "output": self._output}
        facts.input_tokens = self._count(stated, "input")
        facts.output_tokens = self._count(stated, "output")
        facts.usage_seen = facts.terminal and facts.input_tokens is not None
        facts.output_final = facts.terminal and facts.output_tokens is not None


def _facts(request: Request, provider: str | None, operation: str) -> Facts | None:
    if provider != _PROVIDER:
        return None
    fields = decode_request(request, _REQUEST)
    facts = Facts(_PROVIDER, operation, inference=operation != "embeddings", llm_call=True)
    read_fields(facts, fields)
    if fields is not None:
        facts.request_model = model_name(fields.model_id) or facts.request_model
    facts.stream = request.path.endswith("_stream")
    return facts


def generation(request: Request, provider: str | None) -> Reader | None:
    """``POST /ml/v1/text/generation`` and ``generation_stream``."""
    facts = _facts(request, provider, "text_completion")
    return None if facts is None else GenerationReader(facts)


def chat(request: Request, provider: str | None) -> Reader | None:
    """``POST /ml/v1/text/chat`` and ``chat_stream``."""
    facts = _facts(request, provider, "chat")
    return None if facts is None else ChatReader(facts)


def embeddings(request: Request, provider: str | None) -> Reader | None:
    """``POST /ml/v1/text/embeddings``."""
    facts = _facts(request, provider, "embeddings")
    return None if facts is None else GenerationReader(facts)
