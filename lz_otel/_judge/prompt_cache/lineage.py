"""What changed since the last requests of the same route that could have used the cache."""

from __future__ import annotations

from collections import deque
from struct import Struct
from typing import TYPE_CHECKING, NamedTuple

from lz_otel._ground.memory import BoundedMap, Locked

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

LINEAGE = 64  # requests of a route that are remembered
MAX_ROUTES = 256


class Sections(NamedTuple):
    """Digests of the parts of a request that seldom change.

    Attributes:
        settings: what the prefix of the system section depends on besides (``speed``), or the whole prompt.
        tools, system: these sections by themselves.
    """

    settings: int
    tools: int
    system: int


_REQUEST = Struct("dqqqqq")
"""A `_RouteRequest`, packed: 81 bytes."""


class _RouteRequest(NamedTuple):
    """One request: when its answer began, its model, its sections, and the digest of its whole prompt."""

    first: float
    model: int
    settings: int
    tools: int
    system: int
    tail: int


class Lineage:
    """The last requests of each route that could have used the cache."""

    def __init__(self) -> None:
        self._routes: BoundedMap[int, deque[bytes]] = BoundedMap(MAX_ROUTES)

    def add(self, key: int, first: float, model: int, sections: Sections, tail: int) -> None:
        """Add one request whose answer began at ``first``, and whose whole prompt has the digest ``tail``."""
        route = self._routes.get(key)
        if route is None:
            route = deque(maxlen=LINEAGE)
            self._routes.put(key, route)
        route.append(_REQUEST.pack(first, model, *sections, tail))

    def reason(self, key: int, start: float, model: int, sections: Sections, chain: Sequence[int]) -> str:
        """Return the first section in which a request differs from every earlier one of its route."""
        route = [_RouteRequest._make(_REQUEST.unpack(request)) for request in self._routes.peek(key) or ()]
        earlier = [request for request in route if request.first <= start]
        reason = _difference(earlier, model, sections, chain)
        if len(earlier) < len(route):
            # Some were under way at the same time: whether they count as earlier must not matter.
            return reason if reason == _difference(route, model, sections, chain) else "unknown"
        return reason


def _difference(
    earlier: Iterable[_RouteRequest], model: int, sections: Sections, chain: Sequence[int]
) -> str:
    same = [request for request in earlier if request.model == model]
    if not same:
        return "first_use"
    same = [request for request in same if request.tools == sections.tools]
    if not same:
        return "tools_changed"
    same = [request for request in same if request.system == sections.system]
    if not same:
        return "system_changed"
    if all(request.settings != sections.settings for request in same):
        return "unknown"  # something changed for which the list has no word
    if all(request.tail in chain for request in same):
        return "first_use"  # nothing changed: what came before was too short to be kept
    return "history_changed"


class FirstUse(Locked):
    """Whether a route is used for the first time: all that is sure without a vendor's rules."""

    def __init__(self) -> None:
        super().__init__()
        self._lineage = Lineage()

    def reason(self, key: int, start: float, first: float, model: int) -> str | None:
        """Take in one request; return ``first_use`` where no earlier one could have filled the cache."""
        with self._lock:
            reason = self._lineage.reason(key, start, model, _UNKNOWN, ())
            self._lineage.add(key, first, model, _UNKNOWN, 0)
        return reason if reason == "first_use" else None


_UNKNOWN = Sections(0, 0, 0)
