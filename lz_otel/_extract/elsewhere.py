"""Calls whose end is stated in another exchange than the one that began them (D).

OpenAI's background responses and Gemini's background interactions are read again by their id, runs of the
Assistants API are polled, and the results of batches (Anthropic, OpenAI and its look-alikes, Gemini) come as
lines of a file or within the batch itself. Such an exchange is no call. Its reader has ``told``, which says
what it states of calls: that one goes on, or how it has ended.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

import msgspec
from msgspec import Raw, Struct

from lz_otel._extract.anthropic import MessagesReader
from lz_otel._extract.framing import JsonLines
from lz_otel._extract.gemini import GenerateReader, InteractionsReader
from lz_otel._extract.hosts import OTHER
from lz_otel._extract.openai import ChatReader
from lz_otel._extract.openai_misc import PlainReader, RunReader
from lz_otel._extract.reader import GOES_ON, Reader
from lz_otel._extract.request import NOTHING, Fields
from lz_otel._extract.responses import ResponsesReader
from lz_otel._extract.values import json_object, label_name
from lz_otel._ground.unreadable import UNREADABLE
from lz_otel.model import Ending, Facts, Request

if TYPE_CHECKING:
    from collections.abc import Callable

_FAILED = ("failed", "errored", "expired")
_CANCELLED = ("cancelled", "canceled")
_MODEL = re.compile(rb'"model"\s*:\s*"([^"\\]{1,128})"').search
_NEAR = 65_536  # bytes of a request in which a batch's first model is looked for
_NONE: list[Told] = []


class Told(Struct):
    """What an exchange states of one call, or of a batch, that began in another exchange.

    Attributes:
        facts: what is stated; ``awaited`` where it goes on.
        begun: by which name the exchange that began it is known.
        key, index: it is counted once by these.
        ending: one of `Ending`.
        error_type: of a call that failed, else empty.
        sure: it is such a call, whether or not this process saw it begin.
        batch: its time is the batch's, not a user's.
        also: another name of the same batch: the file that its results are in.
    """

    facts: Facts
    begun: str
    key: str
    index: int = 0
    ending: str = Ending.OK
    error_type: str = ""
    sure: bool = True
    batch: bool = False
    also: tuple[str, ...] = ()


def _ended(facts: Facts, begun: str, state: Any, **more: Any) -> Told:
    facts.llm_call = True
    error = facts.error_type or facts.error_code or ""
    ending = Ending.OK
    if error or state in _FAILED:
        ending, error = Ending.ERROR, error or label_name(state) or "_OTHER"
    elif state in _CANCELLED:
        ending = Ending.CANCELLED
    facts.first_content_at = None  # of the exchange that reads it again, not of the call
    return Told(facts, begun, more.pop("key", begun), ending=ending, error_type=error, **more)


class _ReadAgain(Reader):
    """Mixed into the reader of a call: the same answer, read in an exchange of its own."""

    def told(self) -> list[Told]:
        """Return how the call has ended, once the exchange shows that."""
        facts = self.facts
        if not facts.response_id or not facts.terminal or not self.state or self.state in GOES_ON:
            return _NONE
        return [_ended(facts, facts.response_id, self.state, sure=self.background)]


class _ResponseAgain(_ReadAgain, ResponsesReader):
    pass


class _RunAgain(_ReadAgain, RunReader):
    pass


class _InteractionAgain(_ReadAgain, InteractionsReader):
    pass


def _again(
    cls: type[Reader], operation: str, part: str, request: Request, provider: str | None, _: Fields | None
) -> Reader | None:
    """Read an answer again. Who answers at the host may be unknown: the answer's shape tells."""
    if part not in request.path:
        return None
    inference = operation != "other"
    return cls(Facts(provider or OTHER, operation, inference=inference, llm_call=False), None)


def response(request: Request, provider: str | None, fields: Fields | None) -> Reader | None:
    """Read ``GET .../responses/{id}`` and ``POST .../responses/{id}/cancel``."""
    return _again(_ResponseAgain, "chat", "/responses/", request, provider, fields)


def run(request: Request, provider: str | None, fields: Fields | None) -> Reader | None:
    """Read ``GET .../threads/{id}/runs/{id}``, and ``POST`` of ``submit_tool_outputs`` and ``cancel``."""
    if provider is None or "/threads/" not in request.path:
        return None
    return _again(_RunAgain, "other", "/runs/", request, provider, fields)


def interaction(request: Request, provider: str | None, fields: Fields | None) -> Reader | None:
    """Read ``GET .../interactions/{id}`` and ``POST .../interactions/{id}/cancel``."""
    if provider not in ("gcp.gemini", "gcp.vertex_ai"):
        return None
    return _again(_InteractionAgain, "generate_content", "/interactions/", request, provider, fields)


