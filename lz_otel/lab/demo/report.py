"""`lz-otel truth`: all cases, one table, and what differs."""

from __future__ import annotations

import logging
from time import perf_counter
from typing import TYPE_CHECKING

from lz_otel import catalogue as c
from lz_otel.lab.demo.run import console_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rich.console import Console
    from rich.table import Table

    from lz_otel.lab.demo.truth import CaseResult

_WIDTH = 140
_SHOWN = 10  # differences of one case


def run(*, wanted: Sequence[str] = (), calls: int = 2000, seed: int = 0) -> int:
    """Run the cases and print the table.

    Args:
        wanted: names of cases; none for all of them.
        calls: operations of the application per case.
        seed: seed of traffic and simulator.

    Returns:
        0, or 1 when anything differs.

    Raises:
        ConfigurationError: there is no such case.
        MissingDependencyError: the extra ``demo`` is not installed.
    """
    console = console_of("the comparison with the truth", _WIDTH, _WIDTH)
    from lz_otel.lab.demo.truth import chosen, run_case

    logging.basicConfig(level=logging.ERROR, format="%(message)s")
    started = perf_counter()
    results: list[CaseResult] = []
    for case in chosen(list(wanted)):
        with console.status(f"{case.name} …"):
            result = run_case(case, calls, seed)
        results.append(result)
        line = f"{case.name:26} {_verdict(result)}  {result.calls:,} calls in {result.seconds:.0f} s"
        console.print(line, highlight=False)
        _differences(console, result)
    console.print(table(results))
    bad = [result.case for result in results if not result.good]
    total = sum(result.calls for result in results)
    verdicts = sum(sum(states.values()) for result in results for states in result.mechanisms.values())
    console.print(
        f"{total:,} calls, {verdicts:,} verdicts, {sum(r.figures for r in results):,} figures of calls and "
        f"{sum(len(r.checks) for r in results)} of runs compared in {perf_counter() - started:.0f} s.",
        highlight=False,
    )
    if bad:
        console.print(f"[red]Different:[/] {', '.join(bad)}")
        return 1
    console.print("All equal the simulator's truth.")
    return 0


def _differences(console: Console, result: CaseResult) -> None:
    from rich.markup import escape

    for difference in result.differences[:_SHOWN]:
        console.print(f"[red]{result.case}[/]: ", escape(str(difference)), sep="", highlight=False)
    if len(result.differences) > _SHOWN:
        console.print(f"[red]{result.case}[/]: and {len(result.differences) - _SHOWN} more differences")


def _verdict(result: CaseResult) -> str:
    return "[green]equal[/]" if result.good else "[red]DIFFERS[/]"


def _share(equal: int, all_: int) -> str:
    if not all_:
        return "–"
    return f"{equal:,}" if equal == all_ else f"[red]{equal:,} of {all_:,}[/]"


def table(results: Sequence[CaseResult]) -> Table:
    """Case × mechanism: calls with a verdict, all of them equal; or how many of how many are."""
    from rich.table import Table

    title = (
        "Calls whose verdict and reason equal the truth (n of m: the others differ; +n?: reason left open)"
    )
    out = Table(title=title, title_justify="left")
    out.add_column("case", no_wrap=True)
    for name in ("calls", *(m.replace("_", " ") for m in c.MECHANISMS), "figures of calls", "of the run", ""):
        out.add_column(name, justify="right")
    for result in results:
        cells = []
        for mechanism in c.MECHANISMS:
            states = result.mechanisms[mechanism]
            unknown = states["unknown"]
            known = states.total() - unknown
            cells.append(_share(states["equal"], known) + (f" +{unknown}?" if unknown else ""))
        good = sum(check.equal for check in result.checks)
        out.add_row(
            result.case,
            f"{result.calls:,}",
            *cells,
            _share(result.equal, result.figures),
            _share(good, len(result.checks)),
            _verdict(result),
        )
    return out
