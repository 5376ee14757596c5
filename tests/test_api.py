"""What users may rely on: the public names, their documentation, the version."""

from __future__ import annotations

import inspect
import re
import subprocess
import sys
import types
from pathlib import Path

import pytest

import lz_otel

ROOT = Path(__file__).resolve().parent.parent
PROMISED = {
    "instrument",
    "instrument_client",
    "operation",
    "record_quality",
    "record_response_cache",
    "uninstrument",
}


def test_the_promised_names_are_there() -> None:
    """Names of an earlier version do not vanish."""
    assert set() == PROMISED - set(lz_otel.__all__)


def test_all_is_what_is_public() -> None:
    """Every name without an underscore is in ``__all__``, which is sorted, and the other way round."""
    public = {
        name
        for name, value in vars(lz_otel).items()
        if not name.startswith("_") and not isinstance(value, types.ModuleType) and name != "annotations"
    }
    assert public == set(lz_otel.__all__)
    assert sorted(lz_otel.__all__) == list(lz_otel.__all__)


@pytest.mark.parametrize("name", sorted(PROMISED))
def test_public_names_are_documented_and_typed(name: str) -> None:
    """Each public function says what it does, and every parameter and result has a type."""
    thing = getattr(lz_otel, name)
    assert inspect.getdoc(thing)
    function = thing.__init__ if inspect.isclass(thing) else thing
    signature = inspect.signature(function)
    untyped = [p.name for p in signature.parameters.values() if p.annotation is p.empty and p.name != "self"]
    assert [] == untyped
    assert signature.return_annotation is not signature.empty


def test_star_import_works() -> None:
    """``from lz_otel import *`` gives what ``__all__`` says, on a fresh interpreter."""
    code = "from lz_otel import *; import lz_otel; print(set(lz_otel.__all__) - set(dir()))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=ROOT)
    assert "set()\n" == done.stdout


def test_the_package_says_that_it_is_typed() -> None:
    """Type checkers of users read our annotations only if the marker is there."""
    assert (ROOT / "lz_otel" / "py.typed").is_file()


def test_version_is_in_the_changelog() -> None:
    """The version is a proper one; the changelog has a section for it or one for what is not released."""
    assert re.fullmatch(r"\d+\.\d+\.\d+", lz_otel.__version__)
    changelog = (ROOT / "CHANGELOG.md").read_text("utf-8")
    assert f"## [{lz_otel.__version__}]" in changelog or "## [Unreleased]" in changelog
