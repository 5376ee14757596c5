"""Why an automatic prompt cache (OpenAI's, D) was missed, by what we saw of it.

No breakpoints: any prefix of 1024 tokens or more that a live earlier request had is read. How many
bytes 1024 tokens are is not known, only the request's own tokens and bytes; so prefixes are compared
at a grid of lengths, and what falls too near to the border is ``unknown``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec

from lz_otel._ground.unreadable import UNREADABLE
from lz_otel._judge.prompt_cache.explicit import MAX_ENTRIES, ONE_STATE, Entry, FollowedCache
from lz_otel._judge.prompt_cache.lineage import Sections

if TYPE_CHECKING:
    from msgspec import Raw

    from lz_otel._judge.prompt_cache.digest import Top
    from lz_otel._judge.prompt_cache.explicit import Seen

MINIMUM = 1024
"""Fewest tokens of a prefix that is cached (D)."""
IDLE, IDLE_MOST = 300.0, 3600.0
"""Seconds without use after which an entry may be gone, and after which it is (D)."""
_LIFETIMES = {"30m": 1800.0, "12h": 43_200.0, "24h": 86_400.0}
# Lengths of prefixes that are compared, bytes: 1 KB to 16 KB in steps of 9 %.
GRID = tuple(int(1024 * 2 ** (step / 8)) for step in range(33))
_SLACK = 0.1  # how far the bytes per token of a prefix may be from those of the whole request
_KEPT_FROM, _KEPT_TO = 0.7, 2.5  # part of the grid that is remembered, as multiples of the minimum


class _Role(msgspec.Struct, gc=False):
    role: Any = None


_MESSAGE = msgspec.json.Decoder(_Role)
_LIST = msgspec.json.Decoder(list[msgspec.Raw])


class Flat:
    """A request as an automatic cache sees it.

    Attributes:
        size: bytes of all its pieces.
        prefixes: digest of its first bytes, for each length of `GRID` up to its size.
        sections: digests of tools and system prompt, and of what else must be equal (``prompt_cache_key``).
        lifetime: seconds ``(least, most)`` that its entries live without use.
    """

    __slots__ = ("lifetime", "prefixes", "sections", "size")

    def __init__(self, pieces: list[bytes], sections: Sections, lifetime: tuple[float, float]) -> None:
        self.size = sum(map(len, pieces))
        self.sections = sections
        self.lifetime = lifetime
        self.prefixes: list[int] = []
        head, digest, done = _first(pieces, GRID[-1]), 0, 0
        for length in GRID:
            if length > len(head):
                break
            digest = hash((digest, head[done:length]))
            done = length
            self.prefixes.append(digest)


def _first(pieces: list[bytes], size: int) -> bytes:
    out = bytearray()
    for piece in pieces:
        if len(out) >= size:
            break
        out += piece[: size - len(out)]
    return bytes(out)


def flatten(top: Top) -> Flat | None:
    """Return the request's pieces in order; ``None`` when part of the prompt is not in it (stored state)."""
    for stored in (top.previous_response_id, top.conversation):
        if bytes(stored) not in (b"", b"null"):
            return None
    try:
        messages = _messages(top)
        if messages is None:
            return None
        tools = bytes(top.tools)
        instructions = bytes(top.instructions)
        leading = 0
        for message in messages:
            if message[:1] != b"{" or _MESSAGE.decode(message).role not in ("system", "developer"):
                break
            leading += 1
    except UNREADABLE:
        return None
    pieces = [piece for piece in (tools, instructions) if piece] + messages
    system = hash((instructions, *messages[:leading]))
    settings = hash(repr(top.prompt_cache_key))
    return Flat(pieces, Sections(settings, hash(tools), system), _lifetime(top))


def _messages(top: Top) -> list[bytes] | None:
    if top.messages is not None:
        return [bytes(message) for message in top.messages]
    given: Raw = top.input
    data = bytes(given)
    if data[:1] == b"[":
        return [bytes(item) for item in _LIST.decode(data)]
    return [data] if data[:1] == b'"' else None


