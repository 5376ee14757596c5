"""Development servers that reload: the process that serves gets the port of ``/metrics``."""

from __future__ import annotations

import re
import sys
import types
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

import lz_otel
from lz_otel._export._reloaders import Reloaders
from tests.processes import run

if TYPE_CHECKING:
    from collections.abc import Callable

PROGRAM = Path(__file__).parent / "programs" / "reloading.py"


def module(name: str) -> types.ModuleType:
    """Return a stand-in for a server's module, of the shape that `Reloaders` knows."""
    made = types.ModuleType(name)

    def start(*_: object) -> str:
        return f"{name} {lz_otel.status().prometheus_port}"

    if name == "django.utils.autoreload":
        made.restart_with_reloader = start  # type: ignore[attr-defined]
    elif name == "werkzeug._reloader":
        made.ReloaderLoop = type("ReloaderLoop", (), {"restart_with_reloader": start})  # type: ignore[attr-defined]
    else:
        made.BaseReload = type("BaseReload", (), {"startup": start})  # type: ignore[attr-defined]
    return made


def starter(made: types.ModuleType) -> Callable[[], str]:
    for holder, name in (("ReloaderLoop", "restart_with_reloader"), ("BaseReload", "startup")):
        if hasattr(made, holder):
            return getattr(getattr(made, holder)(), name)  # type: ignore[no-any-return]
    return made.restart_with_reloader  # type: ignore[no-any-return]


NAMES = ["werkzeug._reloader", "django.utils.autoreload", "uvicorn.supervisors.basereload"]


@pytest.mark.parametrize("name", NAMES)
def test_the_watching_process_lets_go_of_the_port(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """When it starts the one that serves, nothing listens; `uninstrument` leaves nothing behind."""
    made = module(name)
    monkeypatch.setitem(sys.modules, name, made)
    lz_otel.instrument(exporters="prometheus", prometheus_port=0)
    try:
        assert lz_otel.status().prometheus_port
        assert f"{name} None" == starter(made)()
        assert f"{name} None" == starter(made)()
    finally:
        lz_otel.uninstrument()
    assert not hasattr(starter(made), "__wrapped__")


@pytest.mark.parametrize("name", NAMES)
def test_the_servers_have_what_is_hooked(name: str) -> None:
    """Each server that is installed has the class and the function that we hook."""
    real = pytest.importorskip(name)
    reloaders = Reloaders([])
    reloaders.callbacks[name](real)
    assert 1 == len(reloaders._undo)
    reloaders.remove()
    assert [] == reloaders._undo


def test_another_shape_is_left_alone() -> None:
    """A version without that class or function is not touched, and one wrapped on top stays."""
    reloaders = Reloaders([])
    bare = types.ModuleType("bare")
    for callback in reloaders.callbacks.values():
        callback(bare)
    assert [] == reloaders._undo
    made = module("django.utils.autoreload")
    reloaders.callbacks["django.utils.autoreload"](made)
    theirs: Any = lambda: "theirs"  # noqa: E731 - somebody's
    made.restart_with_reloader = theirs  # type: ignore[attr-defined]
    reloaders.remove()
    assert made.restart_with_reloader is theirs


def test_uvicorn_that_reloads(tmp_path: Path) -> None:
    """The process that uvicorn starts anew serves the metrics on the port that was asked for."""
    done = run(PROGRAM, str(tmp_path), seconds=120)
    assert re.search(r"^served by the child$", done.stdout, re.MULTILINE), done.stdout + done.stderr
    assert "cannot listen" not in done.stderr
