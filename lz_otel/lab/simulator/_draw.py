"""Chance that can be repeated: every draw is a function of seed, call, attempt and a name.

A draw does not depend on the order in which requests arrive, so two runs with one seed do
the same to the same calls, whatever the concurrency; and a new draw somewhere does not
shift the others.
"""

from __future__ import annotations

from hashlib import blake2b
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from collections.abc import Sequence

    from lz_otel.lab.simulator._schema import ScenarioRange

_T = TypeVar("_T")
_SPAN = float(1 << 64)


class Draw:
    """Named draws of one request, which ``key`` tells from all others in a run of this seed."""

    __slots__ = ("_base",)

    def __init__(self, seed: int, key: str) -> None:
        self._base = blake2b(f"{seed}\x00{key}\x00".encode(), digest_size=8)

    def unit(self, name: str) -> float:
        """Draw a number in [0, 1)."""
        state = self._base.copy()
        state.update(name.encode())
        return int.from_bytes(state.digest(), "big") / _SPAN

    def chance(self, name: str, rate: float) -> bool:
        """True in the given share of requests."""
        if rate <= 0.0:
            return False
        return rate >= 1.0 or self.unit(name) < rate

    def band(self, name: str, band: ScenarioRange) -> float:
        """Return a number between the two ends."""
        return band.low + (band.high - band.low) * self.unit(name)

    def integer(self, name: str, low: int, high: int) -> int:
        """Draw a whole number between the two ends, both included."""
        return low + int((high - low + 1) * self.unit(name))

    def pick(self, name: str, items: Sequence[_T]) -> _T:
        """Draw one of the items."""
        return items[int(len(items) * self.unit(name))]

    def weighted(self, name: str, weights: Sequence[float]) -> int:
        """Draw the index of one of the weights, each as likely as it is heavy."""
        left = self.unit(name) * sum(weights)
        for index, weight in enumerate(weights):
            left -= weight
            if left < 0.0:
                return index
        return len(weights) - 1
