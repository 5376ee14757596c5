"""A prompt cache that really remembers prefixes, and knows why it missed.

Rules (D, the vendor's documentation): exact prefix over tools, system, messages; per model
and workspace; at most four breakpoints; lifetimes of five minutes or one hour from the
start of the request that wrote or read the entry, a read refreshing it; a breakpoint looks
back over at most 20 block positions; too short a prefix is silently not cached; an entry
can be read once the first answer has begun.
"""

from __future__ import annotations

from collections import OrderedDict, deque
from dataclasses import dataclass
from hashlib import blake2b
from itertools import accumulate
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec

from lz_otel._ground.memory import BoundedMap
from lz_otel.lab.simulator._breakpoints import minimum_tokens

if TYPE_CHECKING:
    from collections.abc import Iterator

    from lz_otel.lab.simulator._tokens import Block

TTL = {"5m": 300.0, "1h": 3600.0, "30m": 1800.0, "12h": 43200.0}
LOOK_BACK = 20
_MOST_ENTRIES = 200_000
_LINEAGE = 64  # earlier requests of one route that a miss is compared with
_CHUNK = 512  # OpenAI caches in steps of 128 tokens


@dataclass(slots=True)
class _Entry:
    key: bytes
    ttl: float
    expires: float = 0.0
    readable: bool = False
    died: bool = False
    writers: int = 0  # requests in progress that write it


class _Seen(NamedTuple):
    """What one earlier request looked like, section by section; ``chain``: digest of every prefix."""

    model: str
    tools: bytes
    system: bytes
    messages: bytes
    chain: list[bytes]


class _Asked(NamedTuple):
    """A request of the Messages API, as the cache sees it.

    Attributes:
        digests, totals: of every prefix: its digest, and its length in tokens.
        usable: positions of the breakpoints behind a prefix that is long enough.
        now: seconds of the simulator's clock at the start of the request.
    """

    workspace: str
    model: str
    blocks: list[Block]
    digests: list[bytes]
    totals: list[int]
    usable: list[int]
    now: float

    def key(self, position: int, model: str = "") -> bytes:
        """Return the key of a prefix's entry, of this model or another."""
        return f"{self.workspace}\x00{model or self.model}\x00".encode() + self.digests[position]


class CacheResult(msgspec.Struct):
    """What the cache did for one request; token counts as in ``usage``."""

    asked: bool = False
    read: int = 0
    write_5m: int = 0
    write_1h: int = 0
    reason: str = ""  # why it missed, closed list of the contract
    entries: list[Any] = []
    seen: Any = None
    lineage: Any = None
    kept_in: Any = None  # entries of the cache, by key

    @property
    def write(self) -> int:
        """Return tokens written."""
        return self.write_5m + self.write_1h

    def begin(self) -> None:
        """Make the entries readable: the answer has begun."""
        for entry in self.entries:
            entry.readable, entry.died = True, False
            entry.writers -= 1
        if self.lineage is not None:
            self.lineage.append(self.seen)
            self.lineage = None

    def lose(self) -> None:
        """Drop what the answer would have written: it never began."""
        for entry in self.entries:
            entry.writers -= 1
            if not entry.readable and not entry.writers:
                entry.expires = 0.0  # as before, where it had died and was to be written anew
                if not entry.died:
                    self.kept_in.pop(entry.key, None)


