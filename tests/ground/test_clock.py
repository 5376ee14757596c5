"""Time between two readings of a clock."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from lz_otel._ground.clock import elapsed

INSTANTS = st.floats(-1e9, 1e9)


@given(INSTANTS, INSTANTS)
def test_elapsed_is_never_negative(start: float, end: float) -> None:
    """The difference, or 0 where the clock has stepped back."""
    assert elapsed(start, end) == max(0.0, end - start)
