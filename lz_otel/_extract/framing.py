"""Framings of response bodies, without I/O: SSE, lines of JSON, AWS event streams.

Each parser takes bytes in any chunking and returns the events that were completed by them, as
``(name, payload)`` pairs of bytes. None of them raises on bad input. What was lost (one event
above ``MAX_EVENT``, a frame whose CRC is wrong) is counted in ``lost`` and parsing goes on. Nothing
more is read of a body that is all tiny lines: each costs about a microsecond, whatever it holds.

Sources: WHATWG HTML, server-sent events (D); Amazon event-stream encoding (D).
"""

from __future__ import annotations

from zlib import crc32

MAX_BODY = 4 << 20
"""Most bytes of a plain body that are held (C)."""
MAX_EVENT = 4 << 20
"""Most bytes of one event that are held (C)."""

_MANY = 400_000  # lines of a body that may be of any size (C)
_TINY = 32  # bytes; a body with more lines than that, and shorter ones on average, is given up (C)
_LOOSE = 1000  # lines of one event that are held one by one

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


class _Parser:
    """What all parsers count: events that were lost, and how much work a body has been.

    Attributes:
        flooded: nothing more is read of the body, which is counted as one loss.
    """

    __slots__ = ("_bytes", "_steps", "flooded", "lost")

    def __init__(self) -> None:
        self.lost = self._steps = self._bytes = 0
        self.flooded = False

    def _worked(self, steps: int, size: int) -> None:
        """Count some work: what costs as much as a line, and the bytes that were read."""
        self._steps += steps
        self._bytes += size
        if self._steps > _MANY and self._bytes < _TINY * self._steps and not self.flooded:
            self.flooded = True
            self.lost += 1


class Sse(_Parser):
    """Server-sent events: LF, CRLF or CR; comments; several data lines; a blank line dispatches.

    ``idle`` is true between two events with nothing held: then a piece that holds one whole
    event may be read without ``feed``.
    """

    __slots__ = ("_after_cr", "_data", "_first", "_line", "_name", "_size", "_skipping", "idle")

    def __init__(self) -> None:
        super().__init__()
        self._line = bytearray()  # of a line that has not ended
        self._after_cr = False  # the next LF belongs to the line end before it
        self._name = b""
        self._first = bytearray()  # the first data lines of an event with very many
        self._data: list[bytes] = []
        self._size = 0  # bytes of all lines of the event
        self._skipping = False  # the event is too large: wait for its end
        self.idle = True

    def feed(self, data: bytes) -> list[Event]:
        """Return the events that ``data`` completes."""
        if self.flooded:
            return []
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
        self.idle = not (self._line or self._size or self._after_cr or self._skipping or self.flooded)
        return events

    def _lines(self, data: bytes) -> list[Event]:
        """Whole lines, the first of which may have begun earlier."""
        if self._line:
            self._line += data
            data = bytes(self._line)
            self._line.clear()
        events: list[Event] = []
        lines = data.splitlines()
        self._worked(len(lines), len(data))
        for line in lines:
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
        if len(self._data) > _LOOSE:
            self._first += b"\n".join([*self._data, b""])
            self._data.clear()
        return events

    def _dispatch(self, events: list[Event]) -> None:
        if self._skipping:
            self._skipping = False
            self.lost += 1
            events.append((b"", b""))
        elif self._data or self._first:
            data = self._data
            if self._first:
                data = [bytes(self._first[:-1]), *data]
                self._first.clear()
            events.append((self._name, data[0] if len(data) == 1 else b"\n".join(data)))
        self._data.clear()
        self._name = b""
        self._size = 0

    def _hold(self, piece: bytes) -> None:
        if not self._skipping and self._size + len(self._line) + len(piece) > MAX_EVENT:
            self._skip()
        if self._skipping:
            # Of a line of an event that is skipped, only that it is not empty matters.
            self._line[:] = b":"
        else:
            self._line += piece

    def _skip(self) -> None:
        self._skipping = True
        self._data.clear()
        self._first.clear()
        self._line.clear()


class JsonLines(_Parser):
    """One JSON document per line (NDJSON); blank lines do not count. Names are empty."""

    __slots__ = ("_held", "_skipping")
    idle = False  # no piece is read without ``feed``

    def __init__(self) -> None:
        super().__init__()
        self._held = bytearray()
        self._skipping = False

    def feed(self, data: bytes) -> list[Event]:
        """Return the lines that ``data`` completes."""
        if self.flooded:
            return []
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
        self._worked(2 * data.count(b"\n"), len(data))  # each is a document of its own
        if len(held) > MAX_EVENT or self.flooded:
            self._skipping = True
            held.clear()
        return events

    def rest(self) -> list[Event]:
        """Return the last line, when the body ended without a line end."""
        line = b"" if self._skipping else bytes(self._held).strip()
        self._held.clear()
        return [(b"", line)] if line else []


class AwsFrames(_Parser):
    """``application/vnd.amazon.eventstream``: length-prefixed frames with two CRC-32.

    The name of an event is its ``:event-type``; of an exception ``!`` and its type (C). After a
    prelude with a wrong CRC nothing can be trusted any more: ``broken`` is set.
    """

    __slots__ = ("_held", "_skip", "broken")
    idle = False

    def __init__(self) -> None:
        super().__init__()
        self._held = bytearray()
        self._skip = 0
        self.broken = False

    def feed(self, data: bytes) -> list[Event]:
        """Return the frames that ``data`` completes."""
        events: list[Event] = []
        if self.broken or self.flooded:
            return events
        held = self._held
        held += data
        start = frames = 0
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
            frames += 1
            if crc32(frame[:-4]) != int.from_bytes(frame[-4:]):
                self.lost += 1
                continue
            name = _frame_name(frame[12 : 12 + head])
            if name is None:
                self.lost += 1
            else:
                events.append((name, frame[12 + head : -4]))
        del held[:start]
        self._worked(4 * frames, len(data))
        return events


# Sizes of the values of header types 0 to 9; types 6 and 7 carry a two-byte length.
_MOST_HEADERS = 32  # of a frame; there are three (C)
_VALUE_SIZES = {0: 0, 1: 0, 2: 1, 3: 2, 4: 4, 5: 8, 8: 8, 9: 16}


def _frame_name(head: bytes) -> bytes | None:
    """Return the event's name from the headers of a frame, ``None`` when they cannot be read."""
    found: dict[bytes, bytes] = {}
    at = 0
    while at < len(head):
        if len(found) > _MOST_HEADERS:
            return None
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
        found[head[at + 1 : name_end]] = head[value : value + size] if kind == 7 else b""
        at = value + size
    message = found.get(b":message-type", b"event")
    if message == b"event":
        return found.get(b":event-type", b"")
    if message == b"exception":
        return b"!" + found.get(b":exception-type", b"")
    return b"!" + found.get(b":error-code", b"error")