class PrefixCache:
    """Entries of all workspaces and models; beyond the limit the oldest go first."""

    def __init__(self) -> None:
        self._entries: OrderedDict[bytes, _Entry] = OrderedDict()
        self._lineages: BoundedMap[tuple[str, str], deque[_Seen]] = BoundedMap(10_000)
        self._models: dict[str, set[str]] = {}

    def reset(self) -> None:
        """Forget all entries and all earlier requests."""
        self._entries.clear()
        self._lineages.clear()
        self._models.clear()

    def _lineage(self, workspace: str, route: str) -> deque[_Seen]:
        lineage = self._lineages.get((workspace, route))
        if lineage is None:
            lineage = deque(maxlen=_LINEAGE)
            self._lineages.put((workspace, route), lineage)
        return lineage

    def _put(self, key: bytes, ttl: float, expires: float) -> _Entry:
        entry = self._entries.get(key)
        if entry is None:
            entry = self._entries[key] = _Entry(key, ttl)
            if len(self._entries) > _MOST_ENTRIES:
                self._entries.popitem(last=False)
        elif entry.expires < expires - ttl:
            entry.readable, entry.died = False, True  # dead since then: written anew
        entry.ttl = ttl
        entry.expires = max(entry.expires, expires)
        entry.writers += 1
        return entry

    def anthropic(
        self,
        request: dict[str, Any],
        blocks: list[Block],
        marks: list[int],
        workspace: str,
        route: str,
        now: float,
    ) -> CacheResult:
        """Look up and write, by the rules of the Messages API; a miss is explained within the route.

        ``marks``: positions of the breakpoints. ``now``: seconds of the simulator's clock at the start.
        """
        if not marks:
            return CacheResult()
        model = str(request.get("model", ""))
        digests, sections = _chain(request, blocks)
        totals = list(accumulate(block.tokens for block in blocks))
        usable = [mark for mark in marks if totals[mark] >= minimum_tokens(model)]
        asked = _Asked(workspace, model, blocks, digests, totals, usable, now)
        lineage = self._lineage(workspace, route)
        seen = _Seen(model, *sections, digests)
        result = CacheResult(asked=True, kept_in=self._entries, seen=seen, lineage=lineage)
        self._models.setdefault(workspace, set()).add(model)
        if not usable:
            result.reason = "below_minimum"
            return result
        end, state = self._longest(asked)
        if end >= 0:
            result.read = totals[end]
            for position in {end, *(mark for mark in usable if mark < end)}:
                entry = self._entries.get(asked.key(position))
                if entry is not None and entry.expires > now:
                    entry.expires = now + entry.ttl
        else:
            result.reason = state or self._why(asked) or _compare(seen, lineage)
        self._write(result, asked, end)
        return result

    def _longest(self, asked: _Asked) -> tuple[int, str]:
        """Return where the longest prefix that can be read ends, or -1; and why one that is there cannot."""
        state = ""
        for position, entry in self._within_reach(asked):
            if entry.expires <= asked.now:
                state = state or "expired"
            elif not entry.readable:
                state = "expired" if entry.died else "first_use"
            else:
                return position, state
        return -1, state

    def _within_reach(self, asked: _Asked, model: str = "") -> Iterator[tuple[int, _Entry]]:
        """Yield the entries that the breakpoints look back over, the last first, with their positions."""
        for mark in reversed(asked.usable):
            for position in range(mark, max(-1, mark - LOOK_BACK), -1):
                entry = self._entries.get(asked.key(position, model))
                if entry is not None:
                    yield position, entry

    def _write(self, result: CacheResult, asked: _Asked, end: int) -> None:
        """Write what stands between the prefix that was read and the breakpoints."""
        done = asked.totals[end] if end >= 0 else 0
        for mark in (m for m in asked.usable if m > end):
            ttl = asked.blocks[mark].ttl
            tokens = asked.totals[mark] - done
            done = asked.totals[mark]
            if ttl == "1h":
                result.write_1h += tokens
            else:
                result.write_5m += tokens
            result.entries.append(self._put(asked.key(mark), TTL[ttl], asked.now + TTL[ttl]))

    def _why(self, asked: _Asked) -> str:
        """Return why no prefix was found, where the entries show it."""
        for position in range(asked.usable[-1]):  # a live prefix that no breakpoint reaches
            entry = self._entries.get(asked.key(position))
            if entry is not None and entry.readable and entry.expires > asked.now and asked.totals[position]:
                return "no_breakpoint"
        for model in sorted(self._models.get(asked.workspace, set()) - {asked.model}):
            if any(entry.expires > asked.now for _, entry in self._within_reach(asked, model)):
                return "model_changed"
        return ""

    def openai(
        self, request: dict[str, Any], blocks: list[Block], workspace: str, route: str, now: float
    ) -> CacheResult:
        """Look up and write, by the rules of OpenAI: automatic, from 1024 tokens, in steps of 128."""
        total = sum(b.tokens for b in blocks)
        if total < 1024:
            return CacheResult()
        model = str(request.get("model", ""))
        data = b"\x01".join(b.data for b in blocks)
        key = str(request.get("prompt_cache_key") or "")
        prefix = f"{workspace}\x00{model}\x00{key}\x00o".encode()
        options = request.get("prompt_cache_options")
        ttl = TTL.get(str(options.get("ttl")), 300.0) if isinstance(options, dict) else 300.0
        steps = total // 128
        lineage = self._lineage(workspace, "o\x00" + route)
        chain = blake2b(digest_size=16)
        keys = []
        for step in range(steps):
            chain.update(data[step * _CHUNK : (step + 1) * _CHUNK])
            keys.append(chain.digest())
        seen = _Seen(model, *_sections(blocks), keys)
        result = CacheResult(asked=True, kept_in=self._entries, seen=seen, lineage=lineage)
        result.read, result.reason = self._longest_step(prefix, keys, now)
        if not result.read and not result.reason:
            other_model = [m for m in self._models.get(workspace, ()) if m != model]
            keys_of = [f"{workspace}\x00{m}\x00{key}\x00o".encode() for m in other_model]
            alive = any((e := self._entries.get(k + keys[7])) and e.expires > now for k in keys_of)
            result.reason = "model_changed" if alive else _compare(seen, lineage)
        self._models.setdefault(workspace, set()).add(model)
        for step in range(7, steps):
            result.entries.append(self._put(prefix + keys[step], ttl, now + ttl))
        result.write_5m = max(0, steps * 128 - result.read)
        return result

    def _longest_step(self, prefix: bytes, keys: list[bytes], now: float) -> tuple[int, str]:
        """Return the tokens that can be read, or 0 and why what is there cannot."""
        expired = busy = False
        for step in range(len(keys) - 1, 6, -1):
            entry = self._entries.get(prefix + keys[step])
            if entry is None:
                continue
            if entry.expires <= now or entry.died:
                expired = True
            elif not entry.readable:
                busy = True
            else:
                return (step + 1) * 128, ""
        return 0, "first_use" if busy else "expired" if expired else ""


