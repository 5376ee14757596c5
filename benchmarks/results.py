"""What was measured, and the page that says it."""

from __future__ import annotations

import os
import platform
import statistics
import subprocess
import sys
from dataclasses import dataclass, field
from datetime import UTC, datetime
from importlib import metadata
from pathlib import Path
from typing import TYPE_CHECKING

import lz_otel
from benchmarks.cases import CASES
from benchmarks.variants import LABELS

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from benchmarks.budgets import Budget

PACKAGES = (
    "anthropic",
    "openai",
    "httpx",
    "httpx2",
    "opentelemetry-sdk",
    "opentelemetry-instrumentation-httpx",
    "prometheus-client",
    "msgspec",
)

_HOW = (
    "CPU time of the client's process, threads of lz-otel included; the server is a process of its own. "
    "Within one process the variants take turns in random order, {rounds} rounds of blocks of calls "
    "(fewer where said). A block pays for all that its calls had put off, not for scrapes and pushes: those "
    "have rows of their own below. "
    "A variant that did not count exactly the calls that were made ends the run. "
    "A ratio is that to the bare client in the same round: the median of the rounds, and the quartiles in "
    "brackets."
)
_FIGURES = (
    ("import", "import_ms", "CPU of `import lz_otel` beyond its dependencies' own import", ".1f", "ms"),
    ("import", "instrument_ms", "CPU of `instrument()` beyond its dependencies' own import", ".1f", "ms"),
    ("import_all", "import_ms", "CPU of `import lz_otel` in a bare interpreter", ".1f", "ms"),
    (
        "import_all",
        "instrument_ms",
        "CPU of `instrument()` after that, with the imports it makes",
        ".1f",
        "ms",
    ),
    ("memory", "mb", "resident memory after 500 calls beyond the dependencies'", ".1f", "MB"),
    ("memory", "resident_mb", "resident memory after 500 calls, the whole process", ".1f", "MB"),
    ("growth", "calls", "calls with different prompts, for the two rows below", ",.0f", ""),
    ("growth", "mb", "growth of resident memory from a tenth of them on", ".1f", "MB"),
    ("growth", "resident_mb", "resident memory after them, the whole process", ".1f", "MB"),
    ("scrape", "series", "series of the scrape below", ",.0f", ""),
    ("scrape", "bytes", "its bytes", ",.0f", ""),
    ("scrape", "cpu_ms", "its CPU, median", ".1f", "ms"),
    ("scrape", "wall_ms", "its time, median", ".1f", "ms"),
    ("push", "series", "series of one push by OTLP", ",.0f", ""),
    ("push", "cpu_ms", "its CPU, stopping included", ".1f", "ms"),
)


def _quartiles(values: Sequence[float]) -> tuple[float, float]:
    low, _, high = (
        statistics.quantiles(values, n=4, method="inclusive") if len(values) > 1 else (values[0],) * 3
    )
    return low, high


@dataclass
class Measured:
    """All figures of one run.

    Attributes:
        seconds: case, variant -> CPU seconds per call, one for each round.
        figures: name -> figures of `benchmarks.footprint`.
        instructions: case, variant -> instructions per call.
        load: of the machine when what depends on time had been measured.
    """

    seconds: dict[str, dict[str, list[float]]] = field(default_factory=dict)
    figures: dict[str, dict[str, float]] = field(default_factory=dict)
    instructions: dict[str, dict[str, float]] = field(default_factory=dict)
    load: tuple[float, float, float] = field(default_factory=os.getloadavg)

    def ratios(self, case: str, variant: str) -> list[float] | None:
        """Variant to bare, round by round: what both had to suffer from the machine cancels out."""
        rounds = self.seconds.get(case, {})
        if variant not in rounds or "bare" not in rounds:
            return None
        return [one / other for one, other in zip(rounds[variant], rounds["bare"], strict=True)]

    def ratio(self, case: str, variant: str) -> float | None:
        """Median of `ratios`."""
        ratios = self.ratios(case, variant)
        return None if ratios is None else statistics.median(ratios)

    def added(self, case: str, variant: str) -> float | None:
        """Median of the CPU seconds that the variant adds to a bare call."""
        rounds = self.seconds.get(case, {})
        if variant not in rounds or "bare" not in rounds:
            return None
        return statistics.median(a - b for a, b in zip(rounds[variant], rounds["bare"], strict=True))


def _table(header: Sequence[str], rows: Iterable[Sequence[str]]) -> list[str]:
    return [
        "| " + " | ".join(header) + " |",
        "|" + "---|" * len(header),
        *("| " + " | ".join(r) + " |" for r in rows),
        "",
    ]


