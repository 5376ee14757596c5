"""OpenAI chat completions and legacy completions, and the many APIs of the same shape (D).

Azure, Mistral, Groq, DeepSeek, xAI, OpenRouter, Perplexity, Together, Cerebras, Snowflake,
Heroku, Z.ai, vLLM, gateways: they differ in where the usage stands, not in the shape.
"""

from __future__ import annotations

from typing import Any

import msgspec
from msgspec import Struct

from lz_otel._extract.hosts import OTHER
from lz_otel._extract.provider_error import ProviderError, provider_error
from lz_otel._extract.reader import Reader
from lz_otel._extract.request import Fields, deployment
from lz_otel._extract.usage import has_counts, read_usage, state
from lz_otel._extract.values import (
    add_fee,
    error_word,
    json_object,
    json_objects,
    label_name,
    loads,
    model_name,
    nonempty_text,
)
from lz_otel._ground.unreadable import UNREADABLE
from lz_otel.model import Facts, Request


class _Said(Struct, gc=False):
    content: Any = None
    reasoning_content: Any = None
    reasoning: Any = None
    refusal: Any = None
    tool_calls: Any = None
    function_call: Any = None
    audio: Any = None
    reasoning_details: Any = None

    def more(self) -> int:
        """1 when there is content besides ``content`` and thinking."""
        return 1 if self.tool_calls or self.refusal or self.function_call or self.audio else 0

    def thoughts(self) -> Any:
        """Return what is truthy when it thinks."""
        return self.reasoning_content or self.reasoning or self.reasoning_details


class _Choice(Struct, gc=False):
    index: Any = 0
    delta: _Said | None = None
    message: _Said | None = None
    text: Any = None
    finish_reason: Any = None
    usage: Any = None  # Moonshot
    error: Any = None  # OpenRouter


class _Chunk(Struct, gc=False):
    choices: list[_Choice] | None = None
    usage: Any = None
    service_tier: Any = None
    error: Any = None
    x_groq: Any = None
    value: Any = None  # Writer's completions


class _Whole(_Chunk, gc=False):
    id: Any = None
    model: Any = None
    provider: Any = None
    prompt_cache_diagnostics: Any = None
    object: Any = None
    type: Any = None
    message: Any = None


class _PlainChoice(Struct, gc=False):
    delta: _Said | None = None
    finish_reason: Any = None
    usage: Any = None
    error: Any = None

    def goes_on(self) -> bool:
        """Return whether nothing is said besides the delta."""
        return self.finish_reason is None and self.usage is None and self.error is None


class _PlainChunk(Struct, gc=False):
    choices: list[_PlainChoice] | None = None
    usage: Any = None


_PLAIN = msgspec.json.Decoder(_PlainChunk)
_CHUNK = msgspec.json.Decoder(_Chunk)
_WHOLE = msgspec.json.Decoder(_Whole)


