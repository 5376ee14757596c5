"""`make bench`: runs every case and figure, prints the budgets, writes benchmarks/RESULTS.md.

    python -m benchmarks [--quick] [--case NAME …] [--rounds N] [--no-instructions] [--growth N] [--no-figures] [--out FILE]

Exits with 1 when a budget was measured and not met (not with ``--quick``).
"""

from __future__ import annotations

import argparse
import compileall
import json
import os
import re
import shutil
import statistics
import subprocess
import sys
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from benchmarks.budgets import BUDGETS
from benchmarks.cases import CASES
from benchmarks.results import Measured, page, verdicts

if TYPE_CHECKING:
    from collections.abc import Iterator

HERE = Path(__file__).resolve().parent
SILENT = {"PYTHONDONTWRITEBYTECODE": "1", "PYTHONWARNINGS": "ignore"}


def _environment() -> dict[str, str]:
    """The environment without settings that would change what is measured."""
    ours = ("OTEL_", "LZ_OTEL_", "PROMETHEUS_", "ANTHROPIC_", "OPENAI_")
    return {k: v for k, v in os.environ.items() if not k.startswith(ours)} | SILENT


def _python(*arguments: str, prefix: tuple[str, ...] = ()) -> subprocess.CompletedProcess[str]:
    done = subprocess.run([*prefix, sys.executable, "-m", *arguments], cwd=HERE.parent, env=_environment(), text=True,
                          capture_output=True, check=False)  # fmt: skip
    if done.returncode:
        sys.exit(f"{' '.join(arguments)} failed:\n{done.stderr[-3000:]}")
    return done


def _json(*arguments: str) -> Any:
    return json.loads(_python(*arguments).stdout.splitlines()[-1])


@contextmanager
def server() -> Iterator[str]:
    """The loopback API, in a process of its own; its port."""
    process = subprocess.Popen([sys.executable, "-m", "benchmarks.server"], cwd=HERE.parent, env=_environment(),
                               stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)  # fmt: skip
    try:
        assert process.stdout is not None
        yield process.stdout.readline().strip()
    finally:
        process.communicate()


def instructions(case: str, port: str, variant: str) -> float:
    """Instructions per call, counted by valgrind: the figure that a busy machine cannot move."""
    calls = max(2, CASES[case].calls // 4)
    prefix = ("valgrind", "--tool=callgrind", "--callgrind-out-file=/dev/null", "--instr-atstart=no")
    done = _python("benchmarks.count", case, port, str(calls), variant, prefix=prefix)
    found = re.search(r"Collected : (\d+)", done.stderr)
    if found is None or found[1] == "0":
        sys.exit(f"valgrind counted nothing:\n{done.stderr[-2000:]}")
    return int(found[1]) / calls


def figures(quick: bool) -> dict[str, dict[str, float]]:
    """What `benchmarks.footprint` tells at once, each the median of several processes."""

    def median(times: int, *arguments: str) -> dict[str, float]:
        runs = [_json("benchmarks.footprint", *arguments) for _ in range(times)]
        return {key: statistics.median(r[key] for r in runs) for key in runs[0]}

    # As an installer leaves it: a fresh checkout has no bytecode, and these processes write none
    compileall.compile_dir(HERE.parent / "lz_otel", quiet=2)
    times = 2 if quick else 5
    memory = median(times, "memory", "yes")["mb"] - median(times, "memory", "no")["mb"]
    return {
        "import": median(times, "import"),
        "memory": {"mb": memory},
        "scrape": median(1 if quick else 3, "scrape", "10000"),
    }


def main() -> int:
    """Run what the command line asks for."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description="What lz-otel costs.")
    parser.add_argument("--quick", action="store_true", help="a few rounds, to see whether it works")
    parser.add_argument("--case", action="append", choices=CASES, help="only this case (may be repeated)")
    parser.add_argument("--rounds", type=int, default=0, help="rounds of each case")
    parser.add_argument("--no-instructions", action="store_true", help="no instructions per call (valgrind, minutes)")
    parser.add_argument("--growth", type=int, default=0, help="calls over which growth of memory is measured")
    parser.add_argument("--no-figures", action="store_true", help="no start-up, memory and scrape figures")
    parser.add_argument("--out", type=Path, default=HERE / "RESULTS.md", help="where the page goes")
    options = parser.parse_args()
    rounds = options.rounds or (5 if options.quick else 31)
    measured = Measured()
    cases = {name: ("bare", *CASES[name].variants) for name in options.case or CASES}
    share = "0.25" if options.quick else "1"
    with server() as port:
        for name, variants in cases.items():
            print(f"{CASES[name].title}: {', '.join(variants)}", flush=True)
            turns = max(3, round(rounds * CASES[name].rounds))
            measured.seconds[name] = _json("benchmarks.worker", name, port, str(turns), share, *variants)
    if not options.no_figures:
        print("start-up, memory, scrapes", flush=True)
        measured.figures = figures(options.quick)
    # From here on other work on the machine does no harm: neither figure depends on time
    if not options.no_figures:
        calls = options.growth or (5_000 if options.quick else 1_000_000)
        print(f"memory over {calls:,} calls", flush=True)
        measured.figures["growth"] = {"calls": calls, **_json("benchmarks.footprint", "growth", str(calls))}
    if not options.no_instructions and not options.quick:
        if shutil.which("valgrind"):
            with server() as port:
                for name, variants in cases.items():
                    print(f"instructions: {CASES[name].title}", flush=True)
                    measured.instructions[name] = {v: instructions(name, port, v) for v in variants}
        else:
            print("no instructions per call: valgrind is not installed", flush=True)
    options.out.write_text(page(measured, BUDGETS, rounds, options.quick), encoding="utf-8")
    rows = verdicts(measured, BUDGETS)
    for promise, budget, shown, met in rows:
        print(f"{promise:55} {budget:12} {shown:14} {met.strip('*')}")
    print(f"written to {options.out}")
    return 0 if options.quick else int(any(met == "**not met**" for *_, met in rows))


if __name__ == "__main__":
    sys.exit(main())
