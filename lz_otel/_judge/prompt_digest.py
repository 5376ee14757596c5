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
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec
from msgspec import Raw

from lz_otel._extract.request import NOTHING, Fields
from lz_otel._memory import BoundedMap

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["FIVE_MINUTES", "ONE_HOUR", "Digester", "Mark", "Prompt", "Top", "decode", "of_fields"]

FIVE_MINUTES, ONE_HOUR = 300.0, 3600.0
MAX_POSITIONS = 4000
"""Most positions that are digested; a request with more is not explained."""

_CONTROL = b'(?:\\{[^{}]*\\}|null)'
_STRIP = re.compile(
    rb'\s*,\s*"cache_control"\s*:\s*' + _CONTROL + rb'|"cache_control"\s*:\s*' + _CONTROL + rb'\s*,?\s*'
)  # fmt: skip


class Top(msgspec.Struct, gc=False):
    """Top level of a request body; everything that may be long is a slice."""

    system: Raw = NOTHING
    tools: Raw = NOTHING
    messages: list[Raw] | None = None
    cache_control: Raw = NOTHING
    tool_choice: Raw = NOTHING
    thinking: Raw = NOTHING
    output_config: Raw = NOTHING
    speed: Raw = NOTHING
    # Bedrock Converse
    toolConfig: Raw = NOTHING  # noqa: N815 - the wire's name
    # OpenAI
    instructions: Raw = NOTHING
    input: Raw = NOTHING
    previous_response_id: Raw = NOTHING
    conversation: Raw = NOTHING
    prompt_cache_key: Raw = NOTHING
    prompt_cache_options: Any = None
    prompt_cache_retention: Any = None


class _Message(msgspec.Struct, gc=False):
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
_MESSAGE = msgspec.json.Decoder(_Message)
_PART = msgspec.json.Decoder(_Part)
_LIST = msgspec.json.Decoder(list[Raw])
_TOOL_CONFIG = msgspec.json.Decoder(_ToolConfig)
_UNCACHEABLE = (b'"thinking"', b'"redacted_thinking"')


class _Found(NamedTuple):
    """What one piece of a body (a message, the system prompt, the tools) holds.

    Attributes:
        blocks: digest and bytes of each block.
        marks: ``(index, ttl in seconds)`` of each breakpoint.
        last: index of the last block behind which a breakpoint may stand, or -1.
        digest: of all its blocks.
    """

    blocks: tuple[tuple[int, int], ...]
    marks: tuple[tuple[int, float], ...]
    last: int
    digest: int


_EMPTY = _Found((), (), -1, hash(()))
_NO_CHOICE = hash((b"", b"", b""))
_NO_SPEED = hash(b"")


class Mark(NamedTuple):
    """A breakpoint: position in the prompt and lifetime in seconds."""

    position: int
    ttl: float


class Prompt(NamedTuple):
    """A request as a prompt cache sees it.

    Attributes:
        chain: digest of the prefix that ends at each position.
        bytes_up_to: bytes of that prefix.
        marks: breakpoints by position.
        tools, system: digests of these sections by themselves.
        settings: digest of what else the prefix of the system section depends on (``speed``).
    """

    chain: list[int]
    bytes_up_to: list[int]
    marks: list[Mark]
    tools: int
    system: int
    settings: int


def of_fields(fields: Any) -> Top | None:
    """What the extract stage has decoded already, where its struct holds the same slices (saves a pass)."""
    if type(fields) is not Fields:
        return None
    control, speed = fields.cache_control, fields.speed
    return Top(
        fields.system,
        fields.tools,
        fields.messages,
        NOTHING if control is None else Raw(msgspec.json.encode(control)),
        fields.tool_choice,
        fields.thinking,
        fields.output_config,
        NOTHING if speed is None else Raw(msgspec.json.encode(speed)),
    )


def decode(body: bytes) -> Top | None:
    """The top level of a request body; ``None`` when it is not one that can be read."""
    try:
        return _TOP.decode(body)
    except (msgspec.MsgspecError, RecursionError, UnicodeDecodeError):
        return None


class _Head(NamedTuple):
    """Tools and system prompt, which few requests change: what a `Prompt` begins with.

    Attributes:
        chain, bytes_up_to, marks: as of `Prompt`.
        last: position of the last block behind which a breakpoint may stand, or -1.
        digest: of all that comes before the messages.
        tools, system: digests of these sections by themselves.
    """

    chain: list[int]
    bytes_up_to: list[int]
    marks: list[Mark]
    last: int
    digest: int
    tools: int
    system: int


