"""The page of the public API: every name is on it, signatures and docstrings are written as Markdown."""

from __future__ import annotations

import importlib
import sys
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent


def _script() -> Any:
    scripts = str(ROOT / "scripts")
    if scripts not in sys.path:
        sys.path.append(scripts)
    return importlib.import_module("docs_api")


def test_every_public_name_is_on_the_api_page() -> None:
    """docs/api.md has a section for each name of the three public modules, and no address of an object."""
    page = (ROOT / "docs" / "api.md").read_text("utf-8")
    modules = map(importlib.import_module, ("lz_otel", "lz_otel.testing", "lz_otel.explain"))
    names = [name for module in modules for name in getattr(module, "__all__", ())]
    assert [] == [name for name in names if f"### `{name}`\n" not in page]
    assert " at 0x" not in page


def test_a_signature_is_as_written() -> None:
    """Annotations have no quotes around them; a long signature has a line for each parameter."""

    def short(name: str, /, *rest: int) -> str | None: ...

    def long(
        *, some_name: dict[str, int] | None = None, another_name: str = "a, b", a_third_name: int = 0
    ) -> int: ...

    signature = _script().signature
    assert "short(name: str, /, *rest: int) -> str | None" == signature("short", short)
    assert "short(*rest: int) -> str | None" == signature("short", short, method=True)
    lines = [
        "long(",
        "    *,",
        "    some_name: dict[str, int] | None = None,",
        "    another_name: str = 'a, b',",
        "    a_third_name: int = 0,",
        ") -> int",
    ]
    assert lines == signature("long", long).splitlines()


def test_a_docstring_is_markdown() -> None:
    """Sections become lists whose entries keep their further lines; double backticks become single ones."""
    text = (
        "Give ``a``.\n\n    code: here\n\nArgs:\n    a: first\n        line.\n    b: other.\n\n"
        "Returns:\n    A thing: it.\n"
    )
    expected = (
        "Give `a`.\n\n    code: here\n\n**Arguments**\n\n- `a`: first\n  line.\n- `b`: other.\n\n"
        "**Returns**\n\nA thing: it.\n"
    )
    assert expected == _script().markdown(text)
