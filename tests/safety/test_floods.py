"""Calls that end by the thousand at one moment, in a process of their own."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.processes import run

if TYPE_CHECKING:
    from tests.export.receiver import Receiver

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
        assert "10000 10000 0 0\n" == run(FLOODS, way, "10000", silent=True).stdout

    def test_trio(self) -> None:
        """One scope with all of them is cancelled."""
        pytest.importorskip("trio", reason="trio is not installed: install the dependency group test")
        assert "10000 10000 0 0\n" == run(FLOODS, "trio_cancelled", "10000", silent=True).stdout

    @pytest.mark.parametrize("way", ["dropped_at_exit", "dropped_after_sigterm", "held_at_exit"])
    def test_the_end_of_the_process(self, way: str, receiver: Receiver) -> None:
        """Dropped right before the interpreter ends, by itself or by a handler, or held: all are pushed."""
        otlp = {"OTEL_METRICS_EXPORTER": "otlp", "OTEL_EXPORTER_OTLP_ENDPOINT": receiver.endpoint}
        run(FLOODS, way, "10000", silent=True, **otlp)
        pushed = {
            name: sum(receiver.last(name).values())
            for name in ("gen_ai.client.inference.duration", "lz.call.active", "lz.internal.errors")
        }
        assert [10_000, 0, 0] == [*pushed.values()]
