"""Runs the programs that lie beside the tests, each in a process of its own."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

__all__ = ["ROOT", "run", "start"]

ROOT = Path(__file__).resolve().parent.parent
# From 3.12 on Python warns of a fork beside a thread, and that of our port is one: see docs/deployment.md.
FORKS_MAY_HAVE_THREADS = "ignore:This process:DeprecationWarning"


def start(program: Path, *arguments: str, **environment: str) -> subprocess.Popen[str]:
    """Start a program with pipes for its input, output and errors.

    Args:
        program: its file; from there it can import all that the tests can.
        *arguments: what it finds in ``sys.argv[1:]``.
        **environment: variables; of the machine's own it gets the path and the home folder only.
    """
    machine = {name: os.environ.get(name, "") for name in ("PATH", "HOME")}
    return subprocess.Popen(
        [sys.executable, "-X", "faulthandler", str(program), *arguments],
        cwd=ROOT,
        env={
            **machine,
            "PYTHONPATH": str(ROOT),
            "PYTHONWARNINGS": FORKS_MAY_HAVE_THREADS,
            **environment,
        },
        text=True,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )


def run(
    program: Path,
    *arguments: str,
    seconds: float = 60,
    status: int = 0,
    silent: bool = False,
    **environment: str,
) -> subprocess.CompletedProcess[str]:
    """Run a program to its end, and check how it ended.

    Args:
        program: its file.
        *arguments: as in `start`.
        seconds: after so long it hangs; it is ended, and the stack of every thread is shown.
        status: what it must end with.
        silent: whether it must write nothing to its standard error.
        **environment: as in `start`.
    """
    process = start(program, *arguments, **environment)
    try:
        output, errors = process.communicate(timeout=seconds)
    except subprocess.TimeoutExpired:
        process.send_signal(signal.SIGABRT)  # faulthandler writes the stacks
        output, errors = process.communicate()
        raise AssertionError(f"{program.name} hangs after {seconds} s:\n{errors[-6000:]}") from None
    assert process.returncode == status, errors[-6000:] or output[-2000:]
    assert not (silent and errors), errors
    return subprocess.CompletedProcess(process.args, process.returncode, output, errors)