def _compare(seen: _Seen, lineage: deque[_Seen]) -> str:
    """First section that differs from the most similar earlier request of the route."""
    alike = [s for s in lineage if s.model == seen.model]
    if not alike:
        return "first_use"
    for section in ("tools", "system"):
        alike = [s for s in alike if getattr(s, section) == getattr(seen, section)]
        if not alike:
            return f"{section}_changed"
    if {s.chain[-1] for s in alike} <= set(seen.chain):
        return "first_use"  # nothing changed: what came before was too short to be kept
    return "history_changed"


def _salt(request: dict[str, Any], section: str) -> bytes:
    """Return what else a section depends on, by the vendor's table of what invalidates what (D)."""
    if section == "system":
        return str(request.get("speed") or "").encode()
    wishes = (request.get("tool_choice"), request.get("thinking"))
    return (
        msgspec.json.encode(wishes) if section == "messages" and any(w is not None for w in wishes) else b""
    )


def _chain(request: dict[str, Any], blocks: list[Block]) -> tuple[list[bytes], tuple[bytes, bytes, bytes]]:
    chain = blake2b(digest_size=16)
    digests: list[bytes] = []
    section = ""
    for block in blocks:
        if block.section != section:
            section = block.section
            chain.update(b"\x02" + section.encode() + _salt(request, section))
        chain.update(len(block.data).to_bytes(4, "big") + block.data)
        digests.append(chain.digest())
    return digests, _sections(blocks)


def _sections(blocks: list[Block]) -> tuple[bytes, bytes, bytes]:
    sums = {section: blake2b(digest_size=12) for section in ("tools", "system", "messages")}
    for block in blocks:
        sums[block.section].update(len(block.data).to_bytes(4, "big") + block.data)
    return sums["tools"].digest(), sums["system"].digest(), sums["messages"].digest()
