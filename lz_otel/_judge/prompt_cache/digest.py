"""Digests of a request's blocks, in the order in which a prompt is rendered (D).

``tools`` -> ``system`` -> ``messages``; one *position* per tool, system block and content block.
The digest of a position covers everything before it, so two requests share a prefix exactly when
they share the digest of its last position. ``cache_control`` is no content: a breakpoint that moves
changes nothing. No text is kept: pieces of a body are digested and dropped.

A message that was seen before (nearly all of a conversation are) costs one hash of its bytes: what
was found in it is remembered by that hash.
"""

from __future__ import annotations

import re
from itertools import accumulate
from typing import TYPE_CHECKING, Any

import msgspec
from msgspec import Raw

from lz_otel._extract.request import NOTHING, Fields
from lz_otel._ground.memory import BoundedMap
from lz_otel._ground.unreadable import UNREADABLE
from lz_otel._judge.prompt_cache.lineage import Sections

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

FIVE_MINUTES, ONE_HOUR = 300.0, 3600.0
MAX_POSITIONS = 4000
"""Most positions that are digested; a request with more is not explained."""

_CONTROL = b"(?:\\{[^{}]*\\}|null)"
_STRIP = re.compile(
    rb'\s*,\s*"cache_control"\s*:\s*' + _CONTROL + rb'|"cache_control"\s*:\s*' + _CONTROL + rb"\s*,?\s*"
)


class Top(Fields, gc=False):
    """Top level of a request body, with what only OpenAI's cache asks for; what may be long is a slice."""

    previous_response_id: Raw = NOTHING
    conversation: Raw = NOTHING
    prompt_cache_options: Any = None
    prompt_cache_retention: Any = None


class Head(msgspec.Struct, gc=False):
    """Tools and system prompt, which few requests change: what a `PromptDigests` begins with.

    Attributes:
        chain, marks: as of `PromptDigests`.
        pieces: tools and system prompt.
        digest: of all that comes before the messages.
        sections: as `Lineage` compares them.
    """

    chain: list[int]
    marks: list[Mark]
    pieces: tuple[_Piece, _Piece]
    digest: int
    sections: Sections


class _MessageParts(msgspec.Struct, gc=False):
    role: Raw = NOTHING
    content: Raw = NOTHING


class _Part(msgspec.Struct, gc=False):
    type: Raw = NOTHING
    text: Raw = NOTHING
    citations: Raw = NOTHING
    cache_control: Raw = NOTHING
    cachePoint: Raw = NOTHING  # noqa: N815 - the wire's name


class _ToolConfig(msgspec.Struct, gc=False):
    tools: list[Raw] = []


_TOP = msgspec.json.Decoder(Top)
_MESSAGE = msgspec.json.Decoder(_MessageParts)
_PART = msgspec.json.Decoder(_Part)
_LIST = msgspec.json.Decoder(list[Raw])
_TOOL_CONFIG = msgspec.json.Decoder(_ToolConfig)
_UNCACHEABLE = (b'"thinking"', b'"redacted_thinking"')


Mark = tuple[int, float]
"""A breakpoint: position in the prompt and lifetime in seconds."""


class _Piece(msgspec.Struct, frozen=True, gc=False):
    """What one piece of a body (a message, the system prompt, the tools) holds.

    Attributes:
        blocks: digest of each block.
        sizes: bytes of each block.
        marks: breakpoints, by position in the piece.
        last: index of the last block behind which a breakpoint may stand, or -1.
        digest: of all its blocks.
    """

    blocks: tuple[int, ...]
    sizes: tuple[int, ...]
    marks: tuple[Mark, ...]
    last: int
    digest: int


_EMPTY = _Piece((), (), (), -1, hash(()))
_NO_CHOICE = hash((b"", b"", b""))
_NO_SPEED = hash(b"")


class PromptDigests(msgspec.Struct, gc=False):
    """A request as a prompt cache sees it.

    Attributes:
        chain: digest of the prefix that ends at each position.
        marks: breakpoints by position.
        head: tools and system prompt.
        pieces: messages.
    """

    chain: list[int]
    marks: list[Mark]
    head: Head
    pieces: list[_Piece]
    _up_to: list[int] | None = None

    def bytes_up_to(self, position: int) -> int:
        """Return the bytes of the prefix that ends at a position (-1: at the last one)."""
        if self._up_to is None:  # a usual hit never asks
            pieces = (*self.head.pieces, *self.pieces)
            self._up_to = list(accumulate(size for piece in pieces for size in piece.sizes))
        return self._up_to[position]


def decode(body: bytes) -> Top | None:
    """Decode the top level of a request body; ``None`` when it is not one that can be read."""
    try:
        top = _TOP.decode(body)
    except UNREADABLE:
        return None
    if not bytes(top.tools):
        top.tools = top.tool_config
    return top


