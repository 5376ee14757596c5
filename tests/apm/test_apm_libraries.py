"""Real APM libraries in one process with lz_otel, switched on before it or after: environment ``.venv-apm``.

The host sees what it sees without them, every call is one call, and each library can be taken off.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.processes import run

pytest.importorskip("logfire", reason="the APM libraries have an environment of their own: make test-apm")

from tests.apm.programs.libraries import LIBRARIES
from tests.apm.programs.traffic import ATTEMPTS, CALLS, RETRIES

PROGRAMS = Path(__file__).parent / "programs"
NUMBERS = {
    "calls": CALLS,
    "attempts": ATTEMPTS,
    "retries": RETRIES,
    "active": 0,
    "faults": 0,
}


def found(program: str, *arguments: str) -> Any:
    """Run a program, and return what it has printed last."""
    done = run(PROGRAMS / program, *arguments, seconds=120)
    return json.loads(done.stdout.splitlines()[-1])


@pytest.fixture(scope="module")
def bare() -> Any:
    """What the host sees without anybody."""
    return found("without_anybody.py")


@pytest.mark.parametrize("order", ["before", "after"])
@pytest.mark.parametrize("library", list(LIBRARIES))
def test_with_a_library(library: str, order: str, bare: Any) -> None:
    """In both orders: same results and exceptions, right numbers, off and on again."""
    seen = found("with_a_library.py", library, order)
    again = {"calls": 1, "attempts": 1, "retries": 0, "active": 0, "faults": 0}
    expected = {
        "hooked": True,
        "host": bare,
        "numbers": NUMBERS,
        "still hooked": False,
        "called while off": 200,
        "called again": 200,
        "numbers again": again,
    }
    if order == "before":
        expected |= {"wraps": True, "we wrap": 0}
    assert expected == seen


def test_logfire_on_one_client() -> None:
    """Put on clients that are there before lz_otel: six calls of three attempts, over whichever transport."""
    expected = {"calls": 6, "attempts": 18, "retries": 12, "active": 0, "faults": 0}
    assert expected == found("logfire_on_a_client.py")
