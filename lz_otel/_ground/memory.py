"""Bounded recollection of digests: the only thing that outlives a call inside lz_otel.

No text is held, ever: what is remembered are 64-bit digests, times and small counts. A digest is
Python's own keyed hash of bytes: about 0.25 µs per KB, salted per process unless
``PYTHONHASHSEED`` says otherwise, and never exported, so it means nothing outside the process.

An entry of a `BoundedMap` with an integer key and value costs about 190 bytes.
"""

from __future__ import annotations

import os
import weakref
from collections import OrderedDict
from typing import TYPE_CHECKING, Any, Generic, TypeVar, overload

from lz_otel._ground.lock import lock

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable

K = TypeVar("K", bound="Hashable")
V = TypeVar("V")
D = TypeVar("D")


def digest(data: bytes | memoryview) -> int:
    """64-bit digest of bytes (or of a read-only view: nothing is copied).

    Equal for equal bytes within a process and its forks, unrelated between other processes.
    """
    return hash(data)


class Locked:
    """What holds a lock, ``_lock``; the child of a ``fork`` starts with an unlocked one.

    Take it by ``with`` only: a signal's handler that raises may come between ``acquire`` and the next step.
    """

    __slots__ = ("__weakref__", "_lock")
    new_lock: Callable[[], Any] = staticmethod(lock)

    def __init__(self) -> None:
        self._lock = self.new_lock()
        _instances.add(self)


class BoundedMap(Locked, Generic[K, V]):
    """A dictionary that holds the ``max_entries`` most recently used entries.

    Thread-safe by one lock for what changes it, held for well under a microsecond. Safe across
    ``fork``: the child gets a new lock and keeps the entries.

    Args:
        max_entries: most entries held, at least 1; one more drops the least recently used.

    Attributes:
        peek: gives the value of a key, or ``None``, without touching the order of use.
    """

    __slots__ = ("_data", "max_entries", "peek")

    def __init__(self, max_entries: int) -> None:
        if max_entries < 1:
            raise ValueError(f"max_entries={max_entries!r}: at least 1 is needed")
        super().__init__()
        self.max_entries = max_entries
        # Not a plain dict: dropping its oldest entry walks over the holes of those dropped before.
        self._data: OrderedDict[K, V] = OrderedDict()
        self.peek: Callable[[K], V | None] = self._data.get

    @overload
    def get(self, key: K) -> V | None: ...

    @overload
    def get(self, key: K, default: D) -> V | D: ...

    def get(self, key: K, default: D | None = None) -> V | D | None:
        """Return the value of ``key``, which becomes the most recently used; else ``default``."""
        data = self._data
        if key not in data:
            return default
        try:
            data.move_to_end(key)
            return data[key]
        except KeyError:  # another thread has dropped it between these lines
            return default

    def put(self, key: K, value: V) -> V | None:
        """Set ``key``, make it the most recently used, and return its value before (or ``None``)."""
        with self._lock:
            data = self._data
            before = data.pop(key, None)
            data[key] = value
            if len(data) > self.max_entries:
                data.popitem(last=False)
            return before

    def pop(self, key: K) -> V | None:
        """Forget ``key`` and return its value (or ``None``)."""
        with self._lock:
            return self._data.pop(key, None)

    def items(self) -> list[tuple[K, V]]:
        """Return a copy of all entries, the least recently used first."""
        with self._lock:
            return list(self._data.items())

    def clear(self) -> None:
        """Forget everything. Never waits: safe in a child of ``fork`` whatever the parent did."""
        self._lock = self.new_lock()
        self._data = OrderedDict()
        self.peek = self._data.get

    def __contains__(self, key: object) -> bool:
        return key in self._data

    def __len__(self) -> int:
        return len(self._data)


class BoundedSet(BoundedMap[K, bool]):
    """The ``max_entries`` most recently added keys."""

    __slots__ = ()

    def add(self, key: K) -> bool:
        """Add ``key`` as the most recent one; whether it was there before."""
        return self.put(key, True) is not None


_instances: weakref.WeakSet[Locked] = weakref.WeakSet()


def _after_fork() -> None:
    """Give every map and lock of the child a new lock: a thread that is gone may have held the old one."""
    for instance in list(_instances):
        instance._lock = instance.new_lock()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)
