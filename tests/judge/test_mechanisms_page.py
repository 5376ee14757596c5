"""docs/mechanisms.md says what the code says, and states the memory that the mechanisms hold when full."""

from __future__ import annotations

import gc
import importlib
import re
import tracemalloc
from pathlib import Path

import pytest

from lz_otel import catalogue
from lz_otel._judge.signals import TABLE
from tests.judge.ended_calls import make

PAGE = (Path(__file__).resolve().parents[2] / "docs" / "mechanisms.md").read_text("utf-8")
WAKES = {"": "", "*": "yes", "?": "if it says something"}


def test_every_marker_is_on_the_page() -> None:
    """The page's table of markers has the rows of the table, all of them, in its order."""
    rows = [
        f"| `{r.mechanism}.{r.key}` | {r.where} | `{r.name}` | {r.mark} | {r.source} | {r.doc} |"
        f" {WAKES[r.wakes]} |"
        for r in TABLE
    ]
    assert rows == [line for line in PAGE.splitlines() if re.match(r"\| `\w+\.\w+` \|", line)]


@pytest.mark.parametrize("name", catalogue.MECHANISMS)
def test_every_reason_is_on_the_page(name: str) -> None:
    """Each mechanism has a section that names its reasons."""
    section = PAGE.split(f"\n## {name}\n")[1].split("\n## ")[0]
    told = "" if name == "symbolic" else section  # the reasons of `symbolic` are the application's
    assert [r for r in catalogue.FALLBACK_REASONS.get(name, ()) if told and f"`{r}`" not in told] == []


@pytest.mark.parametrize("name", catalogue.MECHANISMS)
def test_memory_is_what_the_page_states(name: str) -> None:
    """A mechanism that is full (`fill` of its tests) holds no more than the page says."""
    folder = Path(__file__).parent / name
    tests = importlib.import_module(
        f"tests.judge.{name}.test_judge" if folder.is_dir() else f"tests.judge.test_{name}"
    )
    stated = re.search(rf"^\| `{name}` \|.*\| (?:([0-9.]+) MB|nothing) \|$", PAGE, re.MULTILINE)
    assert stated is not None
    gc.collect()
    tracemalloc.start()
    try:
        before = tracemalloc.get_traced_memory()[0]
        judge = make(name)
        tests.fill(judge)
        gc.collect()
        held = tracemalloc.get_traced_memory()[0] - before
    finally:
        tracemalloc.stop()
    assert held < float(stated[1] or 0.05) * 1e6
