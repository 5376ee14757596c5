"""Anthropic Messages, on whatever host they are served (D: the Messages API).

First party, gateways, Vertex ``rawPredict``, Foundry and Bedrock Mantle all answer alike.
``usage`` of ``message_delta`` is cumulative.
The output count of ``message_start`` is a placeholder, so it is kept but not final.
"""

from __future__ import annotations

from functools import partial
from typing import Any

import msgspec
from msgspec import Raw, Struct

from lz_otel._extract.hosts import OTHER
from lz_otel._extract.reader import Reader
from lz_otel._extract.request import NOTHING, Fields
from lz_otel._extract.usage import settle, state
from lz_otel._extract.values import add_fee, json_object, json_objects, label_name, loads
from lz_otel._ground.unreadable import UNREADABLE
from lz_otel.model import Facts, Request


class _Delta(Struct, gc=False):
    text: Any = None
    partial_json: Any = None
    thinking: Any = None
    zeroing_mask: Any = None


class _DeltaEvent(Struct, gc=False):
    delta: _Delta | None = None


class _Event(Struct, gc=False):
    type: Any = None
    message: Raw = NOTHING
    delta: Any = None
    content_block: Any = None
    usage: Any = None
    error: Any = None


class _Block(Struct, gc=False):
    type: Any = None
    text: Any = None
    thinking: Any = None
    name: Any = None


class _Message(Struct, gc=False):
    type: Any = None
    id: Any = None
    model: Any = None
    content: list[_Block] = []
    stop_reason: Any = None
    usage: Any = None
    diagnostics: Any = None
    error: Any = None


_VERSION = frozenset({"anthropic-version"})
# Tools that the usage counts, or bills as tokens of another model
_COUNTED_TOOLS = frozenset({"web_search", "web_fetch", "advisor"})
_WITH_FREE_CODE = (b'"web_search_2026', b'"web_fetch_2026')  # code execution beside these is free (D)
_NAMES_IN_USAGE = ("service_tier", "speed", "inference_geo")
_DELTA = msgspec.json.Decoder(_DeltaEvent)
_EVENT = msgspec.json.Decoder(_Event)
_MESSAGE = msgspec.json.Decoder(_Message)


class MessagesReader(Reader):
    """Answers of the Messages API, plain and streamed."""

    _ends = False  # the final output count was stated

    def _event(self, name: bytes, data: bytes) -> int:
        if name == b"content_block_delta":
            try:
                delta = _DELTA.decode(data).delta
            except UNREADABLE:
                event = self._decode(_DELTA, data)
                if event is None:
                    self._bad_event(data)
                    return 0
                delta = event.delta
            if delta is None:
                return 0
            if delta.zeroing_mask is not None and self.facts.mask_sink is not None:
                self._masks.append(delta.zeroing_mask)
            text = delta.text
            if text:
                if type(text) is str:
                    self._only_text = text
                return self._text(text)
            return 1 if delta.partial_json else self._thought(delta.thinking)
        return self._other_event(name, data)

    def _other_event(self, name: bytes, data: bytes) -> int:
        event = self._decode(_EVENT, data)
        if event is None:
            self._bad_event(data)
            return 0
        kind = event.type or name.decode("latin-1")
        facts = self.facts
        if kind == "content_block_delta":
            return self._event(b"content_block_delta", data)
        if kind == "content_block_start":
            block = json_object(event.content_block)
            if block.get("type") == "fallback":
                self._names(model=json_object(block.get("to")).get("model"))
            elif block.get("type") == "server_tool_use":
                self._server_tool(block.get("name"))
            elif block.get("type") == "redacted_thinking":
                return self._thought(True)
            return self._text(block.get("text"))
        if kind == "message_start":
            message = self._decode(_MESSAGE, bytes(event.message))
            if message is None:
                self._note("event")
            else:
                self._message(message, final=False)
        elif kind == "message_delta":
            self._names(reason=json_object(event.delta).get("stop_reason"))
            self._stated(event.usage, final=True)
        elif kind == "message_stop":
            facts.terminal = True
            self._stated(event.usage, final=True)
        elif kind == "error":
            self._stated_error(event.error, in_stream=True)
        return 0

    def _document(self, body: bytes) -> bool:
        try:
            message = _MESSAGE.decode(body)
        except UNREADABLE:
            found = self._decode(_MESSAGE, body)
            if found is None:
                return False
            message = found
        if message.type == "error":
            self._stated_error(message.error)
            return True
        self._message(message, final=True)
        keep = self.facts.text_sink is not None
        content = False
        for block in message.content:
            if block.type == "text":
                if type(block.text) is str and block.text:
                    content = True
                    if keep:
                        self._texts.append(block.text)
            elif block.type == "thinking":
                content = content or bool(block.thinking)
            elif block.type != "fallback":
                content = True
                if block.type == "server_tool_use":
                    self._server_tool(block.name)
        self.facts.has_content = content
        self._end()
        self._summed_up = True
        return True

    def _message(self, message: _Message, *, final: bool) -> None:
        self._names(message.id, message.model, reason=message.stop_reason)
        self._stated(message.usage, final=final)
        if message.diagnostics is not None:
            reason = json_object(json_object(message.diagnostics).get("cache_miss_reason")).get("type")
            self.facts.cache_diagnosis = label_name(reason)

    def _server_tool(self, name: Any) -> None:
        """Note a tool that the provider ran, where the usage does not count it: code execution (D)."""
        name = label_name(name)
        if name is None or name in _COUNTED_TOOLS:
            return
        fields = self.facts.request_fields
        asked = b"" if fields is None else bytes(fields.tools)
        if "code_execution" in name and any(tool in asked for tool in _WITH_FREE_CODE):
            return
        add_fee(self.facts, "tool_search" if name.startswith("tool_search") else name, 1)

    def _stated(self, usage: Any, *, final: bool) -> None:
        """Take over what a usage object states."""
        if self._usage is None and type(usage) is dict:
            self._usage = usage
        else:
            state(self, usage)
        if final and self._usage is not None and self._usage.get("output_tokens") is not None:
            self._ends = True

    def _end(self) -> None:
        usage = self._usage
        if usage is None:
            return
        facts = self.facts
        uncached, read, written, facts.output_tokens = self._counts(
            usage, "input_tokens", "cache_read_input_tokens", "cache_creation_input_tokens", "output_tokens"
        )
        split = usage.get("cache_creation")
        if type(split) is dict:
            facts.cache_write_5m_tokens, facts.cache_write_1h_tokens = short, long = self._counts(
                split, "ephemeral_5m_input_tokens", "ephemeral_1h_input_tokens"
            )
            if written is None and (short is not None or long is not None):
                written = (short or 0) + (long or 0)  # the one is the sum of the others (D)
        facts.cache_read_tokens, facts.cache_write_tokens = read, written
        if uncached is not None:
            facts.input_tokens = uncached + (read or 0) + (written or 0)
        details = usage.get("output_tokens_details")
        if type(details) is dict:
            facts.reasoning_tokens = self._count(details, "thinking_tokens")
            settle(self, None, (), ())
        tools = usage.get("server_tool_use")
        if type(tools) is dict:
            for key in tools:
                add_fee(facts, key.removesuffix("_requests"), self._count(tools, key))
        for name in _NAMES_IN_USAGE:
            if name in usage:
                setattr(facts, name, label_name(usage[name]))
        facts.output_final = self._ends and facts.output_tokens is not None
        facts.usage_seen = facts.output_final and facts.input_tokens is not None
        report = usage.get("layer_zero")
        if type(report) is dict:
            facts.layer_zero = report
        elif report is not None:
            self._note("layer_zero")
        if "iterations" in usage:
            self._iterations(usage["iterations"])

    def _iterations(self, iterations: Any) -> None:
        """Read the attempts within one answer: which answered in the end, and what is billed besides."""
        besides = []
        for entry in json_objects(iterations, 64):
            kind = entry.get("type")
            if kind == "fallback_message":
                self._names(model=entry.get("model"))
            elif kind in ("compaction", "advisor_message"):
                besides.append(entry)
        if besides:
            self.facts.billed_besides = besides


