"""One response body, read as it passes: framing, timing of content, errors. No I/O.

A dialect subclasses ``Reader`` and says what its API's events and bodies are decoded to (``_EVENT``,
``_ANSWER``) and what they mean: ``_take_event``, ``_take_answer``, and ``_end`` sums up. ``Reader`` sees
to it that any chunking gives the same facts, that nothing is raised on bad input and that memory is bounded.
"""

from __future__ import annotations

from bisect import bisect_left
from typing import TYPE_CHECKING, Any

from lz_otel._extract import framing
from lz_otel._extract.framing import MAX_BODY, AwsFrames, JsonLines, Sse
from lz_otel._extract.provider_error import provider_error
from lz_otel._extract.skim import Skim
from lz_otel._extract.template import JSON_STRING, NO_TEMPLATE, PLAIN_TEXT, EventTemplate
from lz_otel._extract.values import label_name, loads, whole_members
from lz_otel._extract.writer import MAX_NOTES, FactsWriter
from lz_otel.catalogue import CHUNK_BUCKETS

if TYPE_CHECKING:
    from collections.abc import Mapping

    import msgspec

_BOM = b"\xef\xbb\xbf"
_MAX_PREFIX = 4096
_SMALL = 1 << 16
_GAPS = len(CHUNK_BUCKETS) + 1
_JSON = "application/json"
_NO_HEADERS: Mapping[str, str] = {}
GOES_ON = ("queued", "in_progress", "requires_action", "cancelling")
"""States of a stored answer that is not whole yet (D)."""


