"""Modules that the host imports later: hooked as soon as they are there, and never imported by us."""

from __future__ import annotations

import importlib
import sys
from typing import TYPE_CHECKING

import pytest

from lz_otel._capture.imports import WhenImported
from lz_otel._ground.guard import guard

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path
    from types import ModuleType

LATER, BROKEN = "lz_test_imported_later", "lz_test_broken"


@pytest.fixture
def hooked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[list[str]]:
    """Names of the modules that were hooked; two modules wait to be imported, and `sys.path` has them."""
    (tmp_path / f"{LATER}.py").write_text("ready = True\n")
    (tmp_path / f"{BROKEN}.py").write_text("raise RuntimeError('the module itself')\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setattr(sys, "meta_path", list(sys.meta_path))
    yield []
    for name in (LATER, BROKEN):
        sys.modules.pop(name, None)


def waiting(hooked: list[str], *names: str) -> WhenImported:
    """Return what waits for these modules, installed; it notes those that are complete when it is called."""

    def note(module: ModuleType) -> None:
        hooked.append(f"{module.__name__}:{getattr(module, 'ready', False)}")

    made = WhenImported(dict.fromkeys(names, note))
    made.install()
    return made


def test_a_module_that_is_there_is_hooked_at_once(hooked: list[str]) -> None:
    """Where all modules are imported nothing is added to the import system."""
    made = waiting(hooked, "json")
    assert hooked == ["json:False"]
    assert made.waiting == ()
    assert made not in sys.meta_path


def test_a_module_is_hooked_after_it_is_loaded(hooked: list[str]) -> None:
    """It is not imported by waiting for it, complete when it is hooked, and hooked once."""
    made = waiting(hooked, LATER)
    assert (hooked, made.waiting, LATER in sys.modules) == ([], (LATER,), False)
    importlib.import_module(LATER)
    assert (hooked, made.waiting) == ([f"{LATER}:True"], ())
    importlib.reload(sys.modules[LATER])
    assert hooked == [f"{LATER}:True"]


def test_other_modules_and_missing_ones_are_left_alone(hooked: list[str]) -> None:
    """A module that is not there fails as ever, and goes on being waited for."""
    made = waiting(hooked, "lz_test_missing")
    importlib.import_module(LATER)
    with pytest.raises(ModuleNotFoundError, match="lz_test_missing"):
        importlib.import_module("lz_test_missing")
    assert (hooked, made.waiting) == ([], ("lz_test_missing",))


def test_a_module_that_fails_is_not_hooked(hooked: list[str]) -> None:
    """Its own exception reaches the host unchanged."""
    waiting(hooked, BROKEN)
    with pytest.raises(RuntimeError, match="the module itself"):
        importlib.import_module(BROKEN)
    assert hooked == []


def test_removed_it_hooks_no_more(hooked: list[str]) -> None:
    """After `remove`, which may be called twice, a module is imported without us."""
    made = waiting(hooked, LATER)
    made.remove()
    made.remove()
    importlib.import_module(LATER)
    assert hooked == []


def test_a_fault_of_ours_does_not_fail_the_import(hooked: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    """The host gets its module, and the fault is counted."""
    faults: list[str] = []
    monkeypatch.setattr(guard, "fault", lambda where, _: faults.append(where))

    def fail(_: ModuleType) -> None:
        raise ValueError("ours")

    WhenImported({LATER: fail}).install()
    assert importlib.import_module(LATER).ready
    assert faults == ["capture"]
