"""Time between two readings of the monotonic clock."""

from __future__ import annotations


def elapsed(start: float, end: float) -> float:
    """Return the seconds from start to end; 0 where the clock has stepped back."""
    return end - start if end > start else 0.0
