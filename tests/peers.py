"""Finds the real servers that tests talk to: on PATH first, else where scripts/fetch-peers puts them."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
BIN = ROOT / ".peers" / "bin"
HINT = "run scripts/fetch-peers"
# Debian's package renames some upstream programs.
ALIASES = {"alertmanager": ("alertmanager", "prometheus-alertmanager")}


def find(program: str) -> str | None:
    """Path of the program, or ``None``."""
    for name in ALIASES.get(program, (program,)):
        for place in (None, str(BIN)):
            found = shutil.which(name, path=place)
            if found:
                return found
    return None


def need(program: str) -> str:
    """Path of the program; without it the test is skipped, or fails where ``LZ_REQUIRE_PEERS=1``."""
    found = find(program)
    if found:
        return found
    if os.environ.get("LZ_REQUIRE_PEERS") == "1":
        pytest.fail(f"{program} is neither on PATH nor in {BIN}: {HINT}", pytrace=False)
    pytest.skip(f"{program} is not here: {HINT}")
