"""One short history that many tests read."""

from __future__ import annotations

import pytest

from lz_otel.lab.history import history

END = 1_790_000_000
SHORT = history.Plan(hours=0.25, step=60, end=END, instances=1, models=1)


@pytest.fixture(scope="session")
def made() -> history.History:
    """A quarter of an hour without incidents."""
    return history.generate(SHORT)
