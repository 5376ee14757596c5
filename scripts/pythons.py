#!/usr/bin/env python3
"""Run the tests on every Python, and with the oldest packages.

``scripts/pythons.py [--smoke] [--only NAME] [ARGUMENTS OF PYTEST]``. Each has an environment of its own, made
anew from the locks. A table at the end says how each went.
"""

from __future__ import annotations

import argparse
import re
import subprocess
import sys
import time
from dataclasses import dataclass, field
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
UV = Path(sys.executable).with_name("uv")
# Python, and what is put in over the lock: the oldest packages are tried on the oldest Python.
FLOOR = "floor"
ALL = {FLOOR: "3.11", "3.12": "3.12", "3.13": "3.13", "3.14": "3.14"}
# What depends most on the packages, and on the version: decoders and exporters; threads, forks and signals.
SMOKE = {
    FLOOR: (
        "tests/extract", "tests/measure", "tests/export/test_http_spans.py", "tests/export/test_otlp.py",
        "tests/export/test_prometheus.py", "tests/test_runtime.py",
    ),
    "3.14": (
        "tests/capture", "tests/ground", "tests/export/test_fork.py", "tests/test_backlog.py",
        "tests/test_runtime.py",
    ),
}  # fmt: skip


@dataclass
class Row:
    """How the tests went in one environment."""

    name: str
    python: str
    counts: dict[str, int] = field(default_factory=dict)
    seconds: float = 0.0
    ok: bool = False

    def __str__(self) -> str:
        packages = "oldest" if self.name == FLOOR else "locked"
        numbers = [f"{self.counts.get(what, 0):>7}" for what in ("passed", "failed", "skipped")]
        ends = "ok" if self.ok else "FAILED"
        return f"{self.python:<7} {packages:<9} {' '.join(numbers)} {self.seconds:>8.0f} s  {ends}"


def environment(name: str, version: str) -> Path:
    """Make an environment, and return its Python."""
    folder = ROOT / f".venv-{name}"
    found = subprocess.run(
        [ROOT / "scripts" / "fetch-python", version], check=True, stdout=subprocess.PIPE, text=True
    )
    python = folder / "bin" / "python"

    def uv(*arguments: str | Path) -> None:
        subprocess.run([UV, *arguments], check=True, cwd=ROOT)

    uv("venv", "--quiet", "--clear", "--no-python-downloads", "--python", found.stdout.strip(), folder)
    pip = ("pip", "install", "--quiet", "--link-mode", "copy", "--python", python, "--no-deps")
    uv(*pip, "--require-hashes", "-r", "requirements/dev.txt")
    if name == FLOOR:
        uv(*pip, "--require-hashes", "-r", "requirements/floor.txt")
    uv(*pip, "--no-build-isolation", "--offline", "--editable", ".")
    return python


def run(name: str, tests: tuple[str, ...], more: list[str]) -> Row:
    """Run the tests in one environment."""
    row = Row(name, ALL[name])
    began = time.monotonic()
    try:
        python = environment(name, row.python)
    except subprocess.CalledProcessError as error:
        print(f"lz-otel: no environment for {name}: {error}", flush=True)
        return row
    command = [python, "-m", "pytest", "-q", "-n", "2", "--dist", "loadfile", "-p", "no:cacheprovider"]
    last = ""
    with subprocess.Popen([*command, *tests, *more], cwd=ROOT, stdout=subprocess.PIPE, text=True) as process:
        for line in process.stdout or ():
            print(line, end="", flush=True)
            last = line.strip() or last
    row.counts = {what: int(number) for number, what in re.findall(r"(\d+) (passed|failed|skipped)", last)}
    row.seconds = time.monotonic() - began
    row.ok = process.returncode == 0
    return row


def main() -> int:
    """Run what was asked for."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--smoke", action="store_true", help="the oldest and the newest, a part of the tests")
    parser.add_argument("--only", choices=ALL, help="one environment")
    asked, more = parser.parse_known_args()
    names = (asked.only,) if asked.only else tuple(SMOKE if asked.smoke else ALL)
    rows = []
    for name in names:
        print(f"== Python {ALL[name]}{', the oldest packages' * (name == FLOOR)}", flush=True)
        rows.append(run(name, SMOKE.get(name, ()) if asked.smoke else (), more))
    print("\nPython  packages   passed  failed skipped     time")
    print(*rows, sep="\n")
    return 0 if all(row.ok for row in rows) else 1


if __name__ == "__main__":
    sys.exit(main())
