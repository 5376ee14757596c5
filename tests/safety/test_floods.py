"""Calls that end by the thousand at one moment, in a process of their own."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.processes import run

FLOODS = Path(__file__).parent / "programs" / "floods.py"


class TestEndingsByTheThousand:
    """Each is counted once, none stays in flight, and no fault is noted."""

    @pytest.mark.parametrize("way", ["dropped", "collected", "threads"])
    @pytest.mark.parametrize("shared", [False, True])
    def test_sync(self, way: str, shared: bool, tmp_path: Path) -> None:
        """Dropped together, found by one collection, dropped by four threads; also with a shared folder."""
        number = 2_000 if shared else 20_000
        folder = {"PROMETHEUS_MULTIPROC_DIR": str(tmp_path)} if shared else {}
        assert f"{number} {number} 0 0\n" == run(FLOODS, way, str(number), silent=True, **folder).stdout

    @pytest.mark.parametrize("way", ["cancelled", "loop_closed"])
    def test_asyncio(self, way: str) -> None:
        """Cancelled together, and by the end of their event loop."""
        assert "5000 5000 0 0\n" == run(FLOODS, way, "5000", silent=True).stdout
