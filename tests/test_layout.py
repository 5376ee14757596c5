"""The tests mirror the package: ``lz_otel/_x/_y.py`` is tested in ``tests/x/test_y.py``."""

from __future__ import annotations

import ast
from fnmatch import fnmatch
from pathlib import Path, PurePosixPath

ROOT = Path(__file__).resolve().parent.parent

# Files without a test file of their name, by pattern: why they need none, or by which tests they are held.
# A file leaves the list with its first test file; a pattern that fits nothing any more fails.
ELSEWHERE: dict[str, tuple[str, ...]] = {
    "data only": ("_version.py", "model.py", "_ground/once.py", "_ground/unreadable.py"),
    "the name-giving part of the catalogue: tests/test_catalogue.py": ("_ground/vocabulary.py",),
    "while the host waits: tests/test_later.py tests/capture/test_attempt.py": ("_intake.py",),
    "what the application reports: tests/test_operation.py": ("_reports.py",),
    "one dialect each: tests/extract/test_other_providers.py": (
        "_extract/bedrock.py", "_extract/bedrock_invoke.py", "_extract/cohere.py", "_extract/gemini.py",
        "_extract/ollama.py", "_extract/openai_misc.py", "_extract/responses.py", "_extract/watsonx.py",
    ),
    "parts of every reader: tests/extract/test_anthropic.py tests/extract/test_openai.py": (
        "_extract/provider_error.py", "_extract/reader.py", "_extract/values.py",
    ),
    "which reader it is: tests/extract/test_identify.py": (
        "_extract/__init__.py", "_extract/hosts.py", "_extract/request.py",
    ),
    "how bytes become text: tests/capture/test_bodies.py tests/extract/test_framing.py": (
        "_extract/encodings.py", "_extract/reading.py",
    ),
    "the command line: tests/test_cli.py": ("cli/*.py",),
    "generated text: tests/bundle/test_alerts.py tests/bundle/test_promql.py tests/bundle/test_config.py": (
        "bundle/_*.py", "bundle/render.py",
    ),
    "boards, looked at by the same tests: tests/bundle/test_dashboards.py": ("bundle/dashboards/*.py",),
    "what a run prints: tests/lab/demo/test_run.py": ("lab/demo/*.py",),
    "what the series are: tests/lab/history/test_history.py": ("lab/history/*.py",),
    "what the server answers: tests/lab/simulator/test_server.py": ("lab/simulator/*.py",),
}  # fmt: skip


def mirror(module: PurePosixPath) -> PurePosixPath:
    """Return the test file of a module; that of a folder's ``__init__`` has the folder's name."""
    folders = [folder.lstrip("_") for folder in module.parent.parts]
    name = folders[-1] if module.stem == "__init__" and folders else module.stem.strip("_")
    return PurePosixPath(*folders, f"test_{name}.py")


def holds_code(path: Path) -> bool:
    """Whether a file defines a function or a class; an ``__init__`` that only imports does not."""
    tree = ast.parse(path.read_text("utf-8"))
    return any(isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)) for node in tree.body)


def untested() -> list[str]:
    """Return the files of the package (paths within it) whose test file is missing."""
    package = ROOT / "lz_otel"
    paths = sorted(path for path in package.rglob("*.py") if path.stem != "__init__" or holds_code(path))
    modules = [PurePosixPath(path.relative_to(package)) for path in paths]
    return [str(module) for module in modules if not (ROOT / "tests" / mirror(module)).is_file()]


def test_every_module_has_a_test_file_of_its_name() -> None:
    """A stranger who has found a file has found its tests, too."""
    known = [pattern for patterns in ELSEWHERE.values() for pattern in patterns]
    missing = [module for module in untested() if not any(fnmatch(module, pattern) for pattern in known)]
    assert [] == [f"lz_otel/{module} has no tests/{mirror(PurePosixPath(module))}" for module in missing]


def test_no_exception_is_stale() -> None:
    """Every pattern fits a file without a test file, and every test that a reason names is there."""
    missing = untested()
    for reason, patterns in ELSEWHERE.items():
        assert [] == [pattern for pattern in patterns if not any(fnmatch(name, pattern) for name in missing)]
        named = [word for word in reason.split() if word.startswith("tests/")]
        assert [] == [path for path in named if not (ROOT / path).exists()]


def test_the_name_of_a_test_file() -> None:
    """Underscores in front go, of folders and of files; an ``__init__`` takes the name of its folder."""
    names = {
        "model.py": "test_model.py",
        "_measure/rules.py": "measure/test_rules.py",
        "_export/_server.py": "export/test_server.py",
        "_judge/prompt_cache/__init__.py": "judge/prompt_cache/test_prompt_cache.py",
        "cli/__main__.py": "cli/test_main.py",
    }
    assert names == {module: str(mirror(PurePosixPath(module))) for module in names}
