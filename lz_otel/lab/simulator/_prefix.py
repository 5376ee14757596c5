"""A prompt cache that really remembers prefixes, and knows why it missed.

Rules (D, the vendor's documentation): exact prefix over tools, system, messages; per model
and workspace; at most four breakpoints; lifetimes of five minutes or one hour from the
start of the request that wrote or read the entry, a read refreshing it; a breakpoint looks
back over at most 20 block positions; too short a prefix is silently not cached; an entry
can be read once the first answer has begun.
"""

from __future__ import annotations

from collections import OrderedDict, deque
from hashlib import blake2b
from typing import TYPE_CHECKING, Any

import msgspec

if TYPE_CHECKING:
    from lz_otel.lab.simulator._tokens import Block

__all__ = ["BreakpointError", "CacheResult", "PrefixCache", "breakpoints", "minimum_tokens"]

TTL = {"5m": 300.0, "1h": 3600.0, "30m": 1800.0, "12h": 43200.0}
LOOK_BACK = 20
_LINEAGE = 64  # earlier requests of one route that a miss is compared with
_CHUNK = 512  # OpenAI caches in steps of 128 tokens

_MINIMUM = (
    ("claude-fable-5", 512),
    ("claude-mythos-5", 512),
    ("claude-opus-5", 512),
    ("claude-sonnet-5-5", 512),
    ("claude-haiku-5-5", 512),
    ("claude-opus-4-7", 2048),
    ("claude-mythos-preview", 2048),
    ("claude-3-5-haiku", 2048),
    ("claude-haiku-3-5", 2048),
    ("claude-opus-4-6", 4096),
    ("claude-opus-4-5", 4096),
    ("claude-haiku-4-5", 4096),
)


def minimum_tokens(model: str) -> int:
    """Shortest prefix that is cached, tokens (D; 1024 for all models not in the vendor's table)."""
    for prefix, tokens in _MINIMUM:
        if model.startswith(prefix):
            return tokens
    return 1024


class BreakpointError(ValueError):
    """The breakpoints break a rule of the vendor; the text is the vendor's error message."""


def breakpoints(request: dict[str, Any], blocks: list[Block]) -> list[int]:
    """Positions of the breakpoints, the automatic one included, in order.

    Raises:
        BreakpointError: more than four, or a one-hour breakpoint behind a five-minute one.
    """
    automatic = request.get("cache_control")
    if isinstance(automatic, dict):
        ttl = "1h" if automatic.get("ttl") == "1h" else "5m"
        for block in reversed(blocks):
            if block.cacheable:
                if block.ttl and block.ttl != ttl:
                    raise BreakpointError(
                        "cache_control: the automatic and the explicit ttl of one block differ"
                    )
                block.ttl = ttl
                break
    found = [i for i, block in enumerate(blocks) if block.ttl and block.cacheable]
    if len(found) > 4:
        raise BreakpointError(
            f"A maximum of 4 blocks with cache_control may be provided. Found {len(found)}."
        )
    seen_short = False
    for i in found:
        if blocks[i].ttl == "1h" and seen_short:
            raise BreakpointError("cache_control: a ttl='1h' block must not come after a ttl='5m' block")
        seen_short = seen_short or blocks[i].ttl == "5m"
    return found


class _Entry:
    __slots__ = ("died", "expires", "key", "readable", "ttl", "writers")

    def __init__(self, key: bytes, ttl: float) -> None:
        self.key = key
        self.ttl = ttl
        self.expires = 0.0
        self.readable = self.died = False
        self.writers = 0  # requests in progress that write it


class _Seen:
    """What one earlier request looked like, section by section."""

    __slots__ = ("chain", "messages", "model", "system", "tools")

    def __init__(self, model: str, tools: bytes, system: bytes, messages: bytes, chain: list[bytes]) -> None:
        self.model = model
        self.tools = tools
        self.system = system
        self.messages = messages
        self.chain = chain  # digest of every prefix


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
        """Tokens written."""
        return self.write_5m + self.write_1h

    def begin(self) -> None:
        """The answer has begun: from now on its entries can be read."""
        for entry in self.entries:
            entry.readable, entry.died = True, False
            entry.writers -= 1
        if self.lineage is not None:
            self.lineage.append(self.seen)
            self.lineage = None

    def lose(self) -> None:
        """The answer never began: what it would have written is not there."""
        for entry in self.entries:
            entry.writers -= 1
            if not entry.readable and not entry.writers:
                entry.expires = 0.0  # as before, where it had died and was to be written anew
                if not entry.died:
                    self.kept_in.pop(entry.key, None)