class Digester:
    """Turns request bodies into `Prompt`.

    Args:
        max_entries: most pieces remembered by their hash (about 0.4 KB each).
        max_heads: most pairs of tools and system prompt remembered (about 0.1 KB for each block of them).
    """

    def __init__(self, max_entries: int = 2048, max_heads: int = 32) -> None:
        self._known: BoundedMap[int, _Found] = BoundedMap(max_entries)
        self._heads: BoundedMap[int, _Head] = BoundedMap(max_heads)

    def prompt(self, top: Top) -> Prompt | None:
        """The request's positions; ``None`` when it has none, too many, or a shape of its own."""
        try:
            return self._prompt(top)
        except (msgspec.MsgspecError, RecursionError):
            return None

    def _prompt(self, top: Top) -> Prompt | None:
        tools = bytes(top.tools) or bytes(top.toolConfig)
        system = bytes(top.system)
        settings = _NO_SPEED if top.speed is NOTHING else hash(bytes(top.speed))
        key = hash((tools, system, settings))
        head = self._heads.get(key)
        if head is None:
            head = self._head(tools, system, settings)
            self._heads.put(key, head)
        chain, sizes, marks, last, digest, tools_digest, system_digest = head
        if not chain and not top.messages:
            return None
        chain, sizes, marks = chain.copy(), sizes.copy(), marks.copy()
        known = self._known.peek
        pieces = []
        for message in top.messages or ():
            data = bytes(message)
            pieces.append(known(hash(data)) or self._piece(data, _message))
        _, last = _append(pieces, hash((digest, 2, _choice(top))), chain, sizes, marks, last)
        if len(chain) > MAX_POSITIONS:
            return None
        automatic = 0.0 if top.cache_control is NOTHING else _lifetime(top.cache_control)
        if automatic and last >= 0 and all(mark.position != last for mark in marks):
            marks.append(Mark(last, automatic))
            marks.sort()
        return Prompt(chain, sizes, marks, tools_digest, system_digest, settings)

    def _head(self, tools: bytes, system: bytes, settings: int) -> _Head:
        found, said = self._piece(tools, _tools), self._piece(system, _system)
        chain: list[int] = []
        sizes: list[int] = []
        marks: list[Mark] = []
        digest, last = _append([found], hash((0, 0, 0)), chain, sizes, marks, -1)
        digest, last = _append([said], hash((digest, 1, settings)), chain, sizes, marks, last)
        return _Head(chain, sizes, marks, last, digest, found.digest, said.digest)

    def _piece(self, data: bytes, parse: Any) -> _Found:
        if not data:
            return _EMPTY
        key = hash(data)
        found = self._known.peek(key)
        if found is None:
            found = parse(data)
            self._known.put(key, found)
        return found


def _append(
    pieces: list[_Found], digest: int, chain: list[int], sizes: list[int], marks: list[Mark], last: int
) -> tuple[int, int]:
    """Add the blocks of one section; the digest so far, and the last block behind which one may break."""
    total = sizes[-1] if sizes else 0
    for blocks, breaks, after, _ in pieces:
        start = len(chain)
        for block, size in blocks:
            digest = hash((digest, block))
            total += size
            chain.append(digest)
            sizes.append(total)
        if breaks:
            marks += [Mark(start + index, ttl) for index, ttl in breaks]
        if after >= 0:
            last = start + after
    return digest, last


def _choice(top: Top) -> int:
    """Digest of what the messages' prefix depends on besides."""
    if top.tool_choice is NOTHING and top.thinking is NOTHING and top.output_config is NOTHING:
        return _NO_CHOICE
    return hash((bytes(top.tool_choice), bytes(top.thinking), bytes(top.output_config)))


def _lifetime(control: Raw) -> float:
    """Seconds of a ``cache_control`` (or ``cachePoint``); 0 without one."""
    data = bytes(control)
    if not data or data == b"null":
        return 0.0
    return ONE_HOUR if b'"1h"' in data else FIVE_MINUTES


def _tools(data: bytes) -> _Found:
    if data[:1] == b"{":
        return _parts(_TOOL_CONFIG.decode(data).tools, 0)
    if data[:1] != b"[":
        return _EMPTY
    return _parts(_LIST.decode(data), 0, texts=False)


def _system(data: bytes) -> _Found:
    if data[:1] == b"[":
        return _parts(_LIST.decode(data), 0)
    return _text(hash((0, data)), data) if data[:1] == b'"' else _EMPTY


def _message(data: bytes) -> _Found:
    message = _MESSAGE.decode(data)
    role = hash(bytes(message.role))
    content = bytes(message.content)
    if content[:1] == b"[":
        return _parts(_LIST.decode(content), role)
    return _text(hash((role, content)), content)


def _text(digest: int, content: bytes) -> _Found:
    """A string, which is one block."""
    return _Found(((digest, len(content)),), (), 0 if len(content) > 2 else -1, hash((digest,)))


def _parts(parts: Sequence[Raw], role: int, *, texts: bool = True) -> _Found:
    """A list of blocks. A text block has the digest of its text: a plain string is the same content."""
    blocks: list[int] = []
    sizes: list[int] = []
    marks: list[tuple[int, float]] = []
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
                marks.append((len(blocks) - 1, _lifetime(part.cachePoint)))
            continue
        kind, text = bytes(part.type), bytes(part.text)
        cacheable = kind not in _UNCACHEABLE
        if texts and kind == b'"text"' and text[:1] == b'"':
            cacheable = len(text) > 2
            citations = bytes(part.citations)
            content: Any = (role, text) if citations in (b"", b"null") else (role, text, citations)
            size = len(text)
        else:
            if b'"cache_control"' in data:
                data = _STRIP.sub(b"", data)
            content, size = (role, data), len(data)
        ttl = _lifetime(part.cache_control)
        if ttl and cacheable:
            marks.append((len(blocks), ttl))
        if cacheable:
            last = len(blocks)
        blocks.append(hash(content))
        sizes.append(size)
    return _Found(tuple(zip(blocks, sizes, strict=True)), tuple(marks), last, hash(tuple(blocks)))
