"""A JSON document of any size, held in little: long strings and long lists of numbers are left out.

What is left is a document of the same structure, which the ordinary decoders read. It costs no look at each
byte: only what stands between two quotes that are far apart is shortened, and these are found by jumps.
A document that is large without anything long is given up but for its first and its last members.
"""

from __future__ import annotations

import re

from msgspec import Raw
from msgspec import json as msgspec_json

from lz_otel._extract.values import whole_members
from lz_otel._ground.unreadable import UNREADABLE

BLOCK = 1 << 20
"""Bytes up to which a document is held as it is; longer ones are shortened so many at a time (C)."""
_STEP = 512  # what is shorter is kept
_EDGE = 1 << 16  # of a document that is given up, so many bytes are read at either end
_MOST_KEPT = 4 << 20
_MOST_TRIES = 256
# What stands outside of strings: structure, numbers, literals
_OUTSIDE = b"[]{},:0123456789+-.eE \n\r\tNaInfityrulsn"
_MEMBER = re.compile(rb',\s*"[^"\\]{1,64}"\s*:').finditer
_CUT = re.compile(rb'\s*,?\s*"([^"\\]{1,64})"\s*:\s*([\[{"])').match
_EMPTY = {b"[": b"[]", b"{": b"{}", b'"': b'"x"'}
_OBJECT = msgspec_json.Decoder(dict[str, Raw])


class Skim:
    """Takes a document piece by piece.

    Attributes:
        shortened: something was left out.
        given_up: all but the first and the last members was.
    """

    __slots__ = ("_held", "_kept", "_most", "_skipping", "given_up", "shortened")

    def __init__(self, most: int = _MOST_KEPT) -> None:
        """Hold at most so many bytes of what is left, and a block."""
        self._held = bytearray()  # as it came
        self._kept = bytearray()
        self._most = most
        self._skipping = b""  # what ends that of which the beginning was left out: a quote or a bracket
        self.shortened = self.given_up = False

    def write(self, data: bytes) -> None:
        """Take the next piece."""
        self._held += data
        if self.given_up:
            del self._held[:-_EDGE]
        elif len(self._held) >= BLOCK:
            self._shorten(bytes(self._held))

    def value(self) -> bytes:
        """Return what is left of the document."""
        if not self.shortened and not self._kept:
            return bytes(self._held)
        if not self.given_up:
            held = bytes(self._held)
            rest = held[self._resume(held) :]
            return bytes(self._kept) + rest
        members = [first_members(bytes(self._kept[:_EDGE])), last_members(bytes(self._held))]
        return b"{" + b",".join(filter(None, members)) + b"}"

    def _shorten(self, block: bytes) -> None:
        self._held.clear()
        done = at = self._resume(block)
        while at + _STEP <= len(block):
            if block.find(b'"', at, at + _STEP) >= 0:
                at += _STEP
                continue
            begin = block.rfind(b'"', done, at) + 1 or done
            end = block.find(b'"', at + _STEP)
            if end < 0:
                break
            self._kept += block[done:begin] + _short(block[begin:end])
            self.shortened = True
            done = at = end
        begin = block.rfind(b'"', done) + 1 or done
        self._kept += block[done:begin]
        self._suspend(block[begin:])
        if len(self._kept) > self._most:
            self.given_up = self.shortened = True
            del self._kept[_EDGE:]
            self._held[:] = block[-_EDGE:]

    def _resume(self, block: bytes) -> int:
        """Return where that of which the beginning was left out ends."""
        if not self._skipping:
            return 0
        quote = block.find(b'"')
        stop = quote if quote >= 0 else len(block)
        if self._skipping == b"]":
            bracket = block.find(b"]", 0, stop)
            stop = stop if bracket < 0 else bracket
        elif quote >= 0:
            self._kept += _escape(block[:quote])
        else:
            self._held += _escape(block)
        if stop < len(block):
            self._skipping = b""
        return stop

    def _suspend(self, rest: bytes) -> None:
        """Hold what may go on in the next block, or leave it out."""
        if self._skipping:
            return
        if len(rest) < 2 * _STEP:
            self._held += rest
            return
        self.shortened = True
        if _is_text(rest):
            self._kept += b"x"
            self._held += _escape(rest)
            self._skipping = b'"'
            return
        parts, bracket, last = rest.rpartition(b"]")
        self._kept += _short(parts + bracket)
        opened = last.rfind(b"[") + 1
        if opened:
            self._kept += last[:opened]
            self._skipping = b"]"
        else:
            self._held += last


def _is_text(stretch: bytes) -> bool:
    """Return whether what stands between two quotes is (part of) a string."""
    return bool((stretch[:_STEP] + stretch[-_STEP:]).translate(None, _OUTSIDE))


def _short(stretch: bytes) -> bytes:
    """Return what stands between two quotes without what is long in it."""
    if _is_text(stretch):
        return b"x" + _escape(stretch)
    parts = stretch.split(b"]")
    for number, part in enumerate(parts[:-1]):
        opened = part.rfind(b"[") + 1
        if opened and len(part) - opened > 64:
            parts[number] = part[:opened]
    return b"]".join(parts)


def _escape(text: bytes) -> bytes:
    """Return a backslash where the text ends with an open one: the quote behind it ends no string then."""
    return b"\\" * ((len(text) - len(text.rstrip(b"\\"))) % 2)


def first_members(start: bytes) -> bytes:
    """Return the first members of a JSON object, without its braces; the one that is cut keeps no value."""
    whole = (whole_members(start) or b"{}").lstrip()[1:-1]
    rest = start.lstrip()[1 + len(whole) :]
    cut = _CUT(rest)
    if cut is None:
        return whole
    return whole + (b"," if whole else b"") + b'"%b":%b' % (cut[1], _EMPTY[cut[2]])


def last_members(tail: bytes) -> bytes:
    """Return the last members of a JSON object of which this is the end, without the brace that ends it."""
    found = b""
    tries = [match.start() for match in _MEMBER(tail)][-_MOST_TRIES:]
    for start in reversed(tries):
        member = b"{" + tail[start + 1 :]
        try:
            _OBJECT.decode(member)
        except UNREADABLE:
            continue
        found = member.rstrip()[1:-1]
    return found


def skim(document: bytes, most: int) -> tuple[bytes, bool]:
    """Return what is left of a document, and whether that is all of its structure."""
    taken = Skim(most)
    for start in range(0, len(document), BLOCK):
        taken.write(document[start : start + BLOCK])
    return taken.value(), not taken.given_up
