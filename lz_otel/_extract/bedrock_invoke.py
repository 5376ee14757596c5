"""Amazon Bedrock InvokeModel (D): each vendor's own shape, in AWS frames when streamed.

Where the body states no usage, response headers or the stream's invocation metrics do.
"""

from __future__ import annotations

from base64 import b64decode
from functools import partial
from typing import Any

import msgspec
from msgspec import Raw, Struct, field

from lz_otel._extract.anthropic import MessagesReader
from lz_otel._extract.bedrock import exception, model_in_path, read_usage
from lz_otel._extract.openai import ChatReader
from lz_otel._extract.reader import Reader
from lz_otel._extract.request import NOTHING, Fields
from lz_otel._extract.usage import state
from lz_otel._extract.values import json_object, json_objects, label_name, model_name, token_count
from lz_otel.model import Facts, Request


class _Invoked(Struct, gc=False):
    """What the vendors' own shapes may hold; embeddings and the like are passed over."""

    id: Any = None
    generation: Any = None  # Llama
    prompt_token_count: Any = None
    generation_token_count: Any = None
    stop_reason: Any = None
    completion: Any = None  # Claude 2
    output_text: Any = field(default=None, name="outputText")  # Titan
    completion_reason: Any = field(default=None, name="completionReason")
    results: Any = None
    input_count: Any = field(default=None, name="inputTextTokenCount")
    output_count: Any = field(default=None, name="totalOutputTextTokenCount")
    generations: Any = None  # Cohere
    text: Any = None
    finish_reason: Any = None
    outputs: Any = None  # Mistral
    choices: Raw = NOTHING  # the OpenAI shape
    output: Any = None  # Nova, the Converse shape
    usage: Any = None
    stop: Any = field(default=None, name="stopReason")
    block: Any = field(default=None, name="contentBlockDelta")
    message_stop: Any = field(default=None, name="messageStop")
    metadata: Any = None
    metrics: Any = field(default=None, name="amazon-bedrock-invocationMetrics")


class _Chunk(Struct, gc=False):
    bytes: Any = None


_CHUNK = msgspec.json.Decoder(_Chunk)


def unwrap(reader: Reader, event: bytes, data: bytes) -> bytes | None:
    """Return the vendor's event inside a frame of InvokeModelWithResponseStream."""
    if event.startswith(b"!"):
        exception(reader, event, data)
        return None
    chunk = reader._decode(_CHUNK, data)
    try:
        return b64decode(chunk.bytes, validate=True)  # type: ignore[union-attr]  # None raises as well
    except (ValueError, TypeError, AttributeError):
        reader._note("event")
        return None


def header_counts(reader: Reader) -> None:
    """Read counts of the response headers, where the body stated none."""
    facts = reader.facts
    if facts.input_tokens is not None or facts.output_tokens is not None:
        return
    facts.output_tokens = _header(reader, "output")
    uncached, read, written = map(
        partial(_header, reader), ("input", "cache-read-input", "cache-write-input")
    )
    stated = _whole_prompt(reader, uncached, read, written)
    facts.usage_seen = stated or facts.output_tokens is not None
    facts.output_final = facts.output_tokens is not None


def _whole_prompt(reader: Reader, uncached: int | None, read: int | None, written: int | None) -> bool:
    """Note the input, if it is stated: Bedrock counts what a cache gave or took beside the rest (D)."""
    facts = reader.facts
    facts.cache_read_tokens, facts.cache_write_tokens = read, written
    if uncached is not None:
        facts.input_tokens = uncached + (read or 0) + (written or 0)
    return uncached is not None


def _header(reader: Reader, kind: str) -> int | None:
    value = reader._headers.get(f"x-amzn-bedrock-{kind}-token-count", "").strip()
    if not value:
        return None
    if value.isascii() and value.isdigit() and len(value) <= 15:
        return int(value)
    reader._note("usage")
    return None


class ClaudeReader(MessagesReader):
    """Claude by InvokeModel: Messages, inside AWS frames when streamed."""

    def _event(self, name: bytes, data: bytes) -> int:
        if name in (b"chunk", b"") or name.startswith(b"!"):
            inner = unwrap(self, name, data) if name else data
            return 0 if inner is None else self._other_event(b"", inner)
        return super()._event(name, data)

    def _end(self) -> None:
        super()._end()
        header_counts(self)


