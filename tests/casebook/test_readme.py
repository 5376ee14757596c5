"""The list of tests by case in README.md is what is here."""

from __future__ import annotations

import ast
import re
from pathlib import Path

HERE = Path(__file__).parent
ROW = re.compile(r"^\| (\d\d) \| ([^|]+) \| ([^|]+) \|$", re.MULTILINE)


def written() -> dict[str, list[str]]:
    """Tests by case, from the files."""
    out: dict[str, list[str]] = {}
    for path in sorted(HERE.glob("test_*.py")):
        for node in ast.parse(path.read_text()).body:
            if isinstance(node, ast.FunctionDef) and (found := re.match(r"test_(\d\d)_", node.name)):
                out.setdefault(found[1], []).append(node.name)
    return out


def listed() -> dict[str, list[str]]:
    """Tests by case, from the README."""
    return {m[1]: re.findall(r"`(test_\w+)`", m[3]) for m in ROW.finditer((HERE / "README.md").read_text())}


def test_every_case_has_its_tests() -> None:
    """25 cases, each with tests that carry its number, and the README lists exactly those, in order."""
    assert [f"{n:02d}" for n in range(1, 26)] == sorted(written())
    assert dict(sorted(written().items())) == listed()