class Digester:
    """Turns request bodies into `PromptDigests`."""

    def __init__(self) -> None:
        self._known: BoundedMap[int, _Piece] = BoundedMap(2048)  # by its hash, about 0.4 KB each
        self._heads: BoundedMap[int, Head] = BoundedMap(32)  # about 0.1 KB for each block of them

    def prompt(self, top: Fields) -> PromptDigests | None:
        """Return the request's positions; ``None`` when it has none, too many, or a shape of its own."""
        known = self._known.peek
        pieces = []
        try:
            head = self._head(top)
            for message in top.messages or ():
                data = bytes(message)
                pieces.append(known(hash(data)) or self._piece(data, _message))
        except UNREADABLE:
            return None
        chain, marks = head.chain.copy(), head.marks.copy()
        if top.tool_choice is NOTHING and top.thinking is NOTHING and top.output_config is NOTHING:
            choice = _NO_CHOICE
        else:
            choice = hash((bytes(top.tool_choice), bytes(top.thinking), bytes(top.output_config)))
        _append(pieces, hash((head.digest, 2, choice)), chain, marks)
        if len(chain) > MAX_POSITIONS or not (chain or pieces):
            return None
        if top.cache_control is not None:
            _mark_last(top.cache_control, [*head.pieces, *pieces], len(chain), marks)
        return PromptDigests(chain, marks, head, pieces)

    def _head(self, top: Fields) -> Head:
        tools = b"" if top.tools is NOTHING else bytes(top.tools)
        system = bytes(top.system)
        settings = _NO_SPEED if top.speed is None else hash(msgspec.json.encode(top.speed))
        key = hash((tools, system, settings))
        head = self._heads.get(key)
        if head is None:
            tool_list, prompt = self._piece(tools, _tools), self._piece(system, _system)
            chain: list[int] = []
            marks: list[Mark] = []
            digest = _append([tool_list], hash((0, 0, 0)), chain, marks)
            digest = _append([prompt], hash((digest, 1, settings)), chain, marks)
            sections = Sections(settings, tool_list.digest, prompt.digest)
            head = Head(chain, marks, (tool_list, prompt), digest, sections)
            self._heads.put(key, head)
        return head

    def _piece(self, data: bytes, parse: Callable[[bytes], _Piece]) -> _Piece:
        if not data:
            return _EMPTY
        key = hash(data)
        piece = self._known.peek(key)
        if piece is None:
            piece = parse(data)
            self._known.put(key, piece)
        return piece


def _append(pieces: Iterable[_Piece], digest: int, chain: list[int], marks: list[Mark]) -> int:
    """Add the blocks of one section; return the digest so far."""
    for piece in pieces:
        if piece.marks:
            marks += [(len(chain) + index, ttl) for index, ttl in piece.marks]
        for block in piece.blocks:
            digest = hash((digest, block))
            chain.append(digest)
    return digest


def _mark_last(control: object, pieces: list[_Piece], end: int, marks: list[Mark]) -> None:
    """Add the breakpoint that is asked for behind the last block that may have one."""
    ttl = _lifetime(msgspec.json.encode(control))
    for piece in reversed(pieces):
        end -= len(piece.blocks)
        if piece.last >= 0:
            last = end + piece.last
            if ttl and all(position != last for position, _ in marks):
                marks.append((last, ttl))
                marks.sort()
            return


def _lifetime(data: bytes) -> float:
    """Return the seconds of a ``cache_control`` (or ``cachePoint``); 0 without one."""
    if not data or data == b"null":
        return 0.0
    return ONE_HOUR if b'"1h"' in data else FIVE_MINUTES


def _tools(data: bytes) -> _Piece:
    if data[:1] == b"{":
        return _parts(_TOOL_CONFIG.decode(data).tools, 0)
    if data[:1] != b"[":
        return _EMPTY
    return _parts(_LIST.decode(data), 0, texts=False)


def _system(data: bytes) -> _Piece:
    if data[:1] == b"[":
        return _parts(_LIST.decode(data), 0)
    return _text(hash((0, data)), data) if data[:1] == b'"' else _EMPTY


def _message(data: bytes) -> _Piece:
    message = _MESSAGE.decode(data)
    role = hash(bytes(message.role))
    content = bytes(message.content)
    if content[:1] == b"[":
        return _parts(_LIST.decode(content), role)
    return _text(hash((role, content)), content)


def _text(digest: int, content: bytes) -> _Piece:
    """Return the piece of a string, which is one block."""
    return _Piece((digest,), (len(content),), (), 0 if len(content) > 2 else -1, hash((digest,)))


def _parts(parts: Sequence[Raw], role: int, *, texts: bool = True) -> _Piece:
    """Return the piece of a list of blocks. A text block has its text's digest, as a string has."""
    blocks: list[int] = []
    sizes: list[int] = []
    marks: list[Mark] = []
    last = -1
    for raw in parts:
        data = bytes(raw)
        if data[:1] != b"{":
            blocks.append(hash((role, data)))
            sizes.append(len(data))
            continue
        part = _PART.decode(raw)
        if bytes(part.cachePoint):
            if blocks:
                marks.append((len(blocks) - 1, _lifetime(bytes(part.cachePoint))))
            continue
        kind, text = bytes(part.type), bytes(part.text)
        cacheable = kind not in _UNCACHEABLE
        if texts and kind == b'"text"' and text[:1] == b'"':
            cacheable = len(text) > 2
            citations = bytes(part.citations)
            cited = () if citations in (b"", b"null") else (citations,)
            content: tuple[object, ...] = (role, text, *cited)
            size = len(text)
        else:
            if b'"cache_control"' in data:
                data = _STRIP.sub(b"", data)
            content, size = (role, data), len(data)
        ttl = _lifetime(bytes(part.cache_control))
        if ttl and cacheable:
            marks.append((len(blocks), ttl))
        if cacheable:
            last = len(blocks)
        blocks.append(hash(content))
        sizes.append(size)
    return _Piece(tuple(blocks), tuple(sizes), tuple(marks), last, hash(tuple(blocks)))