class InvokeReader(Reader):
    """Other vendors' models by InvokeModel."""

    _ANSWER = msgspec.json.Decoder(_Invoked)
    _chat: ChatReader | None = None  # reads the OpenAI shape
    _metrics: dict[str, Any] | None = None
    _input: Any = None
    _output: Any = None

    def _event(self, name: bytes, data: bytes) -> int:
        inner = unwrap(self, name, data)
        if inner is None:
            return 0
        said = self._decode(self._ANSWER, inner)
        if said is None:
            self._bad_event(inner)
            return 0
        if len(bytes(said.choices)):
            return self._openai()._event(b"", inner)
        return 1 if self._take_answer(said) else 0

    def _openai(self) -> ChatReader:
        if self._chat is None:
            self._chat = ChatReader(self.facts)
        return self._chat

    def _document(self, body: bytes) -> bool:
        said = self._decode(self._ANSWER, body)
        if said is None:
            return False
        if len(bytes(said.choices)):
            return self._openai()._document(body)
        self.facts.has_content = self._take_answer(said) > 0
        return True

    def _take_answer(self, said: _Invoked) -> int:
        facts = self.facts
        self._names(said.id)
        reasons = [said.stop_reason, said.finish_reason, said.completion_reason, said.stop]
        reasons.append(json_object(said.message_stop).get("stopReason"))
        content = sum(
            self._text(text) for text in (said.generation, said.completion, said.output_text, said.text)
        )
        for many in (said.generations, said.results, said.outputs):
            for one in json_objects(many, 128):
                content += self._text(one.get("text") or one.get("outputText"))
                reasons += [one.get("finish_reason") or one.get("completionReason") or one.get("stop_reason")]
                if many is said.results and token_count(one.get("tokenCount")) is not None:
                    self._output = (self._output or 0) + one["tokenCount"]
        blocks = json_object(json_object(said.output).get("message")).get("content")
        for block in json_objects(blocks, 1000):
            content += self._text(block.get("text")) + ("toolUse" in block)
        delta = json_object(json_object(said.block).get("delta"))
        content += self._text(delta.get("text")) or bool(json_object(delta.get("toolUse")).get("input"))
        named = [found for found in map(label_name, reasons) if found is not None]
        if named:
            facts.finish_reasons = named
            facts.terminal = True
        self._numbers(said)
        return content

    def _numbers(self, said: _Invoked) -> None:
        for value in (said.prompt_token_count, said.input_count):
            self._input = value if value is not None else self._input
        for value in (said.generation_token_count, said.output_count):
            self._output = value if value is not None else self._output
        usage = said.usage if said.usage is not None else json_object(said.metadata).get("usage")
        state(self, usage)
        self._metrics = json_object(said.metrics) or self._metrics

    def _end(self) -> None:
        facts = self.facts
        if self._chat is not None:
            self._chat._complete = self._complete
            self._chat._end()
        elif self._usage is not None:
            read_usage(self, self._usage)
        else:
            stated = {"input": self._input, "output": self._output}
            facts.input_tokens, facts.output_tokens = self._counts(stated, "input", "output")
            final = facts.terminal or facts.operation == "embeddings"
            facts.usage_seen = final and (facts.input_tokens is not None or facts.output_tokens is not None)
            facts.output_final = final and facts.output_tokens is not None
        if facts.input_tokens is None and facts.output_tokens is None and self._metrics:
            uncached, read, written, facts.output_tokens = self._counts(
                self._metrics,
                "inputTokenCount",
                "cacheReadInputTokenCount",
                "cacheWriteInputTokenCount",
                "outputTokenCount",
            )
            _whole_prompt(self, uncached, read, written)
            facts.usage_seen = facts.input_tokens is not None
            facts.output_final = facts.output_tokens is not None
            facts.terminal = True
        header_counts(self)


def invoke(request: Request, provider: str | None, fields: Fields | None) -> Reader | None:
    """Read ``POST /model/{id}/invoke`` and ``/invoke-with-response-stream``."""
    model = model_in_path(request, provider)
    if model is None:
        return None
    operation = _operation(model, fields)
    inference = operation in ("chat", "text_completion")
    facts = Facts(provider or "aws.bedrock", operation, inference=inference, llm_call=True)
    claude = operation == "chat" and (
        "anthropic." in model or b"anthropic_version" in (request.body or b"")[:4096]
    )
    reader = ClaudeReader(facts, fields) if claude else InvokeReader(facts, fields)
    facts.request_model = model_name(model)
    facts.stream = request.path.endswith("-stream")
    return reader


def _operation(model: str, fields: Fields | None) -> str:
    if "embed" in model:
        return "embeddings"
    if fields is not None and fields.messages is not None:
        return "chat"
    if any(part in model for part in ("stability.", "image", "canvas", "reel", "rerank")):
        return "other"
    return "text_completion"