class Reader(FactsWriter):
    """Reads one response and fills ``facts``.

    ``head`` once, ``feed`` for each decoded piece of the body, ``finish`` at its end. After
    ``finish`` nothing changes any more. No method raises on bad input; an exception of a sink
    passes through ``feed``, after the reader's own bookkeeping is done.
    """

    # Defaults of the class: a plain answer sets but a few of these, and making a reader is on the hot path
    _headers = _NO_HEADERS
    _kind = ""
    _parser: Sse | JsonLines | AwsFrames | None = None
    _doc: Skim | bytes | None = None  # a plain body
    _prefix = b""
    _seen_lost = 0
    _done = False
    _complete = False  # the end of the body was reached
    _summed_up = False  # `_document` has done what `_end` does
    _head = b"\0"  # the last event line, and the name in it
    _name = b""
    _events = 0
    _content = 0
    _hidden = 0  # pieces of content, of those just read, that are thinking
    _gaps: list[int] = []  # noqa: RUF012 - replaced by the first content, never added to
    _last = _read_at = 0.0  # when the last piece of content came, and of another shape
    _only_text = ""  # what the event just read says, where that is one piece of text and nothing else
    _template = NO_TEMPLATE
    _learned: EventTemplate | None = None  # `_template`, or what it is between two events
    _decoded = 0  # pieces of the body with content that did not match it
    background = False  # the answer goes on without this exchange, and can be read again
    state: str | None = None  # what such an answer says of itself

    # --- what the host's response calls -------------------------------------------------------

    def head(self, status: int, headers: Mapping[str, str]) -> None:
        """Take status and headers (lower-case names), and choose the framing."""
        self._status = status
        self._headers = headers
        kind = headers.get("content-type", "")
        self._kind = kind if kind == _JSON else kind.partition(";")[0].strip().lower()
        if status >= 400:
            self._error(provider_error(None, headers))

    def feed(self, data: bytes, now: float) -> None:
        """Take a piece of the decoded body, of any size; ``now`` in ``perf_counter`` seconds."""
        template = self._template
        text = data.removeprefix(template.before).removesuffix(template.behind)
        if (
            text
            and len(text) + template.around == len(data)
            and (
                not text.strip(PLAIN_TEXT)
                or JSON_STRING(data, len(template.before), len(data) - len(template.behind))
            )
        ):
            self._gaps[bisect_left(CHUNK_BUCKETS, now - self._last)] += 1
            self._last = now
            return
        content = self._read(data, now)
        if content:
            self._content += content
            self._decoded += 1
            if self._gaps:
                self._gaps[bisect_left(CHUNK_BUCKETS, now - self._last)] += 1
            else:
                self.facts.first_content_at = now
                self.facts.has_content = True
                self._gaps = [0] * _GAPS
            self._last = now
            if self.facts.first_visible_at is None:
                if content > self._hidden:
                    self.facts.first_visible_at = now
                self._hidden = 0
        if self._texts or self._masks:
            self._flush()

    def answer(self, status: int, headers: Mapping[str, str], body: bytes, complete: bool) -> bool:
        """Read all of an ``application/json`` body; ``False`` where `head`, `feed` and `finish` have to."""
        if status >= 400 or body[:1] != b"{" or len(body) > MAX_BODY:
            return False
        self._status, self._headers, self._kind = status, headers, _JSON
        self._doc = body
        self.finish(complete)
        return True

    def _read(self, data: bytes, now: float) -> int:
        """Read a piece whose shape is not known, and return how many pieces of content it held."""
        if self._done:
            return 0
        self._read_at = now
        parser = self._parser
        if parser is None:
            self._begin(data, now)
            return 0
        if parser.idle and 0 < len(data) < _SMALL:
            # Nearly always a piece is one whole event: read here what Sse.feed would find.
            lines = data.splitlines()
            number = len(lines)
            if number == 3 and not lines[2] and data[-1] == 10 and lines[1].startswith(b"data: "):
                head = lines[0]
                if head != self._head and head.startswith(b"event: "):
                    self._head = head
                    self._name = head[7:]
                if head == self._head:
                    return self._one(self._name, lines[1][6:], data)
            elif number == 2 and not lines[1] and data[-1] == 10 and lines[0].startswith(b"data: "):
                return self._one(b"", lines[0][6:], data)
        return self._several(parser, data)

    def _one(self, name: bytes, payload: bytes, data: bytes) -> int:
        """Read a piece that is one whole event."""
        self._only_text = ""
        content = self._event(name, payload)
        self._events += 1
        if self._only_text:
            self._learn(data)
        return content

    def _learn(self, data: bytes) -> None:
        """Let events like this one pass undecoded, unless a sink wants their text."""
        if self.facts.text_sink is None and self.facts.mask_sink is None:
            if self._learned is None:
                self._learned = self._template = EventTemplate()
            self._learned.learn(data, self._only_text, self._undecoded)

    @property
    def _undecoded(self) -> int:
        """Count the pieces that matched the template: behind each with content but the first is a gap."""
        return sum(self._gaps) + 1 - self._decoded if self._gaps else 0

    def _several(self, parser: Sse | JsonLines | AwsFrames, data: bytes) -> int:
        """Read a piece with no, several or broken events."""
        if len(data) > _SMALL:  # its lines would take many times the memory
            return sum(self._several(parser, data[i : i + _SMALL]) for i in range(0, len(data), _SMALL))
        events = parser.feed(data)
        content = 0
        for name, payload in events:
            content += self._event(name, payload)
        self._events += len(events)
        if parser.lost != self._seen_lost:
            self._note_lost(parser)
        if self._learned is not None:  # in the middle of an event no piece is a whole one
            self._template = self._learned if parser.idle else NO_TEMPLATE
        return content

    def finish(self, complete: bool) -> None:
        """End the body; ``complete`` when its end was reached."""
        if self._done:
            return
        self._complete = complete
        try:
            if self._doc is not None:
                self._read_document(complete)
            elif isinstance(self._parser, JsonLines):
                for name, payload in self._parser.rest():
                    self._content += self._event(name, payload)
            self._sums()
            if not self._summed_up:
                self._end()
        finally:
            self._done = True
            self._doc = None
            self._parser = None
            self._template = NO_TEMPLATE
        if self._texts or self._masks:
            self._flush()

    @property
    def fed_at(self) -> float:
        """Return when the last piece came (``now`` of `feed`); 0.0 before the first."""
        return max(self._last, self._read_at)

    # --- what a dialect overrides -------------------------------------------------------------

    _EVENT: msgspec.json.Decoder[Any] | None = None
    _ANSWER: msgspec.json.Decoder[Any]
    _DONE_ENDS = False  # an event ``[DONE]`` says that the answer is complete

    def _take_event(self, name: bytes, event: Any) -> int:
        """Take one decoded event of a stream, and note its ``error``; more than 0 when it held content."""
        return self._take_answer(event)

    def _take_answer(self, answer: Any) -> int:
        """Take a whole decoded body of a success; more than 0 when it held content."""
        raise NotImplementedError

    def _event(self, name: bytes, data: bytes) -> int:
        """Read one event of a stream, and return how many pieces of non-empty content it held."""
        event = None if self._EVENT is None else self._decode(self._EVENT, data)
        if event is not None:
            error = getattr(event, "error", None)
            if error is not None:
                self._stated_error(error, in_stream=True)
            hidden = self._hidden
            content = self._take_event(name, event)
            if not content:
                return 0
            self._hidden = hidden + (self._hidden - hidden >= content)  # one piece, hidden if all of it is
            return 1
        if data == b"[DONE]":
            self.facts.terminal = self.facts.terminal or self._DONE_ENDS
        elif self._EVENT is not None:
            self._bad_event(data)
        return 0

    def _document(self, body: bytes) -> bool:
        """Read a whole JSON body of a success; ``False`` when it could not be read."""
        answer = self._decode(self._ANSWER, body)
        if answer is None:
            return False
        self.facts.has_content = self._take_answer(answer) > 0
        return True

    def _end(self) -> None:
        """After the last byte: sums up what the events said."""

    def _stored(self, state: Any, background: bool) -> None:
        """Note the state of an answer that can be read again, and whether its end is awaited."""
        self.state = label_name(state)
        fields = self.facts.request_fields
        self.background = background or (fields is not None and fields.background is True)
        self.facts.awaited = 1 if self.background and self.state in GOES_ON else 0

    # --- inner workings -----------------------------------------------------------------------

    def _begin(self, data: bytes, now: float) -> None:
        """Keep pieces before a parser is chosen, and all pieces of a plain body."""
        if isinstance(self._doc, Skim):
            self._doc.write(data)
            return
        prefix = self._prefix + data if self._prefix else data
        if not self._choose(prefix):
            self._prefix = prefix
            return
        self._prefix = b""
        if prefix.startswith(_BOM):
            prefix = prefix[3:]
        if self._doc is not None:
            self._begin(prefix, now)
        elif prefix:
            self.feed(prefix, now)

    def _choose(self, prefix: bytes) -> bool:
        """Choose the framing by the first bytes, and by the content type where they do not tell."""
        if len(prefix) < 3 and _BOM.startswith(prefix):
            return False
        start = prefix[3:] if prefix.startswith(_BOM) else prefix
        first = start[:64].lstrip()[:1] or start.lstrip()[:1]
        if not first and len(prefix) < _MAX_PREFIX:
            return False
        kind = self._kind
        if first == b"{" and kind in framing.LINE_TYPES:
            self._parser = JsonLines()
        elif first in (b"{", b"["):
            self._doc = Skim()
        elif kind == "application/vnd.amazon.eventstream" or (first == b"\0" and not kind):
            self._parser = AwsFrames()
        elif kind == "text/event-stream" or (first and first in b"edir:" and kind in framing.TEXT_TYPES):
            self._parser = Sse()
        else:
            self._doc = Skim()
        if isinstance(self._parser, JsonLines) or (self._parser is not None and self._status < 400):
            self.facts.stream = True
        return True

    def _read_document(self, complete: bool) -> None:
        """Read a plain body that is over."""
        body = self._doc or b""
        if isinstance(body, Skim):
            if body.shortened:  # its text is not whole
                self.facts.text_sink, self.facts.too_large = None, body.given_up
            body = body.value()
        if self._status >= 400:
            self.facts.terminal = complete
            self.facts.error_type = self.facts.error_code = self.facts.error_message = None
            self._error(provider_error(loads(body), self._headers))
            return
        if self._document(body):
            self.facts.terminal = True
        elif self._as_lines(body):
            return
        elif self._status < 300 and not self._kind.startswith(framing.MEDIA_TYPES):
            if complete:
                self._note("body")
            known = whole_members(body)
            if known is not None:
                self._document(known)

    def _as_lines(self, body: bytes) -> bool:
        """Read lines of JSON that are labelled as one document."""
        lines = [line for line in body.split(b"\n") if line.strip()] if body.count(b"\n") < 100_000 else []
        if len(lines) < 2 or type(loads(lines[0])) is not dict or type(loads(lines[1])) is not dict:
            return False
        self._content += sum(self._event(b"", line) for line in lines)
        return True

    def _sums(self) -> None:
        """Add up the counts that are kept aside while the body passes."""
        facts = self.facts
        if self._learned is not None:
            undecoded = self._undecoded
            self._events += undecoded
            self._content += undecoded
        if isinstance(self._parser, Sse):
            facts.sse_events = self._events
        if self._content:
            facts.content_events = self._content
            facts.has_content = True
        if facts.first_content_at is not None:
            facts.last_content_at = self._last
            number = sum(self._gaps)
            if number:
                facts.chunk_gaps = [self._gaps, max(0.0, self._last - facts.first_content_at), number]

    def _note_lost(self, parser: Sse | JsonLines | AwsFrames) -> None:
        signal = "frame" if isinstance(parser, AwsFrames) else "event"
        for _ in range(min(parser.lost - self._seen_lost, MAX_NOTES)):
            self._note(signal)
        self._seen_lost = parser.lost

    def _flush(self) -> None:
        """Hand texts and masks to their sinks, last of all: a sink may raise."""
        texts, masks = self._texts, self._masks
        self._texts, self._masks = [], []
        facts = self.facts
        if facts.text_sink is not None:
            for piece in texts:
                facts.text_sink(piece)
        if facts.mask_sink is not None:
            for mask in masks:
                facts.mask_sink(mask)
