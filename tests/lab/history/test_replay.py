"""Alerts over the past fire as a server would have fired them."""

from __future__ import annotations

import pytest

from tests.lab.history.replayed_alerts import Alert, firing


@pytest.mark.parametrize(
    ("true_at", "wait", "keep", "fires"),
    [
        ([60, 120, 180], 60, 0, [120, 180]),
        ([60, 180], 60, 0, []),
        ([60], 0, 120, [60, 120, 180]),
        ([60, 120, 240], 60, 120, [120, 180, 240, 300, 360]),
    ],
)
def test_replayed_alerts(true_at: list[int], wait: float, keep: float, fires: list[int]) -> None:
    """An alert fires after ``for`` and goes on for ``keep_firing_for``; a gap begins anew."""
    assert firing(true_at, Alert("A", "up", wait, keep), 60, 600) == fires
