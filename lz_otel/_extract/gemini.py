"""Gemini, on generativelanguage and on Vertex AI (D): ``generateContent`` and its kin.

The prompt count includes cached tokens but not those of tool results; the candidates' count
does not include thoughts. In a stream each chunk holds a running total: the last one counts.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote

import msgspec
from msgspec import Struct, field

from lz_otel._extract.anthropic import CountReader, MessagesReader
from lz_otel._extract.openai import ChatReader
from lz_otel._extract.reader import Reader
from lz_otel._extract.usage import by_modality, settle, state
from lz_otel._extract.values import add_fee, json_object, json_objects, loads, model_name, token_count
from lz_otel._ground.unreadable import UNREADABLE
from lz_otel.model import Facts, Request

if TYPE_CHECKING:
    from lz_otel._extract.request import Fields


class _Content(Struct, gc=False):
    parts: list[Any] | None = None


class _Candidate(Struct, gc=False):
    content: _Content | None = None
    finish: Any = field(default=None, name="finishReason")
    index: Any = 0
    grounding: Any = field(default=None, name="groundingMetadata")


class _Chunk(Struct, gc=False):
    candidates: list[_Candidate] | None = None
    usage: Any = field(default=None, name="usageMetadata")
    model: Any = field(default=None, name="modelVersion")
    id: Any = field(default=None, name="responseId")
    feedback: Any = field(default=None, name="promptFeedback")
    error: Any = None


_LIST = msgspec.json.Decoder(list[msgspec.Raw])
_COUNTS = (
    "promptTokenCount",
    "toolUsePromptTokenCount",
    "candidatesTokenCount",
    "thoughtsTokenCount",
    "cachedContentTokenCount",
)
_MODALITIES = {"TEXT": "text", "IMAGE": "image", "AUDIO": "audio"}
_CONTENT = ("functionCall", "executableCode", "codeExecutionResult", "inlineData", "fileData")


class GenerateReader(Reader):
    """Answers of ``generateContent`` and ``streamGenerateContent``."""

    _EVENT = _ANSWER = msgspec.json.Decoder(_Chunk)

    def _take_answer(self, chunk: _Chunk) -> int:
        facts = self.facts
        if chunk.error is not None:
            self._stated_error(chunk.error)
        self._names(facts.response_id or chunk.id, facts.response_model or chunk.model)
        content = 0
        for candidate in chunk.candidates or ():
            if candidate.content is not None:
                content += sum(self._part(json_object(part)) for part in candidate.content.parts or ())
            if type(candidate.grounding) is dict:
                self._grounded(candidate.grounding)
            if candidate.finish is not None:
                self._choice_ended(candidate.index, str(candidate.finish))
        if self._reasons or json_object(chunk.feedback).get("blockReason") is not None:
            facts.terminal = True
        if chunk.usage is not None:
            state(self, chunk.usage)
        return content

    def _grounded(self, grounding: dict[str, Any]) -> None:
        """Note searches: billed for each query, or before Gemini 3 for each prompt that took any (D)."""
        queries = grounding.get("webSearchQueries")
        facts = self.facts
        if type(queries) is list and queries:
            known = (facts.fees or {}).get("web_search", 0)
            add_fee(facts, "web_search", max(known, sum(1 for query in queries if query)))
        kinds = {kind for chunk in json_objects(grounding.get("groundingChunks"), 1000) for kind in chunk}
        if "maps" in kinds or grounding.get("googleMapsWidgetContextToken"):
            add_fee(facts, "maps_grounding", 1)
        if grounding.get("retrievalQueries") and facts.provider == "gcp.vertex_ai":
            add_fee(facts, "retrieval", 1)

    def _part(self, part: dict[str, Any]) -> int:
        text = part.get("text")
        if text:
            return self._thought(True) if part.get("thought") is True else self._text(text)
        return 1 if any(part.get(key) is not None for key in _CONTENT) else 0

    def _document(self, body: bytes) -> bool:
        if body[:64].lstrip()[:1] == b"[":  # a stream without alt=sse is one list
            try:
                chunks = _LIST.decode(body)
            except UNREADABLE:
                read = loads(body)
                if type(read) is not list:
                    return False
                chunks = [msgspec.Raw(msgspec.json.encode(chunk)) for chunk in read]
            content = sum(self._event(b"", bytes(chunk)) for chunk in chunks[:100_000])
            self.facts.has_content = content > 0
            return True
        return super()._document(body)

    def _end(self) -> None:
        facts = self.facts
        usage = json_object(self._usage)
        tier = usage.get("serviceTier") or self._headers.get("x-gemini-service-tier")
        if usage.get("trafficType") == "PROVISIONED_THROUGHPUT":  # paid for beforehand
            tier = "provisioned_throughput"
        self._names(tier=tier.lower() if type(tier) is str else None)
        prompt, tools, answer, thoughts, cached = self._counts(usage, *_COUNTS)
        facts.input_tokens, facts.output_tokens = _sum(prompt, tools), _sum(answer, thoughts)
        facts.reasoning_tokens, facts.cache_read_tokens = thoughts, cached
        settle(self, usage.get("totalTokenCount"), (cached or 0, -(tools or 0)), (-(thoughts or 0),))
        prompts = _kinds(usage.get("promptTokensDetails"), usage.get("toolUsePromptTokensDetails"))
        facts.input_tokens_by_modality = by_modality(self, facts.input_tokens, prompts)
        answers = _kinds(usage.get("candidatesTokensDetails"))
        facts.output_tokens_by_modality = by_modality(self, facts.output_tokens, answers)
        if facts.input_tokens_by_modality is not None and facts.cache_read_tokens:
            cached_kinds = _kinds(usage.get("cacheTokensDetails"))
            facts.cached_tokens_by_modality = by_modality(self, facts.cache_read_tokens, cached_kinds)
        facts.usage_seen = facts.terminal and facts.input_tokens is not None
        facts.output_final = facts.terminal and facts.output_tokens is not None


def _sum(first: int | None, second: int | None) -> int | None:
    """Return both counts together; either alone stands too."""
    return second if first is None else first + (second or 0)


def _kinds(*details: Any) -> dict[str, int]:
    """Return tokens by kind, as the details state them."""
    parts: dict[str, int] = {}
    for entry in [entry for detail in details for entry in json_objects(detail, 16)]:
        kind = _MODALITIES.get(str(entry.get("modality")).upper(), "unknown")
        parts[kind] = parts.get(kind, 0) + (token_count(entry.get("tokenCount")) or 0)
    return parts


class _Embedded(Struct, gc=False):
    usage: Any = field(default=None, name="usageMetadata")
    predictions: Any = None
    metadata: Any = None


class EmbedReader(Reader):
    """``embedContent`` states no usage, or ``usageMetadata``; ``predict`` counts per text."""

    _ANSWER = msgspec.json.Decoder(_Embedded)

    def _take_answer(self, answer: _Embedded) -> int:
        facts = self.facts
        facts.input_tokens = self._count(json_object(answer.usage), "promptTokenCount")
        predictions = answer.predictions
        if type(predictions) is list and facts.operation == "embeddings":
            embeddings = [json_object(json_object(entry).get("embeddings")) for entry in predictions]
            counts = [json_object(entry.get("statistics")).get("token_count") for entry in embeddings]
            numbers = [token_count(count) for count in counts]
            known = [number for number in numbers if number is not None]
            if known and len(known) == len(numbers):
                facts.input_tokens = sum(known)
        facts.usage_seen = facts.input_tokens is not None
        return 0


class _Interaction(Struct, gc=False):
    id: Any = None
    model: Any = None
    status: Any = None
    background: Any = None
    usage: Any = None
    service_tier: Any = None
    error: Any = None
    steps: Any = None
    outputs: Any = None


class _InteractionEvent(Struct, gc=False):
    event_type: Any = None
    interaction: _Interaction | None = None
    delta: Any = None
    error: Any = None


_INTERACTION_COUNTS = (
    "total_input_tokens",
    "total_tool_use_tokens",
    "total_output_tokens",
    "total_thought_tokens",
    "total_cached_tokens",
)


class InteractionsReader(Reader):
    """Answers of the Interactions API, plain and streamed."""

    _EVENT = msgspec.json.Decoder(_InteractionEvent)
    _ANSWER = msgspec.json.Decoder(_Interaction)
    _DONE_ENDS = True

    def _take_event(self, name: bytes, event: _InteractionEvent) -> int:
        if event.interaction is not None:
            self._interaction(event.interaction, in_stream=True)
            if event.event_type == "interaction.completed":
                self.facts.terminal = True
        delta = json_object(event.delta)
        if delta.get("type") == "text":
            return self._text(delta.get("text"))
        if delta.get("arguments"):
            return 1
        return self._thought(json_object(delta.get("content")).get("text"))

    def _take_answer(self, answer: _Interaction) -> int:
        self._interaction(answer, in_stream=False)
        content = 0
        for step in (answer.outputs or answer.steps or ())[:1000]:
            step = json_object(step)
            kind = step.get("type")
            if type(kind) is str and kind.endswith("_call") and kind != "function_call":
                add_fee(self.facts, kind[:64].removesuffix("_call"), 1)
            inner = step.get("content")
            for part in json_objects(inner, 100_000) if type(inner) is list else [step]:
                if part.get("type") == "text":
                    content += self._text(part.get("text"))
        return content

    def _interaction(self, said: _Interaction, *, in_stream: bool) -> None:
        facts = self.facts
        self._names(said.id, said.model, said.service_tier)
        self._stored(said.status, said.background is True)
        if said.error is not None:
            self._stated_error(said.error, in_stream=in_stream)
        state(self, said.usage)
        usage = self._usage
        if not usage:
            return
        prompt, tools, answer, thoughts, cached = self._counts(usage, *_INTERACTION_COUNTS)
        facts.input_tokens, facts.output_tokens = _sum(prompt, tools), _sum(answer, thoughts)
        facts.reasoning_tokens, facts.cache_read_tokens = thoughts, cached
        settle(self, usage.get("total_tokens"), (cached or 0, -(tools or 0)), (-(thoughts or 0),))
        facts.usage_seen = facts.input_tokens is not None
        facts.output_final = facts.output_tokens is not None


def _model(path: str) -> str | None:
    """Return the model in ``.../models/{model}:verb``."""
    tail = path[path.rfind("/") + 1 :]
    return model_name(unquote(tail[: tail.rfind(":")]))


def _reader(
    cls: type[Reader], operation: str, request: Request, provider: str | None, fields: Fields | None
) -> Reader | None:
    """Return a reader of ``.../models/{model}:verb``, whose request has names of Google's own."""
    owner = provider or ("gcp.vertex_ai" if "/publishers/" in request.path else "gcp.gen_ai")
    if provider is None and "/publishers/" not in request.path and "/models/" not in request.path:
        return None
    if fields is not None:
        fields.messages, fields.system = fields.contents, fields.system_instruction
    inference, calls = operation == "generate_content", operation != "count_tokens"
    reader = cls(Facts(owner, operation, inference=inference, llm_call=calls), fields)
    reader.facts.request_model = _model(request.path)
    reader.facts.stream = ":stream" in request.path
    if fields is not None and fields.cached_content is not None:
        add_fee(reader.facts, "cache_storage", 1)  # billed by the hour, which no answer sums up (D)
    return reader


