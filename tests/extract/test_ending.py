"""What an attempt came to."""

from __future__ import annotations

from lz_otel._extract.ending import _label
from lz_otel.catalogue import STATUSES


def test_statuses_are_a_closed_list() -> None:
    """Any HTTP status is a value of the catalogue's list: itself, or its class."""
    assert all(_label(status) in STATUSES for status in range(1000))
    assert ("200", "429", "4xx", "5xx") == tuple(map(_label, (200, 429, 418, 999)))