# --- batches ----------------------------------------------------------------------------------


class _Batch(Struct, gc=False):
    id: Any = None
    name: Any = None  # Gemini
    object: Any = None
    type: Any = None
    endpoint: Any = None
    output_file_id: Any = None
    output_file: Any = None  # Mistral
    error_file_id: Any = None
    error_file: Any = None
    request_counts: Any = None
    metadata: Any = None
    response: Raw = NOTHING


class _Inlined(Struct, gc=False):
    inlined: Any = msgspec.field(default=None, name="inlinedResponses")
    file: Any = msgspec.field(default=None, name="responsesFile")


_INLINED = msgspec.json.Decoder(_Inlined)


class _BatchReader(Reader):
    """A batch as it is made or asked for: how many calls are awaited, where their results will be."""

    _ANSWER = msgspec.json.Decoder(_Batch)
    _told: list[Told] = _NONE
    makes = False  # the exchange makes the batch
    model: str | None = None
    path = ""

    def _take_answer(self, batch: _Batch) -> int:
        name = label_name(batch.id) or label_name(batch.name)
        if name is None or self._status >= 300:
            return 0
        facts = self.facts
        facts.request_model = self.model
        files = [batch.output_file_id, batch.output_file, batch.error_file_id, batch.error_file]
        if self.makes:
            counts = json_object(batch.request_counts)
            numbers = [
                n for key, n in counts.items() if key != "total" and type(n) is int and 0 <= n < 1 << 20
            ]
            total = counts.get("total")
            facts.awaited = max(1, sum(numbers), total if type(total) is int and total < 1 << 20 else 0)
            facts.operation = _operation(batch.endpoint)
            self._told = [Told(facts, name, name, batch=True)]
            return 0
        if len(bytes(batch.response)):
            inlined = self._decode(_INLINED, bytes(batch.response))
            if inlined is not None:
                files.append(inlined.file)
                self._told = self._inlined(name, inlined.inlined)
        also = tuple(str(file) for file in files if label_name(file))
        if also and not self._told:
            facts.awaited = 0
            self._told = [Told(facts, name, "", batch=True, also=also)]
        return 0

    def _inlined(self, name: str, inlined: Any) -> list[Told]:
        found = json_object(inlined).get("inlinedResponses", inlined)
        lines = found if type(found) is list else []
        told = [
            _line(msgspec.json.encode(line), self.facts.provider, name, name, i)
            for i, line in enumerate(lines)
        ]
        return [one for one in told if one is not None]

    def told(self) -> list[Told]:
        """Return that its calls are awaited, where their results will be, or the results."""
        return self._told


def _operation(endpoint: Any) -> str:
    path = endpoint if type(endpoint) is str else ""
    if path.endswith("/embeddings"):
        return "embeddings"
    return "text_completion" if path.endswith("/completions") and "/chat/" not in path else "chat"


def batch(request: Request, provider: str | None, fields: Fields | None) -> Reader | None:
    """Read ``POST .../batches``, ``:batchGenerateContent`` and ``GET .../batches/{id}``."""
    if provider is None and "anthropic-version" not in request.headers:
        return None
    reader = _BatchReader(Facts(provider or "anthropic", "chat", inference=False, llm_call=False), None)
    reader.makes = request.method == "POST"
    _, _, model = request.path.partition("/models/")
    found = _MODEL((request.body or b"")[:_NEAR])
    reader.model = model.partition(":")[0] or (found[1].decode("utf-8", "replace") if found else None)
    return reader


class _Line(Struct, gc=False):
    custom_id: Any = None
    key: Any = None  # Gemini
    result: Raw = NOTHING  # Anthropic
    response: Raw = NOTHING  # OpenAI, Gemini
    error: Any = None
    metadata: Any = None


class _Result(Struct, gc=False):
    type: Any = None
    message: Raw = NOTHING
    error: Any = None


class _Response(Struct, gc=False):
    status_code: Any = None
    body: Raw = NOTHING
    candidates: Raw = NOTHING
    usage: Raw = msgspec.field(default=NOTHING, name="usageMetadata")


class _Kind(Struct, gc=False):
    object: Any = None


_LINE, _RESULT = msgspec.json.Decoder(_Line), msgspec.json.Decoder(_Result)
_RESPONSE, _KIND = msgspec.json.Decoder(_Response), msgspec.json.Decoder(_Kind)
_OF_KIND: dict[Any, tuple[type[Reader], str]] = {
    "chat.completion": (ChatReader, "chat"), "text_completion": (ChatReader, "text_completion"),
    "response": (ResponsesReader, "chat"), "list": (PlainReader, "embeddings"),
}  # fmt: skip


