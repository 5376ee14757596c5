"""What changed since the last requests of the same route that could have used the cache."""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING

from lz_otel._memory import BoundedMap

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["Lineage"]

LINEAGE = 64


class Lineage:
    """The last requests of each route that could have used the cache.

    A request is known by its *kind*, the digests ``(model, settings, tools, system)``, and by its
    *tail*, the digest of the whole prompt.

    Args:
        max_scopes: most routes.
    """

    def __init__(self, max_scopes: int) -> None:
        self._routes: BoundedMap[int, deque[tuple[float, tuple[int, ...], int]]] = BoundedMap(max_scopes)

    def add(self, key: int, first: float, kind: tuple[int, ...], tail: int) -> None:
        """Add one request whose answer began at ``first``."""
        route = self._routes.get(key)
        if route is None:
            route = deque(maxlen=LINEAGE)
            self._routes.put(key, route)
        if route and route[-1][1] == kind:
            kind = route[-1][1]  # one object for a run of the same
        route.append((first, kind, tail))

    def reason(self, key: int, start: float, kind: tuple[int, ...], chain: Sequence[int]) -> str:
        """The first section in which a request differs from every earlier one of its route."""
        route = self._routes.peek(key) or ()
        earlier = [(k, tail) for first, k, tail in route if first <= start]
        reason = _difference(earlier, kind, chain)
        if len(earlier) < len(route):
            # Some were under way at the same time: whether they count as earlier must not matter.
            with_all = _difference([(k, tail) for _, k, tail in route], kind, chain)
            return reason if reason == with_all else "unknown"
        return reason


def _difference(earlier: list[tuple[tuple[int, ...], int]], kind: tuple[int, ...], chain: Sequence[int]) -> str:
    model, settings, tools, system = kind
    same = [e for e in earlier if e[0][0] == model]
    if not same:
        return "first_use"
    same_tools = [e for e in same if e[0][2] == tools]
    if not same_tools:
        return "tools_changed"
    same_system = [e for e in same_tools if e[0][3] == system]
    if not same_system:
        return "system_changed"
    if all(e[0][1] != settings for e in same_system):
        return "unknown"  # something changed for which the list has no word
    if all(e[1] in chain for e in same_system):
        return "first_use"  # nothing changed: what came before was too short to be kept
    return "history_changed"
