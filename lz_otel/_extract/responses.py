"""OpenAI Responses (D): ``POST /responses``, ``/responses/compact``, ``/responses/input_tokens``.

Polling, cancelling and re-reading a stored response are no inference: their bodies repeat the
usage of another call (`elsewhere`).
"""

from __future__ import annotations

from functools import partial
from typing import Any

import msgspec
from msgspec import Raw, Struct, field

from lz_otel._extract.anthropic import CountReader
from lz_otel._extract.hosts import OTHER
from lz_otel._extract.openai import cache_diagnosis
from lz_otel._extract.provider_error import ProviderError
from lz_otel._extract.reader import Reader
from lz_otel._extract.request import NOTHING, Fields, deployment
from lz_otel._extract.usage import read_usage, state
from lz_otel._extract.values import add_fee, json_object, json_objects, label_name, model_name
from lz_otel.model import Facts, Request


class _Delta(Struct, gc=False):
    delta: Any = None


class _Event(Struct, gc=False):
    type: Any = None
    delta: Any = None
    response: Raw = NOTHING
    failure: Any = field(default=None, name="error")
    code: Any = None
    message: Any = None
    usage: Any = None


class _Item(Struct, gc=False):
    type: Any = None
    content: Any = None
    action: Any = None
    status: Any = None
    environment: Any = None


class _Response(Struct, gc=False):
    id: Any = None
    model: Any = None
    status: Any = None
    background: Any = None
    output: list[_Item] | None = None
    usage: Any = None
    tools: Any = None
    tool_usage: Any = None
    service_tier: Any = None
    error: Any = None
    prompt_cache_diagnostics: Any = None


_DELTA = msgspec.json.Decoder(_Delta)
_CLIENT_TOOLS = frozenset({"function_call", "local_shell_call", "apply_patch_call", "custom_tool_call"})
_ENDS = ("response.completed", "response.incomplete", "response.failed", "response.cancelled")


class ResponsesReader(Reader):
    """Answers of the Responses API, plain and streamed."""

    _EVENT = msgspec.json.Decoder(_Event)
    _ANSWER = msgspec.json.Decoder(_Response)

    def _event(self, name: bytes, data: bytes) -> int:
        if name.endswith(b".delta"):
            event = self._decode(_DELTA, data)
            if event is None:
                self._bad_event(data)
                return 0
            return self._piece(name == b"response.output_text.delta", b"reasoning" in name, event.delta)
        return super()._event(name, data)

    def _take_event(self, name: bytes, event: _Event) -> int:
        kind = event.type if type(event.type) is str else name.decode("latin-1")
        if not name and kind.endswith(".delta"):
            return self._piece(kind == "response.output_text.delta", "reasoning" in kind, event.delta)
        if kind in _ENDS or kind in ("response.created", "response.in_progress", "response.queued"):
            response = self._decode(self._ANSWER, bytes(event.response))
            if response is None:
                self._note("event")
                return 0
            state(self, event.usage)
            self._response(response, in_stream=True)
            if kind in _ENDS:
                self.facts.terminal = True
        elif kind == "error" or event.failure is not None:
            stated = {"code": event.code, "message": event.message}
            self._stated_error(stated if event.failure is None else event.failure, in_stream=True)
        return 0

    def _piece(self, text: bool, thought: bool, delta: Any) -> int:
        if text:
            return self._text(delta)
        return self._thought(delta) if thought else int(bool(delta))

    def _take_answer(self, answer: _Response) -> int:
        self._response(answer, in_stream=False)
        return sum(self._item(item) for item in answer.output or ())

    def _item(self, item: _Item) -> int:
        kind = item.type if type(item.type) is str else ""
        if kind == "message" and type(item.content) is list:
            return sum(
                self._text(json_object(part).get("text")) or bool(json_object(part).get("refusal"))
                for part in item.content
            )
        return 1 if kind.endswith("_call") else 0

    def _response(self, response: _Response, *, in_stream: bool) -> None:
        self._names(response.id, response.model, response.service_tier)
        self._stored(response.status, response.background is True)
        self.facts.cache_diagnosis = cache_diagnosis(response.prompt_cache_diagnostics)
        state(self, response.usage)
        read_usage(self, self._usage)
        if response.output or response.tool_usage is not None:
            self._tool_calls(response)
        if response.error is not None:
            self._stated_error(response.error, in_stream=in_stream)
        elif response.status == "failed":
            self._error(ProviderError("failed"), in_stream=in_stream)

    def _tool_calls(self, response: _Response) -> None:
        """Count the calls of hosted tools, which are billed beside tokens; the client's own are not."""
        counts: dict[str, int] = {}
        for item in response.output or ():
            name = _hosted_tool(item)
            if name is not None:
                counts[name] = counts.get(name, 0) + 1
        stated = json_object(response.tool_usage)
        searches = json_object(stated.get("web_search")).get("num_requests")
        if type(searches) is int:
            counts["web_search"] = searches
        if any(json_object(stated.get("image_gen")).values()):
            counts["image_generation"] = counts.get("image_generation", 0) or 1
        if counts.get("web_search") and any(
            str(tool.get("type")).startswith("web_search_preview")
            for tool in json_objects(response.tools, 128)
        ):
            counts["web_search_preview"] = counts.pop("web_search")  # its price differs by model
        for name, count in counts.items():
            add_fee(self.facts, name, count)


def _hosted_tool(item: _Item) -> str | None:
    """Return the name of the tool that the provider ran for an output item."""
    kind = item.type if type(item.type) is str else ""
    if not kind.endswith("_call") or kind in _CLIENT_TOOLS or item.status == "failed":
        return None
    if kind == "web_search_call" and json_object(item.action).get("type") not in (None, "search"):
        return None  # opening a page and finding in it are free (D)
    if kind == "shell_call" and json_object(item.environment).get("type") == "local":
        return None
    return label_name(kind.removesuffix("_call"))


def _reader(
    cls: type[Reader], operation: str, end: str, request: Request, provider: str | None, fields: Fields | None
) -> Reader | None:
    """Return a reader of a path; a known host is believed, on others the body must look like this API's."""
    shaped = (
        fields is not None
        and type(fields.model) is str
        and len(bytes(fields.input)) + len(bytes(fields.prompt)) > 0
    )
    if not request.path.endswith(end) or (provider is None and not shaped):
        return None
    model_runs = operation != "count_tokens"
    facts = Facts(provider or OTHER, operation, inference=operation == "chat", llm_call=model_runs)
    reader = cls(facts, fields)
    if facts.request_model is None:
        facts.request_model = model_name(deployment(request.path))
    return reader


# POST .../responses; .../compact: a model runs but writes no answer; .../input_tokens: nothing is billed
responses = partial(_reader, ResponsesReader, "chat", "")
compact = partial(_reader, ResponsesReader, "other", "/responses/compact")
input_tokens = partial(_reader, CountReader, "count_tokens", "/responses/input_tokens")