class PrefixCache:
    """Entries of all workspaces and models.

    Args:
        limit: most entries held; the oldest written go first.
    """

    def __init__(self, limit: int = 200_000) -> None:
        self._limit = limit
        self._entries: OrderedDict[bytes, _Entry] = OrderedDict()
        self._lineages: OrderedDict[tuple[str, str], deque[_Seen]] = OrderedDict()
        self._models: dict[str, set[str]] = {}

    def reset(self) -> None:
        """Forget all entries and all earlier requests."""
        self._entries.clear()
        self._lineages.clear()
        self._models.clear()

    def _lineage(self, workspace: str, route: str) -> deque[_Seen]:
        key = (workspace, route)
        found = self._lineages.get(key)
        if found is None:
            found = self._lineages[key] = deque(maxlen=_LINEAGE)
            if len(self._lineages) > 10_000:
                self._lineages.popitem(last=False)
        return found

    def _put(self, key: bytes, ttl: float, expires: float) -> _Entry:
        entry = self._entries.get(key)
        if entry is None:
            entry = self._entries[key] = _Entry(key, ttl)
            if len(self._entries) > self._limit:
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
        """Look up and write, by the rules of the Messages API.

        Args:
            request: decoded body.
            blocks: its blocks.
            marks: positions of its breakpoints.
            workspace: whose cache it is.
            route: what the client calls the operation; misses are explained within it.
            now: seconds of the simulator's clock at the start of the request.
        """
        if not marks:
            return CacheResult()
        model = str(request.get("model", ""))
        digests, sections = _chain(request, blocks)
        totals = _running_totals(blocks)
        prefix = f"{workspace}\x00{model}\x00".encode()
        least = minimum_tokens(model)
        usable = [i for i in marks if totals[i] >= least]
        result = CacheResult(asked=True, kept_in=self._entries)
        lineage = self._lineage(workspace, route)
        result.seen = _Seen(model, *sections, digests)
        result.lineage = lineage
        self._models.setdefault(workspace, set()).add(model)
        if not usable:
            result.reason = "below_minimum"
            return result
        found, state = -1, ""
        for mark in reversed(usable):
            for position in range(mark, max(-1, mark - LOOK_BACK), -1):
                entry = self._entries.get(prefix + digests[position])
                if entry is None:
                    continue
                if entry.expires <= now:
                    state = state or "expired"
                elif not entry.readable:
                    state = "expired" if entry.died else "first_use"
                elif position > found:
                    found = position
                    break
            if found >= 0:
                break
        result.read = totals[found] if found >= 0 else 0
        if found >= 0:
            for position in {found, *(m for m in usable if m < found)}:
                entry = self._entries.get(prefix + digests[position])
                if entry is not None and entry.expires > now:
                    entry.expires = now + entry.ttl
        else:
            result.reason = state or self._why(
                workspace, model, digests, totals, usable, result.seen, lineage, now
            )
        self._write(result, prefix, blocks, digests, totals, usable, found, now)
        return result

    def _write(
        self,
        result: CacheResult,
        prefix: bytes,
        blocks: list[Block],
        digests: list[bytes],
        totals: list[int],
        usable: list[int],
        found: int,
        now: float,
    ) -> None:
        done = totals[found] if found >= 0 else 0
        for mark in usable:
            if mark <= found:
                continue
            ttl = blocks[mark].ttl
            tokens = totals[mark] - done
            done = totals[mark]
            if ttl == "1h":
                result.write_1h += tokens
            else:
                result.write_5m += tokens
            result.entries.append(self._put(prefix + digests[mark], TTL[ttl], now + TTL[ttl]))

    def _why(
        self,
        workspace: str,
        model: str,
        digests: list[bytes],
        totals: list[int],
        usable: list[int],
        seen: _Seen,
        lineage: deque[_Seen],
        now: float,
    ) -> str:
        own = f"{workspace}\x00{model}\x00".encode()
        for position in range(usable[-1]):  # a live prefix that no breakpoint reaches
            entry = self._entries.get(own + digests[position])
            if entry is not None and entry.readable and entry.expires > now and totals[position]:
                return "no_breakpoint"
        for other in sorted(self._models.get(workspace, ())):
            if other != model:
                prefix = f"{workspace}\x00{other}\x00".encode()
                for mark in usable:
                    for position in range(mark, max(-1, mark - LOOK_BACK), -1):
                        entry = self._entries.get(prefix + digests[position])
                        if entry is not None and entry.expires > now:
                            return "model_changed"
        return _compare(seen, lineage)

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
        result = CacheResult(asked=True, kept_in=self._entries)
        lineage = self._lineage(workspace, "o\x00" + route)
        chain = blake2b(digest_size=16)
        keys = []
        for step in range(steps):
            chain.update(data[step * _CHUNK : (step + 1) * _CHUNK])
            keys.append(chain.digest())
        result.seen = _Seen(model, *_sections(blocks), keys)
        read, expired, busy = 0, False, False
        for step in range(steps - 1, 6, -1):
            entry = self._entries.get(prefix + keys[step])
            if entry is None:
                continue
            if entry.expires <= now or entry.died:
                expired = True
            elif not entry.readable:
                busy = True
            else:
                read = (step + 1) * 128
                break
        result.read = read
        if not read:
            if busy:
                result.reason = "first_use"
            elif expired:
                result.reason = "expired"
            else:
                other_model = [m for m in self._models.get(workspace, ()) if m != model]
                keys_of = [f"{workspace}\x00{m}\x00{key}\x00o".encode() for m in other_model]
                alive = any((e := self._entries.get(k + keys[7])) and e.expires > now for k in keys_of)
                result.reason = "model_changed" if alive else _compare(result.seen, lineage)
        self._models.setdefault(workspace, set()).add(model)
        for step in range(7, steps):
            result.entries.append(self._put(prefix + keys[step], ttl, now + ttl))
        result.write_5m = max(0, steps * 128 - read)
        result.lineage = lineage
        return result


