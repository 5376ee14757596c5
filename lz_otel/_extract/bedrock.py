"""Amazon Bedrock Converse (D), and what InvokeModel shares with it.

``inputTokens`` excludes cached and written tokens. A stream is one of AWS frames; an error
inside it is a frame of its own.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any
from urllib.parse import unquote

import msgspec
from msgspec import Struct, field

from lz_otel._extract.anthropic import CountReader
from lz_otel._extract.provider_error import ProviderError, provider_error
from lz_otel._extract.reader import Reader
from lz_otel._extract.usage import settle, state
from lz_otel._extract.values import error_word, json_object, json_objects, loads, model_name, token_count
from lz_otel.model import Facts, Request

if TYPE_CHECKING:
    from lz_otel._extract.request import Fields


class _Answer(Struct, gc=False):
    output: Any = None
    stop: Any = field(default=None, name="stopReason")
    usage: Any = None
    tier: Any = field(default=None, name="serviceTier")


class _Frame(Struct, gc=False):
    delta: Any = None
    stop: Any = field(default=None, name="stopReason")
    usage: Any = None
    message: Any = None
    tier: Any = field(default=None, name="serviceTier")


def exception(reader: Reader, event: bytes, data: bytes) -> None:
    """Read a frame of an exception, whose name begins with ``!``."""
    said = provider_error(loads(data))
    kind = error_word(event[1:].decode("latin-1"))
    reader._error(ProviderError(kind or said.type, said.code, said.message), in_stream=True)


class ConverseReader(Reader):
    """Answers of Converse and ConverseStream."""

    _EVENT = msgspec.json.Decoder(_Frame)
    _ANSWER = msgspec.json.Decoder(_Answer)

    def _event(self, name: bytes, data: bytes) -> int:
        if name.startswith(b"!"):
            exception(self, name, data)
            return 0
        return super()._event(name, data)

    def _take_event(self, name: bytes, event: _Frame) -> int:
        if name == b"contentBlockDelta":
            delta = json_object(event.delta)
            text = delta.get("text")
            if text:
                return self._text(text)
            if json_object(delta.get("toolUse")).get("input"):
                return 1
            thought = json_object(delta.get("reasoningContent"))
            return self._thought(thought.get("text") or thought.get("redactedContent"))
        if name == b"messageStop":
            self._names(reason=event.stop)
        elif name == b"metadata":
            state(self, event.usage)
            self._tier(event.tier)
            self.facts.terminal = True
        return 0

    def _take_answer(self, answer: _Answer) -> int:
        blocks = json_object(json_object(answer.output).get("message")).get("content")
        content = 0
        for block in json_objects(blocks, 10_000):
            thinking = json_object(block.get("reasoningContent"))
            thought = json_object(thinking.get("reasoningText")).get("text") or thinking.get(
                "redactedContent"
            )
            content += self._text(block.get("text")) + bool(thought or "toolUse" in block)
        self._names(reason=answer.stop)
        self._tier(answer.tier)
        state(self, answer.usage)
        return content

    def _tier(self, tier: Any) -> None:
        self._names(tier=tier.get("type") if type(tier) is dict else tier)

    def _end(self) -> None:
        facts = self.facts
        if self._complete and facts.finish_reasons and not facts.stream_error:
            facts.terminal = True
        read_usage(self, self._usage)


def read_usage(reader: Reader, usage: Any) -> None:
    """Read the usage object of Converse and of Amazon's own models."""
    if type(usage) is not dict:
        if usage is not None:
            reader._note("usage")
        return
    facts = reader.facts
    uncached = reader._count(usage, "inputTokens")
    facts.cache_read_tokens = read = _either(reader, usage, "cacheReadInputToken")
    facts.cache_write_tokens = written = _either(reader, usage, "cacheWriteInputToken")
    if uncached is not None:
        facts.input_tokens = uncached + (read or 0) + (written or 0)
    facts.output_tokens = reader._count(usage, "outputTokens")
    for entry in json_objects(usage.get("cacheDetails"), 8):
        number = token_count(entry.get("inputTokens"))
        if entry.get("ttl") == "5m":
            facts.cache_write_5m_tokens = number
        elif entry.get("ttl") == "1h":
            facts.cache_write_1h_tokens = number
    settle(reader, usage.get("totalTokens"), (-(read or 0), -(written or 0)), ())
    facts.usage_seen = facts.input_tokens is not None
    facts.output_final = facts.output_tokens is not None


def _either(reader: Reader, usage: dict[str, Any], stem: str) -> int | None:
    """Return a count in either of its two spellings: ``...Tokens`` or ``...TokenCount``."""
    plural = f"{stem}s"
    return reader._count(usage, plural if usage.get(plural) is not None else f"{stem}Count")


def model_in_path(request: Request, provider: str | None) -> str | None:
    """Return the model in ``/model/{id}/{action}``; ``None`` when it is not Bedrock's path."""
    before, _, _ = request.path.rstrip("/").rpartition("/")
    rest, _, model = before.rpartition("/")
    if not rest.endswith("/model") or not model:
        return None
    model = unquote(model)
    # On hosts that are not AWS's own, the model has to look like Bedrock's: vendor.model or an ARN.
    return model if provider == "aws.bedrock" or "." in model or model.startswith("arn:") else None


def converse(request: Request, provider: str | None, fields: Fields | None) -> Reader | None:
    """Read ``POST /model/{id}/converse`` and ``/converse-stream``."""
    model = model_in_path(request, provider)
    if model is None:
        return None
    if fields is not None:
        fields.tools = fields.tool_config
    reader = ConverseReader(Facts(provider or "aws.bedrock", "chat", inference=True, llm_call=True), fields)
    reader.facts.request_model = model_name(model)
    reader.facts.stream = request.path.endswith("-stream")
    return reader


def count_tokens(request: Request, provider: str | None, fields: Fields | None) -> Reader | None:
    """Read ``POST /model/{id}/count-tokens``."""
    model = model_in_path(request, provider)
    if model is None:
        return None
    facts = Facts(provider or "aws.bedrock", "count_tokens", inference=False, llm_call=False)
    facts.request_model = model_name(model)
    return CountReader(facts)
