"""Framings of response bodies, without I/O: SSE, lines of JSON, AWS event streams.

Each parser takes bytes in any chunking and returns the events that were completed by them, as
``(name, payload)`` pairs of bytes. None of them raises on bad input. What was lost (one event
above ``MAX_EVENT``, a frame whose CRC is wrong) is counted in ``lost`` and parsing goes on.

Sources: WHATWG HTML, server-sent events (D); Amazon event-stream encoding (D).
"""

from __future__ import annotations

import re
from zlib import crc32

__all__ = ["MAX_BODY", "MAX_EVENT", "AwsFrames", "JsonLines", "Sse"]

MAX_BODY = 4 << 20
"""Most bytes of a plain body that are held (C)."""
MAX_EVENT = 4 << 20
"""Most bytes of one event that are held (C)."""

Event = tuple[bytes, bytes]

# The usual piece of a stream: one whole event of an optional name and one data line.
_ONE = re.compile(rb"(?:event: ([^\r\n]*)\n)?data: ([^\r\n]*)\n\n").fullmatch


class Sse:
    """Server-sent events: LF, CRLF or CR; comments; several data lines; a blank line dispatches."""

    __slots__ = ("_after_cr", "_held", "_scanned", "_skipping", "lost")

    def __init__(self) -> None:
        self._held = bytearray()
        self._scanned = 0  # no blank line begins before this index
        self._after_cr = False
        self._skipping = False
        self.lost = 0

    def feed(self, data: bytes) -> list[Event]:
        """The events that ``data`` completes."""
        if not self._held and not self._after_cr and not self._skipping and len(data) <= MAX_EVENT:
            one = _ONE(data)
            if one is not None:
                name, payload = one.groups()
                return [(name or b"", payload)]
        if self._after_cr or b"\r" in data:
            data = self._normalise(data)
        return self._split(data)

    def _normalise(self, data: bytes) -> bytes:
        if self._after_cr and data.startswith(b"\n"):
            data = data[1:]
            self._after_cr = False
            if not data:
                return data
        self._after_cr = data.endswith(b"\r")
        return data.replace(b"\r\n", b"\n").replace(b"\r", b"\n")

    def _split(self, data: bytes) -> list[Event]:
        held = self._held
        events: list[Event] = []
        held += data
        start = 0
        while True:
            end = held.find(b"\n\n", max(start, self._scanned))
            if end < 0:
                break
            if self._skipping or end - start > MAX_EVENT:
                self._skipping = False
                self.lost += 1
                events.append((b"", b""))
            else:
                event = _fields(bytes(held[start:end]))
                if event is not None:
                    events.append(event)
            start = end + 2
        del held[:start]
        self._scanned = max(len(held) - 1, 0)
        if len(held) > MAX_EVENT + 1:
            self._skipping = True
            del held[:-1]
            self._scanned = 0
        return events


def _fields(block: bytes) -> Event | None:
    """Name and data of the lines between two blank lines, ``None`` when they hold no data."""
    name = b""
    data: list[bytes] = []
    for line in block.split(b"\n"):
        field, _, value = line.partition(b":")
        if value.startswith(b" "):
            value = value[1:]
        if field == b"data":
            data.append(value)
        elif field == b"event":
            name = value
    if not data:
        return None
    return name, data[0] if len(data) == 1 else b"\n".join(data)


class JsonLines:
    """One JSON document per line (NDJSON); blank lines do not count. Names are empty."""

    __slots__ = ("_held", "_skipping", "lost")

    def __init__(self) -> None:
        self._held = bytearray()
        self._skipping = False
        self.lost = 0

    def feed(self, data: bytes) -> list[Event]:
        """The lines that ``data`` completes."""
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
        """The last line, when the body ended without a line end."""
        line = b"" if self._skipping else bytes(self._held).strip()
        self._held.clear()
        return [(b"", line)] if line else []


class AwsFrames:
    """``application/vnd.amazon.eventstream``: length-prefixed frames with two CRC-32.

    The name of an event is its ``:event-type``; of an exception ``!`` and its type (C). After a
    prelude with a wrong CRC nothing can be trusted any more: ``broken`` is set.
    """

    __slots__ = ("_held", "_skip", "broken", "lost")

    def __init__(self) -> None:
        self._held = bytearray()
        self._skip = 0
        self.broken = False
        self.lost = 0

    def feed(self, data: bytes) -> list[Event]:
        """The frames that ``data`` completes."""
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
    """The event's name from the headers of a frame, ``None`` when they cannot be read."""
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
