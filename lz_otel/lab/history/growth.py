"""Measure what rules and dashboards cost when a fleet grows, on a real Prometheus with made-up series.

    python -m lz_otel.lab.history.growth --instances 100

starts ``prometheus`` (found on PATH, or ``--binary``) in a temporary folder, pushes an hour of series of one
service with so many processes, evaluates every rule once and every query of every dashboard, and prints how
long each took.
"""

from __future__ import annotations

import contextlib
import json
import re
import shutil
import socket
import subprocess
import sys
import tempfile
import time
import urllib.request
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

import typer

from lz_otel.bundle import alerts, recording
from lz_otel.bundle.config import Config, seconds
from lz_otel.bundle.dashboards import dashboards
from lz_otel.errors import ConfigurationError
from lz_otel.lab.history import _replay, history
from lz_otel.mechanisms import FAMILIES

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

HOUR = 3600
# Grafana asks for about as many points as a panel has pixels.
POINTS = 800


class Timing(NamedTuple):
    """How long one thing took: ``kind`` (recording, alert or a dashboard), its name, seconds."""

    kind: str
    name: str
    seconds: float


def resolve(expr: str, span: int, step: int) -> str:
    """Return a dashboard's expression with its variables replaced: everything is chosen."""
    values = {
        "__rate_interval": f"{max(4 * 60, step)}s", "__range": f"{span}s", "__range_s": str(span),
        "slo": "0.995", "budget": "100", "before": "30m", "control": "control", "group": ".+",
        "metric": "summary_f1",
    }  # fmt: skip
    exact = expr.replace('mechanism="$mechanism"', f'mechanism="{FAMILIES[0]}"')
    exact = exact.replace("$mechanism", "|".join(FAMILIES))
    return re.sub(r"\$(\w+)", lambda m: values.get(m[1], ".*"), exact)


@contextlib.contextmanager
def _server(binary: str, folder: Path) -> Iterator[str]:
    (folder / "prometheus.yml").write_text("storage: {tsdb: {out_of_order_time_window: 2d}}\n")
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    places = (f"--config.file={folder}/prometheus.yml", f"--storage.tsdb.path={folder}/data")
    address = f"--web.listen-address=127.0.0.1:{port}"
    limits = ("--web.enable-remote-write-receiver", "--log.level=error", "--query.max-samples=200000000")
    process = subprocess.Popen([binary, *places, address, *limits])  # the operator's own program
    url = f"http://127.0.0.1:{port}"
    try:
        for _ in range(300):
            with contextlib.suppress(OSError), urllib.request.urlopen(f"{url}/-/ready", timeout=2):
                break
            if process.poll() is not None:
                raise OSError(f"{binary} ended with status {process.returncode}")
            time.sleep(0.1)
        yield url
    finally:
        process.terminate()
        process.wait(60)


def _timed(url: str, kind: str, name: str, expr: str, at: int) -> Timing:
    begin = time.perf_counter()
    _replay.ask(url, "query", query=expr, time=at)
    return Timing(kind, name, time.perf_counter() - begin)


def measure(
    url: str, plan: history.Plan, copies: int, config: Config, say: Callable[[str], object]
) -> list[Timing]:
    """Push, record, and time every rule and every query. Recorded series are extended to six hours."""
    made = history.generate(plan)
    count = history.push(made, url, copies=copies)
    start, end = made.times[0], made.times[-1]
    say(f"{count} series of {copies} processes, {made.samples * copies} samples pushed")
    out: list[Timing] = []
    for rule in recording.rules(config):
        name, expr, labels = rule.series.name, str(rule.expr), dict(rule.labels)
        out.append(_timed(url, "recording", name, expr, end))
        _replay.record(url, name, expr, labels, start, end, 60)
        for earlier in range(1, 6):
            recorded = _replay.query_range(url, _selector(name, labels), start, end, 60)
            _replay.copy(url, recorded, -earlier * HOUR, 60)
    (count_of_recorded,) = _replay.ask(url, "query", query='count({__name__=~".+:.+"})', time=end)
    say(f"{count_of_recorded['value'][1]} recorded series")
    for alert in alerts.alerts(config):
        out += [_timed(url, "alert", alert.name, str(case.expr), end) for case in alert.conditions]
    for text in dashboards(config).values():
        out += _dashboard(url, json.loads(text), start, end)
    return out


def _selector(name: str, labels: dict[str, str]) -> str:
    return name + ("{" + ",".join(f'{k}="{v}"' for k, v in labels.items()) + "}" if labels else "")


def _dashboard(url: str, board: dict[str, Any], start: int, end: int) -> Iterator[Timing]:
    """Yield the time of each panel: all its queries, one after the other."""
    overview = "Overview" in board["title"]
    span = 6 * HOUR if overview else end - start
    for panel in board["panels"]:
        for one in (panel.get("panels") or []) if panel["type"] == "row" else [panel]:
            step = int(max(15, span // POINTS, seconds(one.get("interval") or "0s")))
            begin = time.perf_counter()
            for target in one["targets"]:
                expr = resolve(target["expr"], span, step)
                if target.get("instant"):
                    _replay.ask(url, "query", query=expr, time=end)
                else:
                    _replay.ask(url, "query_range", query=expr, start=end - span, end=end, step=step)
            yield Timing(board["title"], one["title"], time.perf_counter() - begin)


def _report(timings: Sequence[Timing], say: Callable[[str], object]) -> None:
    kinds = dict.fromkeys(t.kind for t in timings)
    say(f"{'':28} {'number':>6} {'all, s':>8} {'slowest, s':>10}")
    for kind in kinds:
        mine = [t for t in timings if t.kind == kind]
        worst = max(mine, key=lambda t: t.seconds)
        total = sum(t.seconds for t in mine)
        say(f"{kind:28} {len(mine):6} {total:8.2f} {worst.seconds:10.3f}  {worst.name}")


def main(
    instances: Annotated[int, typer.Option(help="Processes.")] = 100,
    models: Annotated[int, typer.Option(help="Models per route.")] = 2,
    routes: Annotated[int, typer.Option(help="Routes.")] = 3,
    binary: Annotated[str, typer.Option(help="Program to start, on PATH.")] = "prometheus",
) -> None:
    """Measure what rules and dashboards cost; status 1 when a panel of the Overview needs a second."""
    program = shutil.which(binary)
    if program is None:
        sys.stderr.write(f"lz-otel: {binary} is not on PATH; name it with --binary\n")
        raise typer.Exit(2)
    plan = history.Plan(hours=1.0, step=60, instances=1, models=models, routes=routes, jobs=("families",))
    try:
        with tempfile.TemporaryDirectory() as folder, _server(program, Path(folder)) as url:
            timings = measure(url, plan, instances, Config(), _say)
    except (ConfigurationError, OSError) as error:
        sys.stderr.write(f"lz-otel: {error}\n")
        raise typer.Exit(2) from None
    _report(timings, _say)
    raise typer.Exit(int(max(t.seconds for t in timings if "Overview" in t.kind) >= 1.0))


def _say(line: str) -> None:
    sys.stdout.write(line + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    typer.run(main)
