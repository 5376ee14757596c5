"""The commands of ``lz-otel``. Imported by `lz_otel.cli` once typer is known to be there."""

from __future__ import annotations

import sys
from functools import partial
from pathlib import Path  # typer reads the annotations
from typing import Annotated

import typer

from lz_otel.lab.history._incidents import INCIDENTS

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


@app.command()
def prices(
    model: Annotated[list[str] | None, typer.Argument(help="Names of models.", show_default=False)] = None,
    provider: Annotated[str, typer.Option(help="As in gen_ai.provider.name; default: any.")] = "",
    unknown: Annotated[
        bool, typer.Option("--unknown", help="List the models that are known to exist and have no price.")
    ] = False,
) -> None:
    """Tell what the price table knows of models, your own file (LZ_OTEL_PRICES) included."""
    from lz_otel.cli import _prices

    raise typer.Exit(_prices.run(model or [], provider, unknown=unknown))


_history = partial(typer.Option, rich_help_panel="With --history")


@app.command()
def simulate(
    history: Annotated[
        bool, typer.Option("--history", help="Make hours of series instead of serving.")
    ] = False,
    port: Annotated[int, typer.Option(min=0, max=65535, help="Port to listen on; 0: any free.")] = 8000,
    host: Annotated[str, typer.Option(help="Address to listen on.")] = "127.0.0.1",
    scenario: Annotated[str, typer.Option(help="Scenario, or a path to one.")] = "healthy",
    seed: Annotated[
        int | None, typer.Option(help="Seed of all draws.", show_default="0, with --history 1")
    ] = None,
    hours: Annotated[float, _history(help="Length.")] = 6.0,
    step: Annotated[int, _history(help="Seconds between samples.")] = 30,
    end: Annotated[float, _history(help="Epoch seconds of the last sample.", show_default="now")] = 0.0,
    instances: Annotated[int, _history(help="Processes per job.")] = 2,
    models: Annotated[int, _history(help="Models per route.")] = 2,
    routes: Annotated[int, _history(help="Routes.")] = 4,
    rate: Annotated[float, _history(help="Calls per second and instance.")] = 2.0,
    incident: Annotated[
        list[str] | None,
        _history(
            metavar="NAME[@BEGIN+LENGTH]",
            help=f"Stage one, at so many seconds from the start; repeatable: {', '.join(INCIDENTS)}.",
        ),
    ] = None,
    all_incidents: Annotated[
        bool, _history("--all-incidents", help="Stage all of them, one after the other.")
    ] = False,
    out: Annotated[
        Path | None, _history(help="Write OpenMetrics text to this file.", show_default="standard output")
    ] = None,
    push: Annotated[str, _history(metavar="URL", help="Send to a Prometheus by remote write instead.")] = "",
) -> None:
    """Serve the simulated APIs, so that any client can be pointed at them; or make up a history of series."""
    if history:
        from lz_otel.lab.history import history as made_up

        plan = made_up.Plan(
            hours=hours,
            step=step,
            end=end,
            instances=instances,
            models=models,
            routes=routes,
            seed=1 if seed is None else seed,
            incidents=made_up.incidents(incident or (), hours, every=all_incidents),
            rate=rate,
        )
        raise typer.Exit(made_up.run(plan, push_to=push, out=out))
    from lz_otel.lab.simulator import simulate as serve

    serve(
        port,
        host,
        scenario,
        seed=seed or 0,
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