class CountReader(Reader):
    """``count_tokens``: the count is no usage; nothing was generated, nothing is billed (D)."""

    def _document(self, body: bytes) -> bool:
        answer = loads(body)
        if type(answer) is not dict:
            return False
        # Anthropic, OpenAI; Bedrock; Gemini
        for key in ("input_tokens", "inputTokens", "totalTokens"):
            if self.facts.counted_tokens is None:
                self.facts.counted_tokens = self._count(answer, key)
        return True


class _Completion(Struct, gc=False):
    type: Any = None
    id: Any = None
    model: Any = None
    completion: Any = None
    stop_reason: Any = None
    error: Any = None


class CompleteReader(Reader):
    """The legacy Text Completions API, which states no usage in its body (D)."""

    _EVENT = _ANSWER = msgspec.json.Decoder(_Completion)

    def _take_event(self, name: bytes, event: _Completion) -> int:
        if event.type == "error" or name == b"error":
            self._stated_error(event.error, in_stream=True)
            return 0
        return self._take_answer(event)

    def _take_answer(self, answer: _Completion) -> int:
        facts = self.facts
        self._names(answer.id, answer.model, reason=answer.stop_reason)
        facts.terminal = facts.terminal or bool(facts.finish_reasons)
        return self._text(answer.completion)


def _reader(
    cls: type[Reader], operation: str, request: Request, provider: str | None, fields: Fields | None
) -> Reader | None:
    """Return a reader of Anthropic's shape, ``None`` where neither host, header nor body shows it."""
    if provider == "anthropic" or not request.headers.lacks[_VERSION]:
        owner = provider or "anthropic"
    elif fields is not None and type(fields.model) is str and fields.messages is not None:
        owner = provider or OTHER
    else:
        return None
    chat = operation == "chat"
    return cls(Facts(owner, operation, inference=chat, llm_call=chat), fields)


messages = partial(_reader, MessagesReader, "chat")  # POST .../v1/messages
count_tokens = partial(_reader, CountReader, "count_tokens")  # POST .../v1/messages/count_tokens


def complete(request: Request, provider: str | None, fields: Fields | None) -> Reader | None:
    """Read ``POST .../v1/complete``."""
    shaped = fields is not None and type(fields.model) is str and len(bytes(fields.prompt)) > 2
    if provider != "anthropic" and not (shaped and not request.headers.lacks[_VERSION]):
        return None
    facts = Facts(provider or "anthropic", "text_completion", inference=True, llm_call=True)
    return CompleteReader(facts, fields)
