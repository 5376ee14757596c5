"""The shape of the package: who may import whom, how long a module may be, what an import of it loads."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

PACKAGE = Path(__file__).resolve().parent.parent / "lz_otel"

# The order of the stages: each may import itself and those before it.
STAGES = ("_capture", "_extract", "_price", "_judge", "_measure", "_export")
# What every stage may import, and what each of these may import in turn.
BASE = {
    "model": set(),
    "errors": set(),
    "_version": set(),
    "mechanisms": set(),
    "_ground": {"catalogue", "errors", "mechanisms", "model"},
    "catalogue": {"_ground", "errors"},
    "_config": {"catalogue", "errors", "_version"},
}
# The only places that see several stages.
COMPOSERS = {"_api", "_later", "_operation", "_pipeline", "_reports", "_runtime"}
ALLOWED = {
    **BASE,
    **{stage: {*BASE, *STAGES[: i + 1]} for i, stage in enumerate(STAGES)},
    **{composer: {*BASE, *STAGES, *COMPOSERS} for composer in COMPOSERS},
    "explain": {*BASE, "_extract", "_judge"},
    "bundle": {"catalogue", "errors", "mechanisms", "_version", "lab"},
}
LONGEST = 400
LONGER: dict[str, str] = {}
HEAVY = (
    "httpx",
    "httpx2",
    "anthropic",
    "openai",
    "typer",
    "rich",
    "starlette",
    "uvicorn",
    "brotli",
    "zstandard",
    "grafana_foundation_sdk",
    "opentelemetry.exporter",
)


def modules() -> dict[str, Path]:
    """Dotted name below the package -> file; a package goes by its own name."""
    out = {}
    for path in sorted(PACKAGE.rglob("*.py")):
        parts = path.relative_to(PACKAGE).with_suffix("").parts
        out[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = path
    return out


def imports(source: str, module: str) -> Iterator[str]:
    """The parts of the library that a source imports: the first name below ``lz_otel``, "" for the package."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            names = [a.name for a in node.names]
        elif isinstance(node, ast.ImportFrom):
            base = node.module or ""
            if node.level:
                above = ["lz_otel", *module.split(".")][: -node.level]
                base = ".".join([*above, *([base] if base else [])])
            # `from lz_otel import x` imports the part x
            names = [f"{base}.{a.name}" for a in node.names] if base == "lz_otel" else [base]
        else:
            continue
        for name in names:
            first, *rest = name.split(".")
            if first == "lz_otel":
                yield rest[0] if rest else ""


def wrong_edges(source: str, module: str) -> list[str]:
    """The parts that this module imports and may not."""
    part = module.split(".")[0]
    allowed = ALLOWED.get(part)
    if allowed is None:
        return []
    return sorted({i for i in imports(source, module) if i not in {part, *allowed}})


def test_imports_go_one_way() -> None:
    """A module imports the base, its own stage and earlier ones, and nothing else of the library."""
    wrong = {
        name: edges
        for name, path in modules().items()
        if (edges := wrong_edges(path.read_text("utf-8"), name))
    }
    assert {} == wrong


def test_a_wrong_edge_is_seen() -> None:
    """Each way to write an import of a later stage is found."""
    sources = (
        "import lz_otel._export.otlp",
        "from lz_otel._export import otlp",
        "from lz_otel import _export",
        "def f():\n    from lz_otel._export.otlp import X",
        "if TYPE_CHECKING:\n    from lz_otel._export.otlp import X",
    )
    assert [["_export"]] * len(sources) == [wrong_edges(s, "_extract.framing") for s in sources]
    assert [] == wrong_edges(
        "from lz_otel._capture import calls\nfrom lz_otel.model import Facts", "_extract.framing"
    )


def test_every_part_is_known() -> None:
    """A new part of the package has to be given its place in this test."""
    free = {
        "",
        "testing",
        "demo",
        "cli",
        "_commands",
        "__main__",
    }  # public faces and tools: they may use what is public
    assert set() == {m.split(".")[0] for m in modules()} - set(ALLOWED) - free


def test_modules_are_short() -> None:
    """No module is longer than can be read at one go; data goes into data files."""
    lengths = {name: len(path.read_text("utf-8").splitlines()) for name, path in modules().items()}
    assert {} == {name: n for name, n in lengths.items() if n > LONGEST and name not in LONGER}


def test_exceptions_from_the_length_are_needed() -> None:
    """A module that became short again loses its exception."""
    lengths = {name: len(path.read_text("utf-8").splitlines()) for name, path in modules().items()}
    assert {name for name in LONGER if lengths[name] > LONGEST} == set(LONGER)


def test_import_loads_nothing_optional() -> None:
    """``import lz_otel`` loads no HTTP client, SDK, exporter or tool: a host pays for what it uses."""
    code = f"import sys, lz_otel; print([m for m in {HEAVY!r} if m in sys.modules])"
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=PACKAGE.parent
    )
    assert "[]\n" == done.stdout


def test_every_module_defers_annotations() -> None:
    """Annotations are never evaluated at run time, so that types cost no imports."""
    lacking = [
        name
        for name, path in modules().items()
        if (text := path.read_text("utf-8")).strip()
        and ast.parse(text).body[1:]
        and "from __future__ import annotations" not in text
    ]
    assert [] == lacking
