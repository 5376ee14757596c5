"""Calls and batches whose end another exchange states: which have begun, and which were counted.

Names of answers and files are held as digests, in bounded memory.
"""

from __future__ import annotations

from typing import NamedTuple

from lz_otel._ground.memory import BoundedMap, Locked

MOST = 10_000
"""Most names that are remembered, of each kind (C)."""


class Begun(NamedTuple):
    """An exchange that has begun a call, or a batch of them.

    Attributes:
        started_at: seconds, as all times of calls.
        common: values of the common attributes.
    """

    started_at: float
    common: tuple[str, ...]


class Awaited(Locked):
    """Remembers what has begun and what was counted."""

    __slots__ = ("_begun", "_next")

    def __init__(self) -> None:
        super().__init__()
        self._begun: BoundedMap[int, Begun] = BoundedMap(MOST)
        self._next: BoundedMap[int, int] = BoundedMap(MOST)

    def begin(self, host: str, name: str, begun: Begun) -> None:
        """Remember what has begun, by a name that it has at this host."""
        self._begun.put(hash((host, name)), begun)

    def known(self, host: str, name: str) -> Begun | None:
        """Return what has begun by this name in this process."""
        return self._begun.get(hash((host, name)))

    def first(self, host: str, name: str, index: int = 0) -> bool:
        """Return whether this was not counted yet. The lines of a file are counted in their order."""
        key = hash((host, name))
        with self._lock:
            before = self._next.get(key) or 0
            if index < before:
                return False
            self._next.put(key, index + 1)
            return True

    def clear(self) -> None:
        """Forget everything."""
        self._begun.clear()
        self._next.clear()
