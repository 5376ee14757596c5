"""Framings of response bodies, without I/O: SSE, lines of JSON, AWS event streams.

Each parser takes bytes in any chunking and returns the events that were completed by them, as
``(name, payload)`` pairs of bytes. None of them raises on bad input. What was lost (one event
above ``MAX_EVENT``, a frame whose CRC is wrong) is counted in ``lost`` and parsing goes on.

Sources: WHATWG HTML, server-sent events (D); Amazon event-stream encoding (D).
"""

from __future__ import annotations

from zlib import crc32

MAX_BODY = 4 << 20
"""Most bytes of a plain body that are held (C)."""
MAX_EVENT = 4 << 20
"""Most bytes of one event that are held (C)."""

LINE_TYPES = (
    "application/x-ndjson", "application/ndjson", "application/jsonl", "application/stream+json",
    "application/x-jsonlines", "application/json-lines",
)  # fmt: skip
MEDIA_TYPES = ("audio/", "image/", "video/")
TEXT_TYPES = (
    "",
    "application/json",
    "text/plain",
    "text/event-stream",
    "application/octet-stream",
    *LINE_TYPES,
)

Event = tuple[bytes, bytes]


class Sse:
    """Server-sent events: LF, CRLF or CR; comments; several data lines; a blank line dispatches.

    ``idle`` is true between two events with nothing held: then a piece that holds one whole
    event may be read without ``feed``.
    """

    __slots__ = ("_after_cr", "_data", "_line", "_line_size", "_name", "_size", "_skipping", "idle", "lost")

    def __init__(self) -> None:
        self._line: list[bytes] = []  # pieces of a line that has not ended
        self._line_size = 0
        self._after_cr = False  # the next LF belongs to the line end before it
        self._name = b""
        self._data: list[bytes] = []
        self._size = 0  # bytes of all lines of the event
        self._skipping = False  # the event is too large: wait for its end
        self.idle = True
        self.lost = 0

    def feed(self, data: bytes) -> list[Event]:
        """Return the events that ``data`` completes."""
        if self._after_cr:
            self._after_cr = False
            if data.startswith(b"\n"):
                data = data[1:]
        rest = b""
        if not data.endswith(b"\n"):
            end = max(data.rfind(b"\n"), data.rfind(b"\r")) + 1
            self._after_cr = end == len(data) > 0
            data, rest = data[:end], data[end:]
        events = self._lines(data) if data else []
        if rest:
            self._hold(rest)
        self.idle = not (self._line_size or self._size or self._after_cr or self._skipping)
        return events

    def _lines(self, data: bytes) -> list[Event]:
        """Whole lines, the first of which may have begun earlier."""
        if self._line_size:
            data = b"".join(self._line) + data
            self._line.clear()
            self._line_size = 0
        events: list[Event] = []
        for line in data.splitlines():
            if not line:
                self._dispatch(events)
                continue
            self._size += len(line)
            if self._skipping:
                continue
            if self._size > MAX_EVENT:
                self._skip()
            elif line.startswith(b"data: "):
                self._data.append(line[6:])
            elif line.startswith(b"event: "):
                self._name = line[7:]
            else:
                field, _, value = line.partition(b":")
                if value.startswith(b" "):
                    value = value[1:]
                if field == b"data":
                    self._data.append(value)
                elif field == b"event":
                    self._name = value
        return events

    def _dispatch(self, events: list[Event]) -> None:
        if self._skipping:
            self._skipping = False
            self.lost += 1
            events.append((b"", b""))
        elif self._data:
            data = self._data
            events.append((self._name, data[0] if len(data) == 1 else b"\n".join(data)))
        self._data.clear()
        self._name = b""
        self._size = 0

    def _hold(self, piece: bytes) -> None:
        if not self._skipping and self._size + self._line_size + len(piece) > MAX_EVENT:
            self._skip()
        if self._skipping:
            # Of a line of an event that is skipped, only that it is not empty matters.
            self._line = [b":"]
            self._line_size = 1
        else:
            self._line.append(piece)
            self._line_size += len(piece)

    def _skip(self) -> None:
        self._skipping = True
        self._data.clear()
        self._line.clear()


