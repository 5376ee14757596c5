"""Which readings of rate limits are shown: those that still hold; of several keys, the lowest."""

from __future__ import annotations

from math import inf
from typing import TYPE_CHECKING, Any, NamedTuple

from lz_otel import catalogue as c
from lz_otel._ground.lock import lock

if TYPE_CHECKING:
    from collections.abc import Iterable

    Point = tuple[Any, tuple[str, ...]]

MAX_READINGS = 2000
HOLDS_SECONDS = 300.0
"""How long a reading is shown whose reset is not stated (C)."""


class _Reading(NamedTuple):
    until: float
    limit: Any  # `_extract.limits.Limit`


class Headroom:
    """Readings of rate limits, each until its reset has passed: then the provider has refilled it.

    Two keys of one process have limits of their own. Keys are told apart here and in no label; of those
    without an account of their own the one with the least left is shown. Memory: the last 2,000 readings.

    Attributes:
        readings: those that have not passed, as of the last time that they were shown.
    """

    def __init__(self) -> None:
        self.readings: dict[tuple[tuple[str, ...], int], _Reading] = {}
        self._shown: set[Point] = set()
        self.lock = lock()  # held by who brings what is shown into the store

    def take(self, names: tuple[str, ...], key: int, limits: Iterable[Any], when: float) -> None:
        """Note what an answer has stated.

        Args:
            names: operation, provider, model and account.
            key: tells the keys of this process apart.
            limits: as stated.
            when: epoch seconds of the answer.
        """
        for limit in limits:
            seconds = limit.reset_seconds
            until = when + (HOLDS_SECONDS if seconds is None else seconds)
            self.readings.pop(((*names, limit.resource), key), None)  # the newest is the last
            self.readings[(*names, limit.resource), key] = _Reading(until, limit)
        while len(self.readings) > MAX_READINGS:
            del self.readings[next(iter(self.readings))]

    def shown(self, now: float) -> tuple[list[Any], list[Point]]:
        """Return the rows to show at ``now`` (epoch seconds), and the points that end."""
        least: dict[tuple[str, ...], Any] = {}
        for key, reading in list(self.readings.items()):
            labels, limit = key[0], reading.limit
            if reading.until <= now:
                self.readings.pop(key, None)
            elif labels not in least or _share(limit) <= _share(least[labels]):
                least[labels] = limit
        shown = [row for labels, limit in least.items() for row in rows(labels, limit)]
        points = {(metric, labels) for metric, labels, _ in shown}
        gone = [point for point in self._shown if point not in points]
        self._shown = points
        return shown, gone

    def clear(self) -> None:
        """Forget all readings: those of the parent, in a forked child."""
        self.lock = lock()
        self.readings.clear()
        self._shown.clear()


def _share(limit: Any) -> float:
    """Return the share that is left; what is not stated is taken for plenty."""
    if limit.remaining is None:
        return inf
    return float(limit.remaining) / limit.limit if limit.limit else float(limit.remaining)


def rows(labels: tuple[str, ...], limit: Any) -> list[Any]:
    """Return the rows of one reading, for the label values of its metrics."""
    stated = (
        (c.RATE_LIMIT_REMAINING, limit.remaining),
        (c.RATE_LIMIT_LIMIT, limit.limit),
        (c.RATE_LIMIT_RESET, limit.reset_seconds),
    )
    return [(metric, labels, max(0.0, float(value))) for metric, value in stated if value is not None]