def _lifetime(top: Top) -> tuple[float, float]:
    options = top.prompt_cache_options
    stated = options.get("ttl") if isinstance(options, dict) else top.prompt_cache_retention
    seconds = _LIFETIMES.get(stated) if isinstance(stated, str) else None
    return (IDLE, IDLE_MOST) if seconds is None else (seconds, seconds)


class AutomaticCache(FollowedCache):
    """Follows the automatic caches of all scopes and models."""

    def __init__(self) -> None:
        super().__init__(MAX_ENTRIES // 2)

    def follow(self, seen: Seen, flat: Flat, tokens: int) -> str | None:
        """Take in one call of ``tokens`` input tokens; return why it missed, or ``None`` for a hit."""
        with self._lock:
            reason = None if seen.read else self._why(seen, flat, tokens)
            self._remember(seen, flat, tokens)
            return reason

    def _why(self, seen: Seen, flat: Flat, tokens: int) -> str:
        sure, perhaps = self._found(seen, seen.place.model, flat, tokens)
        states = {entry.missed(seen.start, seen.first) for entry in sure} - {"absent"}
        if states:
            return ONE_STATE.get(states.pop(), "unknown") if len(states) == 1 else "unknown"
        if perhaps is not None and perhaps.missed(seen.start, seen.first) not in ("alive", "absent"):
            return "unknown"  # a live one was too short, or it would have been read
        for model in self._other_models(seen, hash((seen.place.scope, flat.sections.settings))):
            sure, perhaps = self._found(seen, model, flat, tokens)
            states = {entry.elsewhere(seen.start, seen.first) for entry in sure} - {"dead"}
            if states:
                return "model_changed" if "alive" in states else "unknown"
            if perhaps is not None and perhaps.elsewhere(seen.start, seen.first) != "dead":
                return "unknown"
        return self._change(seen, flat.sections, flat.prefixes)

    def _found(self, seen: Seen, model: int, flat: Flat, tokens: int) -> tuple[list[Entry], Entry | None]:
        """Return the entries of shared prefixes that are long enough for sure, and one that may be."""
        per_token = flat.size / tokens
        key = hash((seen.place.scope, model, flat.sections.settings))
        sure: list[Entry] = []
        longest, at = None, -1
        for step, prefix in enumerate(flat.prefixes):
            entry = self._entries.peek(hash((key, prefix)))
            if entry is not None:
                longest, at = entry, step
                if GRID[step] * (1 - _SLACK) >= MINIMUM * per_token:
                    sure.append(entry)
        if longest is None or sure:
            return sure, None
        up_to = GRID[at + 1] if at + 1 < len(GRID) else flat.size
        return sure, longest if up_to * (1 + _SLACK) >= MINIMUM * per_token else None

    def _remember(self, seen: Seen, flat: Flat, tokens: int) -> None:
        least, most = (MINIMUM * share * flat.size / tokens for share in (_KEPT_FROM, _KEPT_TO))
        key = hash((seen.place.scope, seen.place.model, flat.sections.settings))
        ttl, ttl_most = flat.lifetime
        for step, prefix in enumerate(flat.prefixes):
            if not least <= GRID[step] <= most:
                continue
            name = hash((key, prefix))
            entry = self._entries.get(name)
            state = "" if entry is None else entry.state(seen.start, seen.first)
            if entry is not None and state not in ("expired", "absent"):
                entry.refresh(seen.start, seen.first)
                entry.ttl, entry.ttl_most = ttl, ttl_most
            else:
                new = Entry(seen.start, seen.first, ttl, ttl_most, certain=True)
                if entry is not None:
                    new.died_at = entry.start + entry.ttl if state == "expired" else entry.died_at
                self._entries.put(name, new)
        tail = flat.prefixes[-1] if flat.prefixes else 0
        self._note(seen, flat.sections, tail, hash((seen.place.scope, flat.sections.settings)))
