"""In a subinterpreter nothing is observed: that is said, and its end does not end the process."""

from __future__ import annotations

from pathlib import Path

from lz_otel._ground.interpreter import is_main
from tests.processes import run

PROGRAMS = Path(__file__).parent / "programs"


def test_this_is_the_main_one() -> None:
    """What a service is in, as a rule."""
    assert is_main()


def test_a_subinterpreter_is_refused() -> None:
    """One warning and nothing else: a daemon thread in there would end the process with it."""
    warning, enabled, end = run(PROGRAMS / "subinterpreter.py").stdout.splitlines()
    assert "nothing is observed" in warning
    assert "WSGIApplicationGroup" in warning
    assert ("False", "None ended") == (enabled, end)