def _line(data: bytes, provider: str, begun: str, key: str, index: int) -> Told | None:
    """Read one result of a batch; ``None`` for a line that is none."""
    try:
        line = _LINE.decode(data)
        result, answer = bytes(line.result), bytes(line.response)
        state, status, error, body = "", 200, line.error, b""
        cls: type[Reader] = ChatReader
        operation = "chat"
        if len(result):
            found = _RESULT.decode(result)
            cls, state, error, body = MessagesReader, str(found.type), found.error, bytes(found.message)
        elif len(answer) and answer != b"null":
            said = _RESPONSE.decode(answer)
            if len(bytes(said.body)):
                body = bytes(said.body)
                status = said.status_code if type(said.status_code) is int else 200
                cls, operation = _OF_KIND.get(_KIND.decode(body).object, (ChatReader, "chat"))
            elif len(bytes(said.candidates)) or len(bytes(said.usage)):
                cls, operation, body = GenerateReader, "generate_content", answer
            else:
                return None
        elif error is None or (line.custom_id is None and line.key is None and line.metadata is None):
            return None
    except UNREADABLE:
        return None
    reader = cls(Facts(provider, operation, inference=False, llm_call=True), None)
    if len(body):
        if not reader.answer(status, {}, body, True):
            reader.head(status, {"content-type": "application/json"})
            reader.feed(body, 0.0)
            reader.finish(True)
    elif error is not None:
        inner = json_object(error).get("error")
        reader._stated_error(error if inner is None else inner)
    facts = reader.facts
    facts.service_tier = "batch"  # whatever a line says: that is what it is billed as
    facts.awaited, facts.text_sink, facts.mask_sink = 0, None, None
    return _ended(facts, begun, "failed" if status >= 400 else state, key=key, index=index, batch=True)


class LinesReader(Reader):
    """A file of results, one on each line. They are counted as they pass: a file may hold 100,000.

    Attributes:
        sink: takes what is told by the lines of a piece; may raise (a fault of ours).
        begun: the batch, or the file.
        key: the file, whose lines are counted once.
    """

    sink: Callable[[list[Told]], None] | None = None
    begun = key = ""
    _lines: JsonLines | None = None
    _index = 0

    def feed(self, data: bytes, now: float) -> None:
        """Take a piece of the file; what does not begin like JSON, or like no result, is not read."""
        lines = self._lines
        if lines is None:
            if self._done or self._index or not data.strip():
                return
            if self._status != 200 or data.lstrip()[:1] != b"{":
                self._done = True
                return
            lines = self._lines = JsonLines()
        if not self._done:
            self._take([line for _, line in lines.feed(data)])

    def _take(self, lines: list[bytes]) -> None:
        told = []
        for data in lines:
            one = _line(data, self.facts.provider, self.begun, self.key, self._index)
            self._index += 1
            if one is not None:
                told.append(one)
            elif self._index == 1:
                self._done = True  # another kind of file
                return
        if told and self.sink is not None:
            self.sink(told)

    def answer(self, status: int, headers: Any, body: bytes, complete: bool) -> bool:
        """Leave it to `feed`, whatever the file is labelled as."""
        return False

    def finish(self, complete: bool) -> None:
        """Read the last line, which may have no end."""
        lines, self._lines = self._lines, None
        if lines is not None and complete and not self._done:
            self._take([line for _, line in lines.rest()])
        self._done = True


def lines(request: Request, provider: str | None, fields: Fields | None) -> Reader | None:
    """Read ``GET .../batches/{id}/results``, ``.../files/{id}/content`` and Gemini's ``:download``."""
    path = request.path
    parts = path.rstrip("/").split("/")
    if "/batches/" in path and parts[-1] == "results" and len(parts) > 2:
        name = parts[-2]
        owner = provider or ("anthropic" if "anthropic-version" in request.headers else OTHER)
    elif "/files/" in path and parts[-1] == "content" and len(parts) > 2:
        name, owner = parts[-2], provider or OTHER
    elif "/files/" in path and parts[-1].endswith(":download"):
        name, owner = "files/" + parts[-1].removesuffix(":download"), provider or OTHER
    else:
        return None
    if "range" in request.headers:  # a part of it: which lines they are is not known
        return None
    reader = LinesReader(Facts(owner, "other", inference=False, llm_call=False), None)
    reader.begun, reader.key = name, path
    return reader
