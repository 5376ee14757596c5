"""A monotonic clock that steps back, as those of some virtual machines do."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.processes import run

PROGRAM = Path(__file__).parent / "programs" / "clock_steps_back.py"


@pytest.mark.parametrize("seed", ["1", "2", "3"])
def test_no_sample_is_negative(seed: str) -> None:
    """Of calls, streams and operations: the sums of all histograms stay at 0 or above."""
    seen, negative = run(PROGRAM, seed, silent=True).stdout.splitlines()
    assert "" == negative
    assert 11 == len(seen.split())
