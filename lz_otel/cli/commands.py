"""The commands of ``lz-otel``. Imported by `lz_otel.cli` once typer is known to be there."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

__all__ = ["app"]

app = typer.Typer(
    name="lz-otel",
    help="How often calls to LLM APIs take a fast path, how fast, why not, and what it saves.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)


@app.command()
def demo(
    seconds: Annotated[float, typer.Option(min=0.1, help="Length of the run.")] = 30.0,
    forever: Annotated[bool, typer.Option("--forever", help="Run until interrupted.")] = False,
    scenario: Annotated[str, typer.Option(help="Scenario of the simulator, or a path to one.")] = "healthy",
    rate: Annotated[float, typer.Option(min=0.0, help="Operations per second; 0: the scenario's.")] = 0.0,
    seed: Annotated[int, typer.Option(help="Seed of traffic and simulator.")] = 0,
    host: Annotated[str, typer.Option(help="Address of /metrics.")] = "localhost",
    port: Annotated[int, typer.Option(min=0, max=65535, help="Port of /metrics; 0: any free.")] = 9464,
) -> None:
    """Drive an official SDK against a loopback simulator, observed; ends with the truth."""
    from lz_otel.lab.demo import run

    raise typer.Exit(
        run(
            seconds=None if forever else seconds,
            scenario=scenario,
            rate=rate,
            seed=seed,
            host=host,
            port=port,
        )
    )


@app.command()
def truth(
    case: Annotated[
        list[str] | None, typer.Option(help="Case to run, may be given again; default: all.")
    ] = None,
    calls: Annotated[int, typer.Option(min=50, help="Operations of the application per case.")] = 2000,
    seed: Annotated[int, typer.Option(help="Seed of traffic and simulator.")] = 0,
    soak: Annotated[
        bool, typer.Option("--soak", help="Many distinct prompts instead: does memory grow?")
    ] = False,
    prompts: Annotated[int, typer.Option(min=1000, help="With --soak: how many distinct prompts.")] = 200_000,
) -> None:
    """Compare every verdict and figure with the simulator's truth, call by call, for all scenarios."""
    if soak:
        from lz_otel.lab.demo import soak as memory

        raise typer.Exit(memory.run(prompts))
    from lz_otel.lab.demo import report

    raise typer.Exit(report.run(wanted=case or (), calls=calls, seed=seed))


@app.command(context_settings={"allow_extra_args": True, "ignore_unknown_options": True})
def simulate(
    context: typer.Context,
    history: Annotated[
        bool, typer.Option("--history", help="Make hours of series instead of serving.")
    ] = False,
    port: Annotated[int, typer.Option(min=0, max=65535, help="Port to listen on; 0: any free.")] = 8000,
    host: Annotated[str, typer.Option(help="Address to listen on.")] = "127.0.0.1",
    scenario: Annotated[str, typer.Option(help="Scenario, or a path to one.")] = "healthy",
    seed: Annotated[int, typer.Option(help="Seed of all draws.")] = 0,
) -> None:
    """Serve the simulated APIs, so that any client can be pointed at them (or: --history --help)."""
    if history:
        from lz_otel.lab.history.history import main as make_history

        raise typer.Exit(make_history(context.args))
    if context.args:
        raise typer.BadParameter(f"unknown arguments: {' '.join(context.args)}")
    from lz_otel.lab.simulator import simulate as serve

    serve(
        port,
        host,
        scenario,
        seed=seed,
        on_start=lambda url: sys.stdout.write(f"simulating {scenario!r} on {url}\n") and sys.stdout.flush(),
    )


@app.command()
def bundle(
    out: Annotated[Path, typer.Option(help="Folder to write to.")] = Path(),
    config: Annotated[Path | None, typer.Option(help="TOML file; see alerts/README.md for its keys.")] = None,
    form: Annotated[
        str, typer.Option("--format", help="prometheus, prometheus-operator or grafana-provisioning.")
    ] = "prometheus",
    write: Annotated[bool, typer.Option("--write", help="Write the files (default).")] = False,
    check: Annotated[
        bool, typer.Option("--check", help="Write nothing; list stale files and return 1.")
    ] = False,
) -> None:
    """Write dashboards, recording rules, alerts and runbooks, in the form that a set-up loads."""
    if write and check:
        raise typer.BadParameter("--write and --check exclude each other")
    from lz_otel.bundle.render import run

    raise typer.Exit(run(out, config, form, check=check))


@app.command()
def version() -> None:
    """Say which version this is."""
    from lz_otel._version import __version__

    sys.stdout.write(f"lz-otel {__version__}\n")
