"""Runs a program of a test in a process of its own, which is given up when it hangs."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

__all__ = ["ROOT", "run"]

ROOT = Path(__file__).resolve().parents[2]


def run(program: str, *, seconds: float = 60, status: int = 0, **environment: str) -> str:
    """Standard output of a program that ends by itself.

    Args:
        program: its text.
        seconds: after so long it hangs, and every thread's stack is shown.
        status: what it must end with.
        **environment: added to that of the test.
    """
    head = f"import faulthandler, sys; faulthandler.dump_traceback_later({seconds}, exit=True)\n"
    done = subprocess.run(
        [sys.executable, "-c", head + program],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(ROOT), **environment},
        capture_output=True,
        text=True,
        timeout=seconds + 30,
        check=False,
    )
    assert done.returncode == status, done.stderr[-6000:] or done.stdout[-2000:]
    return done.stdout