def _commit() -> str:
    """Of the checkout, where there is git and one; with a plus when something in it is not committed."""
    try:
        git = ("git", "-C", str(Path(__file__).parent))
        head = subprocess.run(
            [*git, "rev-parse", "--short", "HEAD"], capture_output=True, text=True, check=True
        )
        changed = subprocess.run([*git, "status", "--porcelain"], capture_output=True, text=True, check=True)
    except (OSError, subprocess.CalledProcessError):
        return "unknown commit"
    return f"commit {head.stdout.strip()}{'+' if changed.stdout.strip() else ''}"


def _machine(load: Sequence[float]) -> list[str]:
    cpu = next(
        (
            line.partition(":")[2].strip()
            for line in Path("/proc/cpuinfo").read_text().splitlines()
            if line.startswith("model name")
        ),
        platform.processor() or "unknown",
    )
    memory = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") / 2**30
    versions = ", ".join(f"{name} {metadata.version(name)}" for name in PACKAGES)
    command = " ".join(["python -m benchmarks", *sys.argv[1:]])
    return [
        f"- {datetime.now(UTC):%Y-%m-%d}, lz-otel {lz_otel.__version__}, {_commit()}; `{command}`",
        f"- {cpu}, {os.cpu_count()} cores, {memory:.0f} GiB; {platform.system()} {platform.release()}",
        f"- {platform.python_implementation()} {platform.python_version()}; {versions}",
        "- load of the machine after what depends on time, 1, 5 and 15 minutes: "
        + ", ".join(f"{n:.1f}" for n in load),
        "",
    ]


def verdicts(measured: Measured, budgets: Iterable[Budget]) -> list[tuple[str, str, str, str]]:
    """Promise, limit, measured, and whether it was met."""
    rows = []
    for budget in budgets:
        value = budget.value(measured)
        digits = ".3f" if budget.unit in ("×", "times") else ".1f"
        shown = "" if value is None else f"{value:{digits}} {budget.unit}"
        met = "not measured" if value is None else "met" if value <= budget.limit else "**not met**"
        rows.append((budget.promise, f"≤ {budget.limit:g} {budget.unit}", shown, met))
    return rows


def _row(measured: Measured, name: str, variant: str) -> tuple[str, ...]:
    """Return what a variant of a case costs per call, and against the bare client."""
    values = measured.seconds[name][variant]
    low, high = _quartiles(values)
    ratios = measured.ratios(name, variant) or [1.0]
    added = measured.added(name, variant) or 0.0
    spread = "[{:.3f}, {:.3f}]".format(*_quartiles(ratios))
    against = (f"{statistics.median(ratios):.3f} {spread}", f"{added * 1e6:.0f}")
    counted = measured.instructions.get(name, {})
    instructions = ""
    if variant in counted and "bare" in counted:
        instructions = f"{counted[variant] / 1e3:.0f} ({counted[variant] / counted['bare']:.3f})"
    return (
        LABELS[variant],
        f"{statistics.median(values) * 1e6:.0f} [{low * 1e6:.0f}, {high * 1e6:.0f}]",
        *(("", "") if variant == "bare" else against),
        instructions,
    )


def page(measured: Measured, budgets: Iterable[Budget], rounds: int, whole: bool) -> str:
    """Return the text of RESULTS.md."""
    out = [
        "# What lz-otel costs",
        "",
        "Written by `make bench`; every figure is measured, none is by hand.",
        "",
    ]
    if not whole:
        out += ["**Not a full run: for development, not for judging.**", ""]
    out += [*_machine(measured.load), "## Budgets", ""]
    out += _table(("promise", "budget", "measured", ""), verdicts(measured, budgets))
    out += ["## CPU time per call", "", _HOW.format(rounds=rounds), ""]
    for name, rounds_of in measured.seconds.items():
        turns = len(rounds_of["bare"]) if "bare" in rounds_of else rounds
        out += [f"### {CASES[name].title}" + ("" if turns == rounds else f" ({turns} rounds)"), ""]
        rows = [_row(measured, name, variant) for variant in rounds_of]
        out += _table(("", "µs per call", "ratio", "added, µs", "thousand instructions (ratio)"), rows)
    if measured.instructions:
        out += [
            (
                "Instructions are those of the client's process, counted by valgrind (callgrind), "
                "the garbage collector off."
            ),
            "",
        ]
    out += ["## Start-up, memory, scrapes, pushes", ""]
    figures = (
        (what, f"{measured.figures[name][key]:{digits}} {unit}".rstrip())
        for name, key, what, digits, unit in _FIGURES
        if key in measured.figures.get(name, {})
    )
    out += _table(("", "value"), figures)
    return "\n".join(out).rstrip() + "\n"
