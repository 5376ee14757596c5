"""OpenAI's other APIs: embeddings, moderations, images, audio, assistant runs; rerankers (D)."""

from __future__ import annotations

from functools import partial
from typing import Any

import msgspec
from msgspec import Struct

from lz_otel._extract.hosts import OTHER
from lz_otel._extract.reader import Reader
from lz_otel._extract.request import Fields, deployment, form_field
from lz_otel._extract.usage import has_counts, read_usage, state
from lz_otel._extract.values import add_fee, loads, model_name, token_count
from lz_otel.model import Facts, Request


class _Answer(Struct, gc=False):
    id: Any = None
    model: Any = None
    object: Any = None
    usage: Any = None
    error: Any = None
    last_error: Any = None
    status: Any = None
    service_tier: Any = None


class PlainReader(Reader):
    """Answers of which only id, model and usage matter; others (audio, text) are left alone."""

    _EVENT = _ANSWER = msgspec.json.Decoder(_Answer)
    _DONE_ENDS = True

    def _take_event(self, name: bytes, event: _Answer) -> int:
        if has_counts(event.usage):
            state(self, event.usage)
            read_usage(self, self._usage)
        self.facts.terminal = self.facts.terminal or name.endswith((b".completed", b".done"))
        return 1 if name.endswith((b".delta", b".partial_image")) else 0

    def _document(self, body: bytes) -> bool:
        # Speech is audio, a transcript may be plain text: nothing to read, nothing wrong.
        other = self.facts.operation == "other" and body[:1] not in (b"{", b"[")
        return super()._document(body) or other

    def _take_answer(self, answer: _Answer) -> int:
        facts = self.facts
        self._names(answer.id, answer.model, answer.service_tier)
        read_usage(self, answer.usage if has_counts(answer.usage) else None)
        if facts.input_tokens is None and facts.output_tokens is None and type(answer.usage) is dict:
            # Voyage and Jina state the total only: embeddings and rankings have no output.
            facts.input_tokens = self._count(answer.usage, "total_tokens")
            facts.usage_seen = (
                facts.input_tokens is not None or token_count(answer.usage.get("seconds")) is not None
            )
        if type(answer.usage) is dict and answer.usage.get("type") == "duration":
            add_fee(facts, "audio_second", answer.usage.get("seconds"))
        if answer.error is not None:
            self._stated_error(answer.error)
        return 0


class RunReader(Reader):
    """Runs of the Assistants API; the usage of their steps is part of the run's."""

    _EVENT = _ANSWER = msgspec.json.Decoder(_Answer)

    def _event(self, name: bytes, data: bytes) -> int:
        if name == b"thread.message.delta":
            return 1
        if data == b"[DONE]":
            self.facts.terminal = True
        elif name == b"error":
            self._stated_error(loads(data), in_stream=True)
        elif name.startswith(b"thread.run.") and not name.startswith(b"thread.run.step."):
            return super()._event(name, data)
        return 0

    def _take_answer(self, answer: _Answer) -> int:
        self._names(answer.id, answer.model)
        self._stored(answer.status, background=True)
        if has_counts(answer.usage):
            state(self, answer.usage)
            read_usage(self, self._usage)
        if answer.last_error is not None:
            self._stated_error(answer.last_error, in_stream=True)
        return 0


def _plain(
    operation: str, key: str, request: Request, provider: str | None, fields: Fields | None
) -> Reader | None:
    """Return a reader; on hosts without a name the request must hold a model and ``key``."""
    azure = deployment(request.path)
    if provider is None:
        if fields is None or (type(fields.model) is not str and azure is None):
            return None
        if key and not len(bytes(getattr(fields, key))):
            return None
    facts = Facts(provider or OTHER, operation, inference=False, llm_call=True)
    facts.free = key == "input" and operation == "other"  # moderations
    reader = PlainReader(facts, fields)
    if facts.request_model is None:
        facts.request_model = model_name(form_field(request, "model")) or model_name(azure)
    return reader


embeddings = partial(_plain, "embeddings", "input")  # POST .../embeddings
moderations = partial(_plain, "other", "input")  # POST .../moderations


def media(request: Request, provider: str | None, fields: Fields | None) -> Reader | None:
    """Read images and audio; on hosts without a name they are left alone."""
    if provider is None and "/openai/" not in request.path:
        return None
    if "/images/" not in request.path and "/audio/" not in request.path:
        return None
    return _plain("other", "", request, provider, fields)


def rerank(request: Request, provider: str | None, fields: Fields | None) -> Reader | None:
    """Read ``POST .../rerank`` of a named host."""
    return None if provider is None else _plain("other", "", request, provider, fields)


def runs(request: Request, provider: str | None, fields: Fields | None) -> Reader | None:
    """Read ``POST .../threads/{id}/runs`` and ``.../threads/runs``."""
    if provider is None or "/threads/" not in request.path:
        return None
    return RunReader(Facts(provider, "other", inference=False, llm_call=True), fields)
