"""What type checkers make of the public functions: the types that users see."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

api = pytest.importorskip("mypy.api", reason="mypy is not installed: install the dependency group dev")

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
ERROR = re.compile(r"(?P<file>[^:]+):(?P<line>\d+): error: .*\[(?P<code>[a-z-]+)\]")


@pytest.fixture(scope="module")
def found() -> dict[str, set[tuple[int, str]]]:
    """Line and code of each error of ``mypy --strict``, by file."""
    out, err, _ = api.run(
        [
            "--strict",
            "--config-file=",
            "--disable-error-code=unused-coroutine",
            f"--cache-dir={ROOT / '.mypy_cache' / 'typing'}",
            str(HERE / "api.py"),
            str(HERE / "mistakes.py"),
        ]
    )
    assert "" == err
    errors: dict[str, set[tuple[int, str]]] = {}
    for line in out.splitlines():
        if error := ERROR.match(line):
            errors.setdefault(Path(error["file"]).name, set()).add((int(error["line"]), error["code"]))
    return errors


def test_what_users_write_has_types(found: dict[str, set[tuple[int, str]]]) -> None:
    """Settings, operations as blocks and as decorators: all pass ``mypy --strict``, types as asserted."""
    assert set() == found.get("api.py", set())


def test_mistakes_are_seen(found: dict[str, set[tuple[int, str]]]) -> None:
    """An unknown setting, one of the wrong type, a wrong call of a decorated function: each is its error."""
    lines = (HERE / "mistakes.py").read_text("utf-8").splitlines()
    wanted = {
        (n, code[1]) for n, line in enumerate(lines, 1) if (code := re.search(r"# error: ([a-z-]+)$", line))
    }
    assert wanted == found.get("mistakes.py", set())
