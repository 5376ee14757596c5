"""What a signal's handler raises, as the fixture ``alarm`` of the tests has it."""

from __future__ import annotations

__all__ = ["Stop"]


class Stop(BaseException):
    """What a handler raises that ends the process."""
