"""Runs the programs of ``programs/`` in processes of their own."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

PROGRAMS = Path(__file__).resolve().parent / "programs"
ROOT = PROGRAMS.parents[2]


def start(program: str, *arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    """Run one of them, given up after 60 seconds."""
    return subprocess.run(
        [sys.executable, str(PROGRAMS / f"{program}.py"), *arguments],
        env={"PATH": os.environ.get("PATH", ""), "PYTHONPATH": str(ROOT), **environment},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


def run(program: str, *arguments: str, **environment: str) -> str:
    """Standard output of a program that has to end well and to say nothing on standard error."""
    done = start(program, *arguments, **environment)
    assert (0, "") == (done.returncode, done.stderr)
    return done.stdout
