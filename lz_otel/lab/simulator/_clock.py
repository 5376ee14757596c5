"""Time of the simulator: real, sped up, or moved by hand."""

from __future__ import annotations

import time


class Clock:
    """Seconds since the start of the simulator, as its caches and timelines see them.

    Latencies and rate-limit windows use real time; only what would take minutes (the life
    of a prompt-cache entry, a phase of a scenario) follows this clock.

    Args:
        scale: simulated seconds per real second; 0 makes a clock that only `advance` moves.
    """

    def __init__(self, scale: float = 1.0) -> None:
        self.scale = scale
        self._started = time.perf_counter()
        self._offset = 0.0

    def now(self) -> float:
        """Simulated seconds since the start."""
        return self._offset + (time.perf_counter() - self._started) * self.scale

    def advance(self, seconds: float) -> None:
        """Jump forward, so that a test of a five-minute lifetime takes no five minutes."""
        self._offset += seconds

    def reset(self) -> None:
        """Start again at zero."""
        self._started = time.perf_counter()
        self._offset = 0.0
