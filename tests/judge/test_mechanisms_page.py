"""docs/mechanisms.md says what the code says, and states the memory that the mechanisms hold when full."""

from __future__ import annotations

import gc
import os
import random
import re
import tracemalloc
from pathlib import Path
from typing import Any

import pytest

from lz_otel import catalogue
from lz_otel._judge import MECHANISMS, signals
from lz_otel._judge.request_body import CountedTokens
from lz_otel._judge.signals import TABLE
from lz_otel._judge.simhash import MAX_WORDS, shape

PAGE = (Path(__file__).resolve().parents[2] / "docs" / "mechanisms.md").read_text("utf-8")
WAKES = {"": "", "*": "yes", "?": "if it says something"}


def test_every_marker_is_on_the_page() -> None:
    """The page's table of markers has the rows of the table, all of them, in its order."""
    rows = [
        f"| `{r.mechanism}.{r.key}` | {r.where} | `{r.name}` | {r.mark} | {r.source} | {r.doc} | {WAKES[r.wakes]} |"
        for r in TABLE
    ]
    assert rows == [line for line in PAGE.splitlines() if re.match(r"\| `\w+\.\w+` \|", line)]


@pytest.mark.parametrize("name", catalogue.MECHANISMS)
def test_every_reason_is_on_the_page(name: str) -> None:
    """Each mechanism has a section that names its reasons."""
    section = PAGE.split(f"\n## {name}\n")[1].split("\n## ")[0]
    told = "" if name == "symbolic" else section  # the reasons of `symbolic` are the application's
    assert [r for r in catalogue.FALLBACK_REASONS.get(name, ()) if told and f"`{r}`" not in told] == []


def fill(mechanism: Any) -> None:
    """Put in more than it may hold."""
    bits = random.Random(1).getrandbits
    for _ in range(12_000):
        if mechanism.NAME == "symbolic":
            mechanism._hits.add(bits(63))
        elif mechanism.NAME == "intent":
            mechanism._outputs.put(bits(63), os.urandom(16))
            mechanism._sessions.put(bits(63), "creative")
        elif mechanism.NAME == "scheduling":
            mechanism._entities.add(bits(63))
        elif mechanism.NAME == "pruning":
            mechanism.counted._counts.put(bits(63), bits(17))
        elif mechanism.NAME == "response_cache":
            mechanism._hosts.add(f"host{bits(40)}.example.com")
    if mechanism.NAME == "scheduling":
        for n in range(120):
            mechanism._recent.append(shape(" ".join(f"w{n}x{k}" for k in range(MAX_WORDS))))


@pytest.mark.parametrize("name", ["symbolic", "pruning", "intent", "zeroing", "scheduling", "response_cache"])
def test_memory_is_what_the_page_states(name: str) -> None:
    """A mechanism that is full holds no more than the page says."""
    stated = re.search(rf"^\| `{name}` \|.*\| (?:([0-9.]+) MB|nothing) \|$", PAGE, re.MULTILINE)
    assert stated is not None
    gc.collect()
    tracemalloc.start()
    try:
        before = tracemalloc.get_traced_memory()[0]
        mechanism = MECHANISMS[name](signals.load(), counted=CountedTokens())
        fill(mechanism)
        gc.collect()
        held = tracemalloc.get_traced_memory()[0] - before
    finally:
        tracemalloc.stop()
    assert held < float(stated[1] or 0.05) * 1e6