generate = partial(_reader, GenerateReader, "generate_content")  # :generateContent, :streamGenerateContent
embed = partial(_reader, EmbedReader, "embeddings")  # :embedContent, :batchEmbedContents
count_tokens = partial(_reader, CountReader, "count_tokens")  # :countTokens


def predict(request: Request, provider: str | None, fields: Fields | None) -> Reader | None:
    """Read ``:predict`` of a publisher's model on Vertex AI: embeddings, images."""
    if provider != "gcp.vertex_ai" or "/publishers/" not in request.path:
        return None
    operation = "embeddings" if "embed" in request.path else "other"
    return _reader(EmbedReader, operation, request, provider, fields)


def interactions(request: Request, provider: str | None, fields: Fields | None) -> Reader | None:
    """Read ``POST /v1beta/interactions``."""
    if provider not in ("gcp.gemini", "gcp.vertex_ai"):
        return None
    return InteractionsReader(Facts(provider, "generate_content", inference=True, llm_call=True), fields)


def raw_predict(request: Request, provider: str | None, fields: Fields | None) -> Reader | None:
    """Read ``:rawPredict`` and ``:streamRawPredict``: other publishers' own APIs on Vertex AI."""
    _, found, publisher = request.path.partition("/publishers/")
    if not found:
        return None
    owner, model = provider or "gcp.vertex_ai", _model(request.path)
    reader: Reader
    if model == "count-tokens":
        reader = CountReader(Facts(owner, "count_tokens", inference=False, llm_call=False), fields)
    else:
        cls = MessagesReader if publisher.startswith("anthropic/") else ChatReader
        reader = cls(Facts(owner, "chat", inference=True, llm_call=True), fields)
        reader.facts.request_model = model
    reader.facts.stream = reader.facts.stream or ":stream" in request.path
    return reader
