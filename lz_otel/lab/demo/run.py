"""The run of the demo: simulator, application, live table, and the truth at the end."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import signal
from time import monotonic
from typing import TYPE_CHECKING, Any

import lz_otel
from lz_otel._runtime import current
from lz_otel.catalogue import MECHANISMS
from lz_otel.errors import LzOtelError, MissingDependencyError

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from rich.console import Console

    from lz_otel._measure.store import Store
    from lz_otel._runtime import _Runtime
    from lz_otel.lab.demo.checks import Check
    from lz_otel.lab.demo.driver import Driver
    from lz_otel.lab.simulator.scenario import Scenario

_REDRAW = 0.5  # seconds


def run(
    *,
    seconds: float | None = 30.0,
    scenario: str = "healthy",
    rate: float = 0.0,
    seed: int = 0,
    host: str = "localhost",
    port: int = 9464,
) -> int:
    """Run the demo.

    Args:
        seconds: length; ``None``: until interrupted.
        scenario: name of a scenario of the simulator, or a path to one.
        rate: operations per second; 0 for that of the scenario.
        seed: seed of the traffic and of the simulator's draws.
        host: address of ``/metrics``.
        port: port of ``/metrics``.

    Returns:
        0, or 1 when the metrics and the simulator's truth differ.

    Raises:
        ConfigurationError: the scenario cannot be used.
        MissingDependencyError: the extra ``demo`` is not installed.
    """
    console = console_of("the demo", 100)
    from lz_otel.lab.demo.checks import compare
    from lz_otel.lab.demo.driver import Driver
    from lz_otel.lab.demo.view import dashboard, truth_table
    from lz_otel.lab.simulator import load, running

    chosen = load(scenario)
    # The demo shows its own notes; a warning (a taken port, say) is shown once, above the table.
    logging.basicConfig(level=logging.WARNING, format="%(message)s")
    with running(chosen, process=True, seed=seed) as simulator:
        # All are on from the start: one that wakes later has no verdict of earlier calls, and the truth has
        status = lz_otel.instrument(prometheus_host=host, prometheus_port=port, mechanisms=MECHANISMS)
        store = instrumented().store
        try:
            driver = Driver(simulator.url, rate_of(chosen, rate))
            console.print(f"[bold]lz-otel demo[/]  scenario [bold]{chosen.name}[/]: {chosen.description}")
            if status.prometheus_port is not None:
                console.print(f"metrics: http://{host}:{status.prometheus_port}/metrics", highlight=False)
            with contextlib.suppress(KeyboardInterrupt, asyncio.CancelledError):
                asyncio.run(_drive(console, store, driver, chosen, seed, seconds))
            checks: list[Check] = compare(store, simulator.truth(), driver.given_up, driver.stood_in)
            console.print(dashboard(store))
            console.print(truth_table(checks))
        finally:
            lz_otel.uninstrument()
    return _conclusion(console, checks)


def console_of(wanted_by: str, width: int, least: int = 0) -> Console:
    """Return a console of this width, or of the terminal's, where there is one that is wide enough."""
    try:
        from rich.console import Console
    except ImportError as error:
        raise MissingDependencyError(error.name or "rich", "demo", wanted_by) from None
    console = Console()
    # A file or a pipe has no width of its own
    return console if console.is_terminal and console.width >= least else Console(width=width)


def _conclusion(console: Console, checks: list[Check]) -> int:
    """Print whether all figures equal the truth; return the exit status."""
    different = [check.name for check in checks if not check.equal]
    if different:
        console.print(f"[red]The metrics differ from the truth:[/] {', '.join(different)}")
        return 1
    console.print(f"All {len(checks)} figures equal the simulator's truth.")
    return 0


def instrumented() -> _Runtime:
    """Return the instrumentation in force, whose store, clocks and memories the demo reads.

    Raises:
        LzOtelError: there is none, as with ``OTEL_SDK_DISABLED``.
    """
    runtime = current()
    if runtime is None:
        raise LzOtelError("lz_otel is not instrumenting this process")
    return runtime


def rate_of(scenario: Scenario, wanted: float) -> float:
    """Return operations per second: what is wanted, or for 0 the scenario's rate."""
    return wanted or scenario.traffic.rate


async def _drive(
    console: Console, store: Store, driver: Driver, scenario: Scenario, seed: int, seconds: float | None
) -> None:
    from lz_otel.lab.simulator.traffic import plan

    with contextlib.suppress(NotImplementedError, RuntimeError):  # elsewhere than on Unix, or in a thread
        asyncio.get_running_loop().add_signal_handler(
            signal.SIGINT, _interrupt, driver, asyncio.current_task()
        )
    try:
        async with _shown(console, store, seconds):
            await driver.run(plan(scenario, seed), seconds)
    finally:
        await driver.close()


def _interrupt(driver: Driver, task: asyncio.Task[Any] | None) -> None:
    """Ctrl-C: let the calls in progress end; a second one cancels them."""
    if driver.stopped and task is not None:
        task.cancel()
    driver.stop()


@contextlib.asynccontextmanager
async def _shown(console: Console, store: Store, seconds: float | None) -> AsyncIterator[None]:
    """Show the live table, where there is a terminal."""
    if not console.is_terminal:
        yield
        return
    from rich.live import Live

    from lz_otel.lab.demo.view import dashboard, progress

    bar = progress(seconds)
    start = monotonic()

    with Live(console=console, auto_refresh=False, transient=True) as live:

        async def redraw() -> None:
            while True:
                done = monotonic() - start
                bar.update(bar.task_ids[0], completed=min(done, seconds) if seconds is not None else done)
                live.update(dashboard(store, bar), refresh=True)
                await asyncio.sleep(_REDRAW)

        task = asyncio.create_task(redraw())
        try:
            yield
        finally:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)
