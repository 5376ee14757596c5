"""Why a prompt cache with breakpoints (Anthropic's, D) was missed, by what we saw of it.

The cache is followed from outside: which prefixes were written or read, when, for how long. All
times are spans: a request reached the provider somewhere between its start here and the first byte
of its answer. A reason is given only when it holds for every point of these spans; where the
provider's answer contradicts what we saw (an entry evicted early, a write by another process), or
two reasons are possible, it is ``unknown``: never a wrong one.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec import Struct

from lz_otel._ground.memory import BoundedMap, Locked
from lz_otel._judge.prompt_cache.digest import FIVE_MINUTES, ONE_HOUR
from lz_otel._judge.prompt_cache.lineage import MAX_ROUTES, Lineage

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from lz_otel._judge.prompt_cache.digest import Mark, PromptDigests
    from lz_otel._judge.prompt_cache.lineage import Sections

LOOK_BACK = 20
"""Block positions, the breakpoint's own included, in which a breakpoint looks for an entry (D)."""
MAX_ENTRIES = 16_384  # prefixes, of about 0.35 KB each
MAX_MODELS = 16
# Reason of a miss, where all entries that it could have read were in one state.
ONE_STATE = {"expired": "expired", "busy": "first_use"}

# Shortest prefix that is cached, tokens: (least, most) where sources disagree (D).
_MINIMUM: tuple[tuple[str, int, int], ...] = (
    ("claude-fable-5-1", 512, 512), ("claude-mythos-5-1", 512, 512), ("claude-fable-5", 512, 2048),
    ("claude-mythos-5", 512, 512), ("claude-mythos-preview", 2048, 2048), ("claude-opus-5", 512, 512),
    ("claude-sonnet-5-5", 512, 512), ("claude-haiku-5-5", 512, 512), ("claude-opus-4-8", 1024, 4096),
    ("claude-opus-4-7", 2048, 4096), ("claude-opus-4-6", 4096, 4096), ("claude-opus-4-5", 4096, 4096),
    ("claude-haiku-4-5", 4096, 4096), ("claude-sonnet-4-6", 1024, 2048), ("claude-3-5-haiku", 2048, 2048),
    ("claude-haiku-3-5", 2048, 2048), ("claude-sonnet-", 1024, 1024), ("claude-opus-4", 1024, 1024),
)  # fmt: skip
_ANY = (512, 4096)


def minimum_tokens(model: str, provider: str) -> tuple[int, int]:
    """Return the fewest tokens of a prefix that is cached: least and most that the sources say (D).

    Bedrock documents minimums of its own, and models we do not know have some: 512 to 4096.
    """
    if provider != "aws.bedrock":
        for prefix, least, most in _MINIMUM:
            if model.startswith(prefix):
                return least, most
    return _ANY


class Place(Struct, frozen=True, gc=False):
    """Whose cache a request meets: all that is the same for many calls.

    Attributes:
        scope: digest of provider, host and workspace.
        model: digest.
        minimum: fewest tokens that are cached, least and most that the sources say.
        key: digest of scope and model, between which nothing is shared.
        line: digest of scope and route.
    """

    scope: int
    model: int
    minimum: tuple[int, int]
    key: int
    line: int


class Seen(Struct, frozen=True, gc=False):
    """One call as the cache's follower needs it.

    Attributes:
        start, first: seconds between which the provider looked up its cache.
        read, written: tokens, as the provider states them.
    """

    place: Place
    start: float
    first: float
    read: int
    written: int


class Entry:
    """A prefix in the provider's cache: last written or read, first readable, lifetime.

    ``certain`` is false when it may not be there: too short to be kept, or expired before a refresh.
    ``died_at`` is when the one before it, of the same prefix, had expired.
    """

    __slots__ = ("born", "born_from", "certain", "died_at", "first", "start", "ttl", "ttl_most")

    def __init__(self, start: float, first: float, ttl: float, ttl_most: float, *, certain: bool) -> None:
        self.start, self.first = start, first  # span of the last write or read
        self.born_from, self.born = start, first  # span in which it became readable
        self.ttl, self.ttl_most = ttl, ttl_most
        self.certain = certain
        self.died_at: float | None = None

    def missed(self, start: float, first: float) -> str:
        """Return what `state` does; where it was just being written again, the one before was missed."""
        state = self.state(start, first)
        if self.died_at is None or state not in ("busy", "absent"):
            return state
        return "expired" if first >= self.died_at else "unclear"

    def state(self, start: float, first: float) -> str:
        """Return what it was for a request that did not read it: expired, busy, absent, alive or unclear."""
        if self.born_from > first:
            return "absent"  # written by a later request
        if self.start > first:
            return "unclear"  # refreshed by a later one: how it was before is not known
        expired = first >= self.start + self.ttl
        busy = start < self.born
        if expired:
            return "unclear" if busy else "expired"
        return "busy" if busy else "alive"

    def elsewhere(self, start: float, first: float) -> str:
        """Return what it was for a request that did not look for it: alive, dead or unclear."""
        if self.born_from > first or start >= self.first + self.ttl_most:
            return "dead"
        state = self.state(start, first)
        return "alive" if state == "alive" and self.certain else "unclear"

    def refresh(self, start: float, first: float) -> None:
        """It was read (or written again while alive)."""
        self.start, self.first = max(start, self.start), max(first, self.first)
        self.born = min(first, self.born)


