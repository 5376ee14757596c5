"""Known vulnerabilities: what was not asked is never called checked, and CI shows it as skipped."""

from __future__ import annotations

import shutil
import subprocess
import sys
from importlib.machinery import SourceFileLoader
from importlib.util import module_from_spec, spec_from_loader
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parent.parent
GOOD = {"name": "good", "version": "1", "vulns": []}
BAD = {"name": "bad", "version": "2", "vulns": [{"id": "X-1"}]}
UNKNOWN = {"name": "odd", "skip_reason": "not found: odd (3)"}
SILENT = "the database is not there"


@pytest.fixture
def audit(monkeypatch: pytest.MonkeyPatch) -> Any:
    """The script, without a database behind it."""
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    loader = SourceFileLoader("audit_script", str(ROOT / "scripts" / "audit"))
    spec = spec_from_loader("audit_script", loader)
    assert spec
    module = module_from_spec(spec)
    loader.exec_module(module)
    return module


@pytest.mark.parametrize(
    ("said", "status", "strict", "last"),
    [
        ([GOOD], 0, 0, "1 packages checked, none vulnerable"),
        ([GOOD, BAD], 1, 1, "VULNERABLE: 5 (above)"),
        ([GOOD, UNKNOWN], 0, 1, "1 packages checked, none vulnerable; NOT checked: 1 packages are not known"),
        ([BAD, UNKNOWN], 1, 1, "VULNERABLE: 5 (above); not checked: 1 packages are not known"),
        (
            [UNKNOWN],
            75,
            1,
            "NOTHING was checked: 1 packages are not known to the database (not found: odd (3))",
        ),
        (
            SILENT,
            75,
            1,
            (
                "NOTHING was checked: no answer for dev.txt, sdk-legacy.txt, apm.txt, clients.txt, audit.txt "
                f"({SILENT})"
            ),
        ),
        ([], 75, 1, "NOTHING was checked: the locks are empty"),
    ],
)
def test_status_and_last_line(
    audit: Any,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    said: Any,
    status: int,
    strict: int,
    last: str,
) -> None:
    """1: a vulnerability; 75: nothing could be asked;
    0: some were, and the last line says what holds for how many.
    """
    monkeypatch.setattr(audit, "answer", lambda lock: said)
    assert (status, strict) == (audit.main([]), audit.main(["--strict"]))
    assert capsys.readouterr().out.splitlines()[-1].startswith(last)


def test_one_lock_without_an_answer_is_named(
    audit: Any, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Where the database answers for some locks only, the last line names the others."""
    monkeypatch.setattr(audit, "answer", lambda lock: SILENT if lock.name == "audit.txt" else [GOOD])
    assert 0 == audit.main([])
    assert f"NOT checked: no answer for audit.txt ({SILENT})" in capsys.readouterr().out.splitlines()[-1]


def _program(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(0o755)


@pytest.mark.parametrize(
    ("ends", "said", "shown", "summary", "status"),
    [
        (0, "first checked", ": ok (", "", 0),
        (1, "first VULNERABLE", ": FAILED (", "FAILED: known", 1),
        (2, "first traceback", ": FAILED (", "FAILED: known", 1),
        (75, "first 'NOTHING was checked: why'", ": SKIPPED: NOTHING was checked: why", "SKIPPED: known", 0),
        (75, "", ": FAILED (", "FAILED: known", 1),
    ],
)
def test_ci_shows_a_step_that_checked_nothing_as_skipped(
    tmp_path: Path, ends: int, said: str, shown: str, summary: str, status: int
) -> None:
    """The script of CI, every program it starts replaced:
    75 with a reason is skipped, any other is a failure.
    """
    (tmp_path / ".ci").mkdir()
    shutil.copy(ROOT / ".ci" / "run", tmp_path / ".ci" / "run")
    for name in ("make", "git", "apt-get"):
        _program(tmp_path / "bin" / name, "exit 0")
    for name in ("fetch-peers", "venv"):
        _program(tmp_path / "scripts" / name, "exit 0")
    _program(tmp_path / ".venv-audit" / "bin" / "python", f"printf '%s\\n' {said}; exit {ends}")
    env = {"PATH": f"{tmp_path / 'bin'}:/usr/local/bin:/usr/bin:/bin"}
    done = subprocess.run(
        ["bash", str(tmp_path / ".ci" / "run")],
        capture_output=True,
        text=True,
        env=env,
        timeout=60,
        check=False,
    )
    assert status == done.returncode, done.stdout + done.stderr
    lines = done.stdout.splitlines()
    assert ("first" in lines) == bool(said)
    assert any(line.startswith("=== known vulnerabilities") and shown in line for line in lines), done.stdout
    assert [summary] * bool(summary) == [
        line[: len(summary)] for line in lines if line.startswith(("SKIPPED:", "FAILED:"))
    ]
