"""What changed since the last requests of a route."""

from __future__ import annotations

import pytest

from lz_otel._judge.prompt_cache.lineage import LINEAGE, FirstUse, Lineage, Sections

BEFORE = Sections(-(2**63), 2**63 - 1, -1)


def lineage(*firsts: float, sections: Sections = BEFORE, tail: int = 7) -> Lineage:
    route = Lineage()
    for first in firsts:
        route.add(1, first, 5, sections, tail)
    return route


@pytest.mark.parametrize(
    ("model", "now", "chain", "reason"),
    [
        (6, BEFORE, (7,), "first_use"),
        (5, BEFORE._replace(tools=0), (7,), "tools_changed"),
        (5, BEFORE._replace(system=0), (7,), "system_changed"),
        (5, BEFORE._replace(settings=0), (7,), "unknown"),
        (5, BEFORE, (3, 7), "first_use"),
        (5, BEFORE, (3, 4), "history_changed"),
    ],
)
def test_the_first_section_that_differs(
    model: int, now: Sections, chain: tuple[int, ...], reason: str
) -> None:
    """Model, tools, system prompt, settings and history are compared in this order."""
    assert lineage(10.0).reason(1, 20.0, model, now, chain) == reason


def test_a_request_under_way_must_not_matter() -> None:
    """Where it would change the reason whether a request that overlaps came before, nothing is sure."""
    assert lineage(30.0).reason(1, 20.0, 5, BEFORE, (3,)) == "unknown"
    assert lineage(10.0, 30.0).reason(1, 20.0, 5, BEFORE, (3,)) == "history_changed"


def test_only_the_last_requests_are_remembered() -> None:
    """A route holds a bounded number of requests, and another route none of them."""
    route = lineage(10.0)
    for _ in range(LINEAGE):
        route.add(1, 11.0, 6, BEFORE, 7)
    assert route.reason(1, 20.0, 5, BEFORE, (3,)) == "first_use"
    assert lineage(10.0).reason(2, 20.0, 5, BEFORE, (3,)) == "first_use"


def test_first_use() -> None:
    """The first request of a model on a route is a first use, the next one is not known to be anything."""
    uses = FirstUse()
    assert [uses.reason(1, 10.0, 11.0, 5), uses.reason(1, 20.0, 21.0, 5)] == ["first_use", None]