class FollowedCache(Locked):
    """What is remembered of the providers' caches: prefixes, requests of each route, models of each scope.

    Args:
        max_entries: most prefixes remembered.
    """

    def __init__(self, max_entries: int) -> None:
        super().__init__()
        self._entries: BoundedMap[int, Entry] = BoundedMap(max_entries)
        self._lineage = Lineage()
        self._models: BoundedMap[int, tuple[int, ...]] = BoundedMap(MAX_ROUTES)

    def _note(self, seen: Seen, sections: Sections, tail: int, scope: int) -> None:
        """Remember a request whose whole prompt has the digest ``tail``, and its model."""
        place = seen.place
        self._lineage.add(place.line, seen.first, place.model, sections, tail)
        models = self._models.get(scope) or ()
        if place.model not in models:
            self._models.put(scope, (*models, place.model)[-MAX_MODELS:])

    def _other_models(self, seen: Seen, scope: int) -> list[int]:
        return [model for model in self._models.peek(scope) or () if model != seen.place.model]

    def _change(self, seen: Seen, sections: Sections, chain: Sequence[int]) -> str:
        """Return what differs from the earlier requests of the route (`Lineage.reason`)."""
        return self._lineage.reason(seen.place.line, seen.start, seen.place.model, sections, chain)


class ExplicitCache(FollowedCache):
    """Follows the prompt caches of all scopes and models."""

    def __init__(self) -> None:
        super().__init__(MAX_ENTRIES)
        self._tokens: BoundedMap[int, int] = BoundedMap(MAX_ROUTES * 4)

    def follow(self, seen: Seen, prompt: PromptDigests) -> str | None:
        """Take in one call; return why it missed, or ``None`` for a hit."""
        with self._lock:
            key = seen.place.key
            reason = None
            # The usual hit: all of it was there.
            if seen.read and not seen.written and len(prompt.marks) == 1:
                name = hash((key, prompt.chain[prompt.marks[0][0]]))
                self._learn(seen, name, seen.read)
                self._was_read(seen, name)
            else:
                if not seen.read:
                    reason = self._why(seen, prompt, key)
                self._remember(seen, prompt, key)
            self._note(seen, prompt.head.sections, prompt.chain[-1], seen.place.scope)
            return reason

    def passed(self, seen: Seen, prompt: PromptDigests) -> None:
        """Take in a call that left nothing in the cache: its prefix was too short."""
        with self._lock:
            self._note(seen, prompt.head.sections, prompt.chain[-1], seen.place.scope)

    def _why(self, seen: Seen, prompt: PromptDigests, key: int) -> str:
        chain, start, first = prompt.chain, seen.start, seen.first
        peek = self._entries.peek
        states: set[str] = set()
        perhaps: set[str] = set()
        windows = list(_windows(prompt.marks))
        for position in windows:
            entry = peek(hash((key, chain[position])))
            if entry is None:
                continue
            state = entry.missed(start, first)
            if entry.certain:
                states.add(state)
            elif state == "alive":  # it would have been read: it was too short to be kept
                self._tokens.put(hash((key, chain[position])), 0)
            else:
                perhaps.add(state)
        states.discard("absent")
        perhaps -= {"absent"} | states
        if states or perhaps:
            return "unknown" if perhaps or len(states) > 1 else ONE_STATE.get(states.pop(), "unknown")
        inside = set(windows)
        for position in range(prompt.marks[-1][0]):
            if position not in inside:
                entry = peek(hash((key, chain[position])))
                state = "dead" if entry is None else entry.elsewhere(start, first)
                if state != "dead":
                    return "no_breakpoint" if state == "alive" else "unknown"
        return self._other_model(seen, prompt, windows) or self._change(seen, prompt.head.sections, chain)

    def _other_model(self, seen: Seen, prompt: PromptDigests, windows: list[int]) -> str | None:
        chain = prompt.chain
        per_byte = seen.written / (prompt.bytes_up_to(prompt.marks[-1][0]) or 1)
        usable = [mark for mark in prompt.marks if self._long_enough(seen, prompt, mark[0], per_byte)]
        reached = set(_windows(usable))
        for model in self._other_models(seen, seen.place.scope):
            key = hash((seen.place.scope, model))
            for position in windows:
                entry = self._entries.peek(hash((key, chain[position])))
                state = "dead" if entry is None else entry.elsewhere(seen.start, seen.first)
                if state != "dead":
                    # The minimum is per model: a breakpoint may count for the other one only.
                    return "model_changed" if state == "alive" and position in reached else "unknown"
        return None

    def _long_enough(self, seen: Seen, prompt: PromptDigests, position: int, per_byte: float) -> bool | None:
        """Return whether a prefix has the minimum of tokens; ``None``: near to it, and not known."""
        if position == prompt.marks[-1][0]:
            return True
        known = self._tokens.peek(hash((seen.place.key, prompt.chain[position])))
        least, most = seen.place.minimum
        if known is None:
            tokens = prompt.bytes_up_to(position) * per_byte
            return False if tokens < least * 0.75 else True if tokens >= most * 1.25 else None
        return True if known >= most else False if known < least else None

    def _remember(self, seen: Seen, prompt: PromptDigests, key: int) -> None:
        chain, marks = prompt.chain, prompt.marks
        last = marks[-1][0]
        per_byte = (seen.read + seen.written) / (prompt.bytes_up_to(last) or 1)
        position_read = -1
        if seen.read:
            position_read = last if not seen.written else self._position_read(seen, prompt, key, per_byte)
        self._learn(seen, hash((key, chain[last])), seen.read + seen.written)
        if 0 <= position_read < last:
            self._learn(seen, hash((key, chain[position_read])), seen.read)
        for position, ttl in marks:
            certain = self._long_enough(seen, prompt, position, per_byte)
            if certain is False:
                continue
            name = hash((key, chain[position]))
            entry = self._entries.get(name)
            if seen.read and (position <= position_read or (position_read < 0 and position != last)):
                if position == position_read:
                    self._was_read(seen, name)
                elif entry is not None:
                    # Before what was read: kept alive if it was alive.
                    state = entry.elsewhere(seen.start, seen.first)
                    if state != "dead":
                        entry.certain = state == "alive"
                        entry.refresh(seen.start, seen.first)
                continue
            self._write(name, entry, seen, ttl, certain=certain is True)
        if seen.read and position_read >= 0 and all(position != position_read for position, _ in marks):
            entry = self._entries.get(hash((key, chain[position_read])))
            if entry is not None:
                entry.refresh(seen.start, seen.first)

    def _was_read(self, seen: Seen, name: int) -> None:
        entry = self._entries.get(name)
        if entry is None:
            # Another process wrote it: its lifetime and birth are not known.
            entry = Entry(seen.start, seen.first, FIVE_MINUTES, ONE_HOUR, certain=True)
            entry.born_from = entry.born = -1.0
            self._entries.put(name, entry)
        else:
            entry.refresh(seen.start, seen.first)
            entry.certain = True

    def _learn(self, seen: Seen, name: int, tokens: int) -> None:
        """Remember the tokens of a prefix, where they may decide whether it is cached at all."""
        if tokens <= 2 * seen.place.minimum[1] and self._tokens.get(name) != tokens:
            self._tokens.put(name, tokens)

    def _position_read(self, seen: Seen, prompt: PromptDigests, key: int, per_byte: float) -> int:
        """Return the position that was read: the longest prefix that we know to be alive, or -1."""
        for position in _windows(prompt.marks):
            entry = self._entries.peek(hash((key, prompt.chain[position])))
            if entry is None or entry.elsewhere(seen.start, seen.first) == "dead":
                continue
            if not entry.certain:
                if not 0.95 <= prompt.bytes_up_to(position) * per_byte / seen.read <= 1.05:
                    continue
                entry.certain = True  # it was read
            return position
        return -1

    def _write(self, name: int, entry: Entry | None, seen: Seen, ttl: float, *, certain: bool) -> None:
        state = "" if entry is None else entry.state(seen.start, seen.first)
        if entry is not None and state in ("busy", "absent"):
            # Written by two requests at once: it is readable from the earlier answer on.
            entry.born_from = min(entry.born_from, seen.start)
            entry.refresh(seen.start, seen.first)
            entry.ttl, entry.ttl_most = min(entry.ttl, ttl), max(entry.ttl_most, ttl)
        else:
            new = Entry(seen.start, seen.first, ttl, ttl, certain=certain)
            if entry is not None and state == "expired":
                new.died_at = entry.start + entry.ttl
            self._entries.put(name, new)


def _windows(marks: list[Mark]) -> Iterable[int]:
    """Yield the positions at which the provider looks for an entry, in its order, each once."""
    done: set[int] = set()
    for position, _ in reversed(marks):
        for candidate in range(position, max(-1, position - LOOK_BACK), -1):
            if candidate not in done:
                done.add(candidate)
                yield candidate