def _compare(seen: _Seen, lineage: deque[_Seen]) -> str:
    """First section that differs from the most similar earlier request of the route."""
    same_model = [s for s in lineage if s.model == seen.model]
    if not same_model:
        return "first_use"
    same_tools = [s for s in same_model if s.tools == seen.tools]
    if not same_tools:
        return "tools_changed"
    same_system = [s for s in same_tools if s.system == seen.system]
    if not same_system:
        return "system_changed"
    own = set(seen.chain)
    if all(s.chain[-1] in own for s in same_system):
        return "first_use"  # nothing changed: what came before was too short to be kept
    return "history_changed"


def _running_totals(blocks: list[Block]) -> list[int]:
    total, totals = 0, []
    for block in blocks:
        total += block.tokens
        totals.append(total)
    return totals


def _salt(request: dict[str, Any], section: str) -> bytes:
    """What else a section depends on, by the vendor's table of what invalidates what (D)."""
    if section == "system":
        return str(request.get("speed") or "").encode()
    if section == "messages":
        choice = request.get("tool_choice")
        thinking = request.get("thinking")
        if choice is None and thinking is None:
            return b""
        return msgspec.json.encode((choice, thinking))
    return b""


def _chain(request: dict[str, Any], blocks: list[Block]) -> tuple[list[bytes], tuple[bytes, bytes, bytes]]:
    chain = blake2b(digest_size=16)
    digests: list[bytes] = []
    section = ""
    for block in blocks:
        if block.section != section:
            section = block.section
            chain.update(b"\x02" + section.encode() + _salt(request, section))
        chain.update(len(block.data).to_bytes(4, "big"))
        chain.update(block.data)
        digests.append(chain.digest())
    return digests, _sections(blocks)


def _sections(blocks: list[Block]) -> tuple[bytes, bytes, bytes]:
    sums = {
        "tools": blake2b(digest_size=12),
        "system": blake2b(digest_size=12),
        "messages": blake2b(digest_size=12),
    }
    for block in blocks:
        part = sums[block.section]
        part.update(len(block.data).to_bytes(4, "big"))
        part.update(block.data)
    return sums["tools"].digest(), sums["system"].digest(), sums["messages"].digest()
