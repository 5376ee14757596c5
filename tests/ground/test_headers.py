"""Headers as plain data: the names of like heads are indexed once, and that must not show."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import httpx
import httpx2
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lz_otel._ground import headers
from lz_otel._ground.headers import Headers, keep, lower, read

if TYPE_CHECKING:
    from collections.abc import Iterable

Raw = list[tuple[bytes, bytes]]
NAMES = st.sampled_from([b"A", b"a", b"B-c", b"x\ny", b"x", b"y", b"", b"\xe9"])
HEADS = st.lists(st.tuples(NAMES, st.binary(max_size=4)), max_size=6)


def plainly(raw: Raw) -> dict[str, str]:
    """What `lower` promises, worked out the long way."""
    out: dict[str, str] = {}
    for name, value in raw:
        out.setdefault(name.decode("latin-1").lower(), value.decode("latin-1"))
    return out


@given(
    heads=st.lists(HEADS, max_size=5),
    names=st.frozensets(st.sampled_from(["a", "b-c", "x", "y", "x\ny", "é"])),
)
def test_heads_read_as_dictionaries_whatever_came_before(heads: Iterable[Raw], names: frozenset[str]) -> None:
    """Lower-case names with their first values, also where an earlier head looked alike."""
    for raw in heads:
        found, expected = lower(raw), plainly(raw)
        assert expected == dict(found)
        assert expected == {name: found[name] for name in found}
        assert [expected.get(n) for n in sorted(names)] == [found.get(n) for n in sorted(names)]
        assert [n in expected for n in sorted(names)] == [n in found for n in sorted(names)]
        assert len(expected) == len(found)
        assert names.isdisjoint(expected) == found.lacks[names] == found.lacks[names]


def test_a_name_that_is_absent_is_a_key_error() -> None:
    """As in a dictionary: ``get`` has a default, brackets raise."""
    found = lower([(b"a", b"1")])
    assert ("1", None, "-") == (found.get("a"), found.get("b"), found.get("b", "-"))
    try:
        found["b"]
    except KeyError:
        return
    raise AssertionError("no KeyError")


def test_a_head_without_bound_is_read_in_part() -> None:
    """Of ten thousand headers the first 512 are looked at."""
    found = lower([(b"h%d" % n, b"v") for n in range(10_000)])
    assert (512, True, False) == (len(found), "h511" in found, "h512" in found)
    assert isinstance(found, Headers)


def test_what_nobody_reads_is_not_kept_unless_somebody_asks() -> None:
    """A value that no code of ours reads is the host's memory again at once;
    a user's own signal may have its name.
    """
    raw = [(b"Date", b"today"), (b"Report-To", b"x"), (b"Request-Id", b"1")]
    assert {"request-id": "1"} == dict(lower(raw))
    keep(frozenset({"report-to", "another"}))
    try:
        assert {"report-to": "x", "request-id": "1"} == dict(lower(raw))
    finally:
        headers._UNREAD.add("report-to")
        headers._shape.cache_clear()


@pytest.mark.parametrize("module", [httpx, httpx2])
def test_heads_of_both_modules(module: Any) -> None:
    """What the modules hold is read as what they show;
    a version that holds it otherwise is read by what it shows.
    """
    given = [
        (b"X-Request-ID", b"1"),
        (b"x-request-id", b"2"),
        (b"Content-Type", b"text/plain"),
        ("X-É".encode("latin-1"), b"\xe9"),
    ]
    headers = module.Headers(given)
    assert dict(lower(headers.raw)) == dict(read(headers))
    assert {"x-request-id": "1", "content-type": "text/plain", "x-é": "é"}.keys() == dict(
        read(headers)
    ).keys()
    for other in (None, (), [(b"a",)], [5]):
        shown = type("Shown", (), {"_list": other, "raw": [(b"A", b"1")]})()
        assert {"a": "1"} == dict(read(shown))
