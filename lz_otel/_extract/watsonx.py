"""IBM watsonx.ai (D): text generation in its own shape, chat in OpenAI's.

In a stream the input count stands only in the first event, 0 afterwards; the output count is a
running total.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

import msgspec
from msgspec import Struct, field

from lz_otel._extract.openai import ChatReader
from lz_otel._extract.reader import Reader
from lz_otel._extract.usage import largest
from lz_otel._extract.values import json_objects, label_name
from lz_otel.model import Facts, Request

if TYPE_CHECKING:
    from lz_otel._extract.request import Fields

_PROVIDER = "ibm.watsonx.ai"


class _Answer(Struct, gc=False):
    model_id: Any = None
    results: Any = None
    input_token_count: Any = None
    error: Any = field(default=None, name="errors")


class GenerationReader(Reader):
    """Answers of text generation, plain and streamed, and of embeddings."""

    _EVENT = _ANSWER = msgspec.json.Decoder(_Answer)
    _input: Any = None
    _output: Any = None

    def _take_answer(self, answer: _Answer) -> int:
        facts = self.facts
        self._names(model=facts.response_model or answer.model_id)
        self._input = largest(self._input, answer.input_token_count)
        content = 0
        for result in json_objects(answer.results, 128):
            content += self._text(result.get("generated_text"))
            self._input = largest(self._input, result.get("input_token_count"))
            self._output = largest(self._output, result.get("generated_token_count"))
            reason = label_name(result.get("stop_reason"))
            if reason is not None and reason.lower() != "not_finished":
                facts.finish_reasons = [reason]
                facts.terminal = True
        return content

    def _end(self) -> None:
        facts = self.facts
        stated = {"input": self._input, "output": self._output}
        facts.input_tokens, facts.output_tokens = self._counts(stated, "input", "output")
        facts.usage_seen = facts.terminal and facts.input_tokens is not None
        facts.output_final = facts.terminal and facts.output_tokens is not None


def _reader(
    cls: type[Reader], operation: str, request: Request, provider: str | None, fields: Fields | None
) -> Reader | None:
    if provider != _PROVIDER:
        return None
    if fields is not None and type(fields.model_id) is str and fields.model_id:
        fields.model = fields.model_id
    reader = cls(Facts(_PROVIDER, operation, inference=operation != "embeddings", llm_call=True), fields)
    reader.facts.stream = request.path.endswith("_stream")
    return reader


# POST /ml/v1/text/..., and the first two with _stream at the end
generation = partial(_reader, GenerationReader, "text_completion")
chat = partial(_reader, ChatReader, "chat")
embeddings = partial(_reader, GenerationReader, "embeddings")
