"""The garbage collector closes and drops streams in the middle of anything: no deadlock, no lost count."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.processes import run

PROGRAMS = Path(__file__).parent / "programs"


@pytest.mark.parametrize("mode", ["", "log", "files"])
def test_streams_dropped_in_cycles(mode: str, tmp_path: Path) -> None:
    """Streams in cycles, dropped or held by generators, while threads call and scrape:
    every call counts once.
    """
    environment = {"PROMETHEUS_MULTIPROC_DIR": str(tmp_path)} if mode == "files" else {}
    done = run(PROGRAMS / "dropped_in_cycles.py", mode, seconds=90, **environment)
    assert done.stdout == "done\n"


def test_a_fork_while_another_thread_collects_or_holds_an_operation() -> None:
    """The child counts as ever, though the thread that was at it is gone."""
    assert run(PROGRAMS / "fork_while_collecting.py").stdout == "done\n"