class ChatReader(Reader):
    """Answers of chat completions and completions, plain and streamed."""

    _ANSWER = _WHOLE
    _decoder: msgspec.json.Decoder[Any] = _WHOLE  # once id and model are known, chunks are read without them
    _usage_ends = False  # the usage came on its own, after the last choice

    def _event(self, name: bytes, data: bytes) -> int:
        if self._decoder is _CHUNK:
            # Nearly every chunk is one choice with a piece of text and nothing else.
            try:
                plain = _PLAIN.decode(data)
                choices = plain.choices
                if choices and len(choices) == 1 and plain.usage is None:
                    said = choices[0].delta
                    if said is not None and choices[0].goes_on():
                        content = said.content
                        if type(content) is str and content:
                            if self.facts.text_sink is not None:
                                self._texts.append(content)
                            self._only_text = content
                            return 1
            except UNREADABLE:
                pass
        return self._chunk(name, data)

    def _chunk(self, name: bytes, data: bytes) -> int:
        try:
            chunk = self._decoder.decode(data)
        except UNREADABLE:
            if data == b"[DONE]":
                self.facts.terminal = True
                return 0
            chunk = self._decode(_WHOLE, data)
            if chunk is None:
                self._bad_event(data)
                return 0
        content = 0
        choices = chunk.choices
        if choices:
            for choice in choices:
                said = choice.delta
                if said is not None:
                    content += self._said(said.content) or said.more() or self._thought(said.thoughts())
                elif choice.text:
                    content += self._text(choice.text)
                if choice.finish_reason is not None:
                    self._choice_ended(choice.index, choice.finish_reason)
                if choice.usage is not None or choice.error is not None:
                    self._beside_choice(choice, in_stream=True)
        elif chunk.value:
            content += self._text(chunk.value)
        elif choices is None and chunk.error is None and chunk.usage is None:
            said = json_object(loads(data))
            if name == b"error" or said.get("object") == "error":
                self._error(provider_error(said), in_stream=True)
        if chunk.usage is not None or chunk.error is not None or chunk.x_groq is not None:
            self._besides(chunk)
        if chunk.service_tier is not None or self._decoder is _WHOLE:
            self._identity(chunk)
        return content

    def _said(self, content: Any) -> int:
        """Content is a string, or (Mistral) a list of parts."""
        if type(content) is not list:
            return self._text(content)
        parts = json_objects(content, 64)
        if sum(self._text(part.get("text")) for part in parts):
            return 1
        return self._thought(any(part.get("thinking") for part in parts))

    def _beside_choice(self, choice: _Choice, *, in_stream: bool) -> None:
        """Read what some say in a choice, others next to it."""
        if has_counts(choice.usage):
            state(self, choice.usage)
        if choice.error is not None:
            self._stated_error(choice.error, in_stream=in_stream)

    def _besides(self, chunk: _Chunk) -> None:
        groq = json_object(chunk.x_groq)
        usage = chunk.usage if chunk.usage is not None else groq.get("usage")
        if usage is not None and (has_counts(usage) or self._usage is None):
            state(self, usage)
            self._usage_ends = not chunk.choices
        error = chunk.error if chunk.error is not None else groq.get("error")
        if error is not None:
            self._stated_error(error, in_stream=True)

    def _identity(self, chunk: _Chunk) -> None:
        facts = self.facts
        if not isinstance(chunk, _Whole):
            self._names(tier=chunk.service_tier)
        else:
            self._names(
                facts.response_id or chunk.id, facts.response_model or chunk.model, chunk.service_tier
            )
            facts.upstream_provider = facts.upstream_provider or label_name(chunk.provider)
            facts.cache_diagnosis = facts.cache_diagnosis or cache_diagnosis(chunk.prompt_cache_diagnostics)
            if facts.response_id and facts.response_model:
                self._decoder = _CHUNK

    def _take_answer(self, answer: _Whole) -> int:
        content = 0
        for choice in answer.choices or ():
            said = choice.message or choice.delta
            if said is not None:
                content += self._said(said.content) + said.more() + self._thought(said.thoughts())
            else:
                content += self._text(choice.text)
            self._choice_ended(choice.index, choice.finish_reason)
            if choice.usage is not None or choice.error is not None:
                self._beside_choice(choice, in_stream=False)
        self._identity(answer)
        state(self, answer.usage)
        self._usage_ends = True
        if answer.error is not None:
            self._stated_error(answer.error)
        elif answer.object == "error":  # vLLM, with a status of 200
            self._error(
                ProviderError(error_word(answer.type) or "_OTHER", None, nonempty_text(answer.message))
            )
        return content

    def _end(self) -> None:
        facts = self.facts
        # Not all look-alikes send [DONE]: then the last choice's end is the end, if usage that
        # was asked for has come too.
        if self._complete and not facts.terminal and not facts.stream_error:
            ended = bool(self._reasons) or (facts.provider == "writer" and facts.has_content)
            facts.terminal = ended and (self._usage is not None or not facts.usage_requested)
        read_usage(self, self._usage, final=self._usage_ends or bool(self._reasons) or facts.terminal)
        if "-search-" in (facts.response_model or facts.request_model or ""):
            add_fee(facts, "search_model", 1)  # it searches for each request; how often is not said (D)


def cache_diagnosis(diagnostics: Any) -> str | None:
    """Return the vendor's word for a prompt-cache miss in ``prompt_cache_diagnostics`` (D)."""
    if type(diagnostics) is dict:
        miss = json_object(diagnostics.get("cache_miss"))
        diagnostics = diagnostics.get("reason") or miss.get("reason") or diagnostics.get("type")
    found = label_name(diagnostics)
    return None if found in ("cache_hit", "cache_miss") else found


def completions(request: Request, provider: str | None, fields: Fields | None) -> Reader | None:
    """Read ``POST .../chat/completions``, ``.../completions``, ``.../fim/completions``."""
    chat = request.path.endswith(("/chat/completions", "/agents/completions"))
    azure = deployment(request.path)
    if provider is None and not _shaped(fields, chat, azure):
        return None
    operation = "chat" if chat else "text_completion"
    facts = Facts(provider or OTHER, operation, inference=True, llm_call=True)
    reader = ChatReader(facts, fields)
    if facts.request_model is None:
        facts.request_model = model_name(azure)
    if facts.stream and fields is not None:
        facts.usage_requested = json_object(fields.stream_options).get("include_usage") is True
    return reader


def chat(request: Request, provider: str | None, fields: Fields | None) -> Reader | None:
    """Chat in OpenAI's shape under a path of the vendor's own: Writer, Snowflake."""
    if provider not in ("writer", "snowflake"):
        return None
    return ChatReader(Facts(provider, "chat", inference=True, llm_call=True), fields)


def _shaped(fields: Fields | None, chat: bool, azure: str | None) -> bool:
    if fields is None or (type(fields.model) is not str and azure is None):
        return False
    return fields.messages is not None if chat else len(bytes(fields.prompt)) > 0
