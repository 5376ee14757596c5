"""What a mechanism concludes about one call."""

from __future__ import annotations

import pytest

from lz_otel._judge.result import Result
from lz_otel.model import Verdict


@pytest.mark.parametrize(
    ("decision", "hit"),
    [("hit", True), ("miss", False), ("fallback", False), ("bypass", False), (None, False)],
)
def test_only_a_hit_is_one(decision: str | None, hit: bool) -> None:
    """A result without a verdict, or with another decision, is no hit."""
    verdict = None if decision is None else Verdict("intent", decision)
    assert Result(verdict).is_hit is hit
