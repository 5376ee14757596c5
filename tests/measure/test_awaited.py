"""What has begun and what was counted, in bounded memory."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lz_otel._measure import awaited
from lz_otel._measure.awaited import Awaited, Begun

if TYPE_CHECKING:
    import pytest

BEGUN = Begun(1.5, ("chat", "openai", "m", "", ""))


def test_a_name_counts_once_at_its_host() -> None:
    """The same name at another host is another answer."""
    one = Awaited()
    assert [True, False, True, False] == [one.first(host, "resp_1") for host in ("a", "a", "b", "b")]


def test_lines_count_in_their_order() -> None:
    """A file that was read in part is counted on from there, and never twice."""
    one = Awaited()
    assert [True] * 3 == [one.first("a", "file", line) for line in range(3)]
    assert [False, False, False, True, True] == [one.first("a", "file", line) for line in range(5)]


def test_what_has_begun_is_known_here_only() -> None:
    """By host and name, until it is forgotten."""
    one = Awaited()
    one.begin("a", "resp_1", BEGUN)
    assert (BEGUN, None, None) == (one.known("a", "resp_1"), one.known("b", "resp_1"), one.known("a", "x"))
    one.clear()
    assert one.known("a", "resp_1") is None


def test_the_memory_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    """The oldest names are forgotten."""
    monkeypatch.setattr(awaited, "MOST", 3)
    one = Awaited()
    for number in range(10):
        one.begin("a", str(number), BEGUN)
        one.first("a", str(number))
    assert [3, 3] == [len(one._begun), len(one._next)]
