"""A prompt cache that remembers whole prefixes, and the reasons by their definition: the judge of our judge.

Written apart from the library: no digests, no spans of time, no bounds. Tokens are bytes by four.
"""

from __future__ import annotations

from typing import Any, NamedTuple

LOOK_BACK = 20
LIFETIMES = {"5m": 300.0, "1h": 3600.0}
MINIMUM = {"claude-opus-5": 512, "claude-sonnet-4-5": 1024, "claude-haiku-4-5": 4096}


class Ask(NamedTuple):
    """A request in plain parts; a mark is ``(position, lifetime)`` counted over all blocks."""

    model: str
    tools: tuple[str, ...]
    system: tuple[str, ...]
    messages: tuple[str, ...]
    marks: tuple[tuple[int, str], ...]
    route: str = ""
    choice: str = ""

    @property
    def blocks(self) -> tuple[tuple[str, str], ...]:
        """All blocks with what their prefix depends on besides."""
        return (
            *(("t", t) for t in self.tools),
            *(("s", s) for s in self.system),
            *((f"m{self.choice}", m) for m in self.messages),
        )

    def body(self) -> dict[str, Any]:
        """The Messages request that this is."""
        marks = dict(self.marks)
        at = 0

        def control() -> dict[str, Any]:
            nonlocal at
            ttl = marks.get(at)
            at += 1
            if ttl is None:
                return {}
            return {"cache_control": {"type": "ephemeral", **({"ttl": ttl} if ttl == "1h" else {})}}

        out: dict[str, Any] = {"model": self.model, "max_tokens": 5}
        if self.tools:
            out["tools"] = [{"name": t, "input_schema": {"type": "object"}, **control()} for t in self.tools]
        if self.system:
            out["system"] = [{"type": "text", "text": s, **control()} for s in self.system]
        out["messages"] = []
        for number, text in enumerate(self.messages):
            block = {"type": "text", "text": text, **control()}
            content: Any = text if "cache_control" not in block and number % 2 else [block]
            out["messages"].append({"role": "user", "content": content})
        if self.choice:
            out["tool_choice"] = {"type": self.choice}
        return out


class Told(NamedTuple):
    """What the provider answers, and the truth about it."""

    total: int
    read: int
    written_5m: int
    written_1h: int
    reason: str | None


def tokens(blocks: tuple[tuple[str, str], ...]) -> int:
    """Tokens of a prefix."""
    return sum(len(text) // 4 + 1 for _, text in blocks)


class ReferenceCache:
    """The cache: prefix by model -> (lifetime, end of life)."""

    def __init__(self) -> None:
        self.entries: dict[tuple[str, tuple[tuple[str, str], ...]], tuple[float, float]] = {}
        self.asked: list[Ask] = []

    def ask(self, ask: Ask, now: float) -> Told:
        """Serve one request; those before it have been answered."""
        blocks = ask.blocks
        usable = [(p, ttl) for p, ttl in ask.marks if tokens(blocks[: p + 1]) >= MINIMUM[ask.model]]
        try:
            return self._serve(ask, blocks, usable, now)
        finally:
            self.asked.append(ask)

    def _serve(self, ask: Ask, blocks: Any, usable: list[tuple[int, str]], now: float) -> Told:
        total = tokens(blocks)
        if not usable:
            return Told(total, 0, 0, 0, "below_minimum")
        reach = [p for mark, _ in reversed(usable) for p in range(mark, max(-1, mark - LOOK_BACK), -1)]
        alive = [p for p in reach if self._ends(ask.model, blocks, p) > now]
        found = alive[0] if alive else -1
        reason = None if alive else self._why(ask, blocks, usable, reach, now)
        for position, ttl in usable:
            key = (ask.model, blocks[: position + 1])
            if position <= found:
                self._touch(key, now)
            else:
                self.entries[key] = (LIFETIMES[ttl], now + LIFETIMES[ttl])
        if found >= 0:
            self._touch((ask.model, blocks[: found + 1]), now)
        read = tokens(blocks[: found + 1])
        written = {"5m": 0, "1h": 0}
        done = read
        for position, ttl in usable:
            if position > found:
                written[ttl] += tokens(blocks[: position + 1]) - done
                done = tokens(blocks[: position + 1])
        return Told(total, read, written["5m"], written["1h"], reason)

    def _ends(self, model: str, blocks: Any, position: int) -> float:
        return self.entries.get((model, blocks[: position + 1]), (0.0, -1.0))[1]

    def _touch(self, key: Any, now: float) -> None:
        entry = self.entries.get(key)
        if entry is not None and entry[1] > now:
            self.entries[key] = (entry[0], now + entry[0])

    def _why(self, ask: Ask, blocks: Any, usable: Any, reach: list[int], now: float) -> str:
        if any(self._ends(ask.model, blocks, p) >= 0 for p in reach):
            return "expired"
        if any(self._ends(ask.model, blocks, p) > now for p in range(usable[-1][0]) if p not in reach):
            return "no_breakpoint"
        if any(self._ends(m, blocks, p) > now for m in MINIMUM if m != ask.model for p in reach):
            return "model_changed"
        same = [a for a in self.asked[-2000:] if a.route == ask.route][-64:]
        same = [a for a in same if a.model == ask.model]
        if not same:
            return "first_use"
        same = [a for a in same if a.tools == ask.tools]
        if not same:
            return "tools_changed"
        same = [a for a in same if a.system == ask.system]
        if not same:
            return "system_changed"
        if all(blocks[: len(a.blocks)] == a.blocks for a in same):
            return "first_use"
        return "history_changed"