class JsonLines:
    """One JSON document per line (NDJSON); blank lines do not count. Names are empty."""

    __slots__ = ("_held", "_skipping", "lost")
    idle = False  # no piece is read without ``feed``

    def __init__(self) -> None:
        self._held = bytearray()
        self._skipping = False
        self.lost = 0

    def feed(self, data: bytes) -> list[Event]:
        """Return the lines that ``data`` completes."""
        held = self._held
        scanned = len(held)
        held += data
        events: list[Event] = []
        start = 0
        while (end := held.find(b"\n", max(start, scanned))) >= 0:
            if self._skipping or end - start > MAX_EVENT:
                self._skipping = False
                self.lost += 1
            else:
                line = bytes(held[start:end]).strip()
                if line:
                    events.append((b"", line))
            start = end + 1
        del held[:start]
        if len(held) > MAX_EVENT:
            self._skipping = True
            held.clear()
        return events

    def rest(self) -> list[Event]:
        """Return the last line, when the body ended without a line end."""
        line = b"" if self._skipping else bytes(self._held).strip()
        self._held.clear()
        return [(b"", line)] if line else []


class AwsFrames:
    """``application/vnd.amazon.eventstream``: length-prefixed frames with two CRC-32.

    The name of an event is its ``:event-type``; of an exception ``!`` and its type (C). After a
    prelude with a wrong CRC nothing can be trusted any more: ``broken`` is set.
    """

    __slots__ = ("_held", "_skip", "broken", "lost")
    idle = False

    def __init__(self) -> None:
        self._held = bytearray()
        self._skip = 0
        self.broken = False
        self.lost = 0

    def feed(self, data: bytes) -> list[Event]:
        """Return the frames that ``data`` completes."""
        events: list[Event] = []
        if self.broken:
            return events
        held = self._held
        held += data
        start = 0
        while True:
            if self._skip:
                step = min(self._skip, len(held) - start)
                start += step
                self._skip -= step
                if self._skip:
                    break
            if len(held) - start < 12:
                break
            prelude = bytes(held[start : start + 12])
            total = int.from_bytes(prelude[:4])
            head = int.from_bytes(prelude[4:8])
            if crc32(prelude[:8]) != int.from_bytes(prelude[8:]) or total < head + 16:
                self.broken = True
                self.lost += 1
                held.clear()
                return events
            if total > MAX_EVENT:
                self.lost += 1
                self._skip = total
                continue
            if len(held) - start < total:
                break
            frame = bytes(held[start : start + total])
            start += total
            if crc32(frame[:-4]) != int.from_bytes(frame[-4:]):
                self.lost += 1
                continue
            name = _frame_name(frame[12 : 12 + head])
            if name is None:
                self.lost += 1
            else:
                events.append((name, frame[12 + head : -4]))
        del held[:start]
        return events


# Sizes of the values of header types 0 to 9; types 6 and 7 carry a two-byte length.
_VALUE_SIZES = {0: 0, 1: 0, 2: 1, 3: 2, 4: 4, 5: 8, 8: 8, 9: 16}


def _frame_name(head: bytes) -> bytes | None:
    """Return the event's name from the headers of a frame, ``None`` when they cannot be read."""
    found: dict[bytes, bytes] = {}
    at = 0
    while at < len(head):
        name_end = at + 1 + head[at]
        if name_end >= len(head):
            return None
        kind = head[name_end]
        value = name_end + 1
        if kind in (6, 7):
            size = int.from_bytes(head[value : value + 2])
            value += 2
        elif kind in _VALUE_SIZES:
            size = _VALUE_SIZES[kind]
        else:
            return None
        if value + size > len(head):
            return None
        if kind == 7:
            found[head[at + 1 : name_end]] = head[value : value + size]
        at = value + size
    message = found.get(b":message-type", b"event")
    if message == b"event":
        return found.get(b":event-type", b"")
    if message == b"exception":
        return b"!" + found.get(b":exception-type", b"")
    return b"!" + found.get(b":error-code", b"error")
