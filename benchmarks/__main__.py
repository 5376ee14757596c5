"""`make bench`: runs every case and figure, prints the budgets, writes benchmarks/RESULTS.md.

    python -m benchmarks [--quick] [--case NAME …] [--rounds N] [--no-instructions] [--growth N]
                         [--no-figures] [--out FILE]

A full run writes the page of the project; any other one a page of its own that git ignores. Exits with 1 when
a budget was not met, or in a full run not measured (never with ``--quick``).
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

from benchmarks.arguments import whole, without_proxies, without_settings
from benchmarks.budgets import BUDGETS
from benchmarks.cases import CASES
from benchmarks.results import Measured, page, verdicts

if TYPE_CHECKING:
    from collections.abc import Iterator

HERE = Path(__file__).resolve().parent
PAGE, PART = HERE / "RESULTS.md", HERE / "RESULTS.part.md"
SILENT = {"PYTHONDONTWRITEBYTECODE": "1", "PYTHONWARNINGS": "ignore"}


def _environment() -> dict[str, str]:
    """Return the environment of a child: no setting of ours, and no proxy, since all is loopback."""
    environment = {**os.environ, **SILENT}
    without_settings(environment)
    without_proxies(environment)
    return environment


def _run(*arguments: str, prefix: tuple[str, ...] = ()) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [*prefix, sys.executable, "-m", *arguments],
        cwd=HERE.parent,
        env=_environment(),
        text=True,
        capture_output=True,
        check=False,
    )


def _json(*arguments: str) -> Any:
    done = _run(*arguments)
    if done.returncode:
        sys.exit(f"{' '.join(arguments)} failed:\n{done.stderr[-3000:]}")
    return json.loads(done.stdout.splitlines()[-1])


@contextmanager
def server() -> Iterator[str]:
    """The loopback API, in a process of its own; its port."""
    process = subprocess.Popen(
        [sys.executable, "-m", "benchmarks.server"],
        cwd=HERE.parent,
        env=_environment(),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        assert process.stdout is not None
        yield process.stdout.readline().strip()
    finally:
        process.communicate()


def instructions(case: str, port: str, variant: str) -> float | None:
    """Return instructions per call, counted by valgrind: a figure that a busy machine cannot move.

    ``None``: it is not to be had.
    """
    calls = max(2, CASES[case].calls // 4)
    prefix = ("valgrind", "--tool=callgrind", "--callgrind-out-file=/dev/null", "--instr-atstart=no")
    done = _run("benchmarks.count", case, port, str(calls), variant, prefix=prefix)
    found = re.search(r"Collected : (\d+)", done.stderr)
    if done.returncode or found is None or found[1] == "0":
        print(f"no instructions of {variant}: {done.stderr[-500:]}", flush=True)
        return None
    return int(found[1]) / calls


def figures(quick: bool, port: str) -> dict[str, dict[str, float]]:
    """What `benchmarks.footprint` tells at once, each the median of several processes."""

    def median(times: int, *arguments: str) -> dict[str, float]:
        runs = [_json("benchmarks.footprint", *arguments) for _ in range(times)]
        return {key: statistics.median(r[key] for r in runs) for key in runs[0]}

    # As an installer leaves it: a fresh checkout has no bytecode, and these processes write none
    compileall.compile_dir(HERE.parent / "lz_otel", quiet=2)
    times = 2 if quick else 5
    memory = median(times, "memory", "yes")["mb"]
    return {
        "import": median(times, "import", "beyond"),
        "import_all": median(times, "import", "all"),
        "memory": {"mb": memory - median(times, "memory", "no")["mb"], "resident_mb": memory},
        "scrape": median(1 if quick else 3, "scrape", "10000"),
        "push": median(1 if quick else 3, "push", f"http://127.0.0.1:{port}/sink", "10000"),
    }


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description="What lz-otel costs.")
    parser.add_argument("--quick", action="store_true", help="a few rounds, to see whether it works")
    parser.add_argument("--case", action="append", choices=CASES, help="only this case (may be repeated)")
    parser.add_argument("--rounds", type=whole(2), help="rounds of each case (31, quick: 5)")
    parser.add_argument(
        "--no-instructions", action="store_true", help="no instructions per call (valgrind, minutes)"
    )
    parser.add_argument(
        "--growth",
        type=whole(1000),
        help="calls over which growth of memory is measured (1,000,000, quick: 5,000)",
    )
    parser.add_argument(
        "--no-figures", action="store_true", help="no start-up, memory, scrape and push figures"
    )
    parser.add_argument(
        "--out", type=Path, help=f"where the page goes ({PAGE.name}; of anything but a full run: {PART.name})"
    )
    options = parser.parse_args()
    options.whole = not (options.quick or options.case or options.no_figures)
    options.out = options.out or (PAGE if options.whole else PART)
    options.rounds = options.rounds or (5 if options.quick else 31)
    options.growth = options.growth or (5_000 if options.quick else 1_000_000)
    if not options.out.absolute().parent.is_dir():
        parser.error(f"argument --out: {str(options.out)!r} is not allowed: its folder does not exist")
    return options


def measure(options: argparse.Namespace) -> Iterator[Measured]:
    """Run the cases and figures that are wanted, and yield what there is so far.

    Those that depend on time come first.
    """
    measured = Measured()
    cases = {name: ("bare", *CASES[name].variants) for name in options.case or CASES}
    with server() as port:
        for name, variants in cases.items():
            print(f"{CASES[name].title}: {', '.join(variants)}", flush=True)
            rounds = max(3, round(options.rounds * CASES[name].rounds))
            share = "0.25" if options.quick else "1"
            measured.seconds[name] = _json("benchmarks.worker", name, port, str(rounds), share, *variants)
        if not options.no_figures:
            print("start-up, memory, scrape, push", flush=True)
            measured.figures = figures(options.quick, port)
        # From here on other work on the machine does no harm: what follows does not depend on time
        measured.load = os.getloadavg()
        yield measured
        if not options.no_figures:
            print(f"memory over {options.growth:,} calls", flush=True)
            measured.figures["growth"] = _json("benchmarks.footprint", "growth", str(options.growth))
            yield measured
        if options.no_instructions or options.quick:
            return
        if not shutil.which("valgrind"):
            print("no instructions per call: valgrind is not installed", flush=True)
            return
        for name, variants in cases.items():
            print(f"instructions: {CASES[name].title}", flush=True)
            counted = {v: instructions(name, port, v) for v in variants}
            measured.instructions[name] = {v: n for v, n in counted.items() if n is not None}
            yield measured


def main() -> int:
    """Run what the command line asks for."""
    options = _options()
    measured = Measured()
    for measured in measure(
        options
    ):  # written each time: what was measured is not lost to what fails after it
        options.out.write_text(page(measured, BUDGETS, options.rounds, options.whole), encoding="utf-8")
    rows = verdicts(measured, BUDGETS)
    for promise, budget, shown, met in rows:
        print(f"{promise:55} {budget:12} {shown:14} {met.strip('*')}")
    print(f"written to {options.out}")
    bad = ("**not met**", "not measured") if options.whole else ("**not met**",)
    return 0 if options.quick else int(any(met in bad for *_, met in rows))


if __name__ == "__main__":
    sys.exit(main())
