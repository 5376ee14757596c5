"""Bounded recollection of digests."""

from __future__ import annotations

import os
import threading
from collections import OrderedDict
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lz_otel._ground.memory import BoundedMap, BoundedSet, Locked, digest

if TYPE_CHECKING:
    from collections.abc import Iterator


def test_oldest_entry_is_dropped() -> None:
    """One entry over the bound drops the least recently used one."""
    memory: BoundedMap[str, int] = BoundedMap(2)
    memory.put("a", 1)
    memory.put("b", 2)
    assert memory.get("a") == 1
    memory.put("c", 3)
    assert memory.items() == [("a", 1), ("c", 3)]


def test_peek_does_not_refresh() -> None:
    """Peeking leaves the order of use alone."""
    memory: BoundedMap[str, int] = BoundedMap(2)
    memory.put("a", 1)
    memory.put("b", 2)
    assert memory.peek("a") == 1
    memory.put("c", 3)
    assert "a" not in memory


def test_put_returns_the_value_before() -> None:
    """Putting a known key returns what it held, an unknown one None."""
    memory: BoundedMap[str, int] = BoundedMap(2)
    assert [memory.put("a", 1), memory.put("a", 2), memory.get("a")] == [None, 1, 2]


def test_get_returns_the_default() -> None:
    """An unknown key gives the default, and a stored None is not mistaken for it."""
    memory: BoundedMap[str, int | None] = BoundedMap(2)
    memory.put("a", None)
    assert [memory.get("a", 5), memory.get("b", 5), memory.get("b")] == [None, 5, None]


def test_set_tells_what_is_new() -> None:
    """Adding says whether the key was there before."""
    seen: BoundedSet[int] = BoundedSet(1)
    assert [seen.add(1), seen.add(1), seen.add(2), seen.add(1)] == [False, True, False, False]


def test_digest_is_equal_for_equal_bytes() -> None:
    """A view digests like the bytes it shows, so nothing has to be copied."""
    assert digest(memoryview(b"xabcx")[1:4]) == digest(b"abc")
    assert digest(b"abc") != digest(b"abd")


def test_no_entry_at_all_is_refused() -> None:
    """A bound below one is a mistake of ours, told at once."""
    with pytest.raises(ValueError, match="at least 1"):
        BoundedMap(0)


_STEPS = st.lists(
    st.tuples(st.sampled_from(["get", "put", "pop", "peek", "clear"]), st.integers(0, 6), st.integers()),
    max_size=60,
)


@given(bound=st.integers(1, 4), steps=_STEPS)
def test_it_behaves_like_a_plain_lru(bound: int, steps: list[tuple[str, int, int]]) -> None:
    """Any sequence of steps gives what a straightforward model gives, within the bound."""
    memory: BoundedMap[int, int] = BoundedMap(bound)
    model: OrderedDict[int, int] = OrderedDict()
    for step, key, value in steps:
        if step == "get":
            if key in model:
                model.move_to_end(key)
            assert memory.get(key) == model.get(key)
        elif step == "put":
            assert memory.put(key, value) == model.get(key)
            model[key] = value
            model.move_to_end(key)
            while len(model) > bound:
                model.popitem(last=False)
        elif step == "pop":
            assert memory.pop(key) == model.pop(key, None)
        elif step == "peek":
            assert memory.peek(key) == model.get(key)
        else:
            memory.clear()
            model.clear()
        assert memory.items() == list(model.items())
        assert len(memory) <= bound


def test_threads_never_exceed_the_bound() -> None:
    """Threads that use one map at once neither fail nor make it grow."""
    memory: BoundedMap[int, int] = BoundedMap(50)
    failures: list[BaseException] = []

    def work(start: int) -> None:
        try:
            for i in range(2000):
                memory.put((start * i) % 97, i)
                memory.get(i % 97)
                memory.get((start * i - 50) % 97)  # about to be dropped
                memory.pop((i * 7) % 97)
        except BaseException as exc:
            failures.append(exc)

    threads = [threading.Thread(target=work, args=(n,)) for n in (3, 5, 7, 11)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failures == []
    assert len(memory) <= 50


@contextmanager
def held_elsewhere(lock: Any) -> Iterator[None]:
    """Another thread holds a lock: its own holder may take it again."""
    inside, leave = threading.Event(), threading.Event()

    def hold() -> None:
        with lock:
            inside.set()
            leave.wait(10)

    thread = threading.Thread(target=hold)
    thread.start()
    inside.wait(10)
    yield
    leave.set()
    thread.join()


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this platform has no fork")
def test_a_child_of_fork_is_not_blocked() -> None:
    """A lock held by a thread at the time of a fork does not block the child, which keeps the entries."""
    memory: BoundedMap[str, int] = BoundedMap(2)
    memory.put("a", 1)
    with held_elsewhere(memory._lock):
        pid = os.fork()
        if pid == 0:
            os._exit(0 if memory._lock.acquire(timeout=5) and memory.peek("a") == 1 else 1)
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0


def test_clear_never_waits() -> None:
    """Clearing works while the lock is held for ever by somebody who is gone."""
    memory: BoundedMap[str, int] = BoundedMap(2)
    memory.put("a", 1)
    with held_elsewhere(memory._lock):
        memory.clear()
        assert memory.get("a") is None


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this platform has no fork")
def test_a_lock_is_free_in_the_child() -> None:
    """A lock held at the time of a fork is free in the child, and excludes others in the parent."""
    lock = Locked()
    with held_elsewhere(lock._lock):
        assert not lock._lock.acquire(blocking=False)
        pid = os.fork()
        if pid == 0:
            os._exit(0 if lock._lock.acquire(blocking=False) else 1)
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0
    assert lock._lock.acquire(blocking=False)
