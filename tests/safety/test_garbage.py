"""What a call leaves behind: nothing that only the garbage collector could free."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.processes import run

# In a process of its own: here other tests' leftovers may die in the middle of it
PROGRAM = Path(__file__).parent / "programs" / "no_cycle.py"


@pytest.mark.parametrize("module", ["httpx", "httpx2"])
def test_a_call_leaves_no_cycle(module: str) -> None:
    """No object of ours waits for the garbage collector after a call."""
    assert ["0"] == run(PROGRAM, module).stdout.split()
