"""A real Prometheus on a free port, loaded with generated history; recorded series and alerts included."""

from __future__ import annotations

import contextlib
import json
import urllib.error
import urllib.parse
import urllib.request
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lz_otel.bundle import alerts, recording
from lz_otel.bundle.config import Config, seconds
from lz_otel.lab.history import _replay, history
from tests.lab.history.replayed_alerts import Alert
from tests.lab.history.replayed_alerts import alerts as replay_alerts
from tests.peers import need, running

if TYPE_CHECKING:
    from collections.abc import Iterator


ROOT = Path(__file__).resolve().parents[2]


class Prometheus:
    """What tests ask a server."""

    def __init__(self, url: str) -> None:
        self.url = url

    def flush(self) -> None:
        """Make what was pushed visible; Prometheus does so at once."""

    def get(self, path: str, **form: Any) -> Any:
        """The ``data`` of an API answer; a refused query raises with the server's words."""
        body = urllib.parse.urlencode(form, doseq=True).encode() if form else None
        try:
            with urllib.request.urlopen(f"{self.url}/api/v1/{path}", data=body, timeout=120) as answer:
                return json.load(answer)["data"]
        except urllib.error.HTTPError as error:
            raise AssertionError(f"{form}: {error.read().decode(errors='replace')}") from error

    def instant(self, expr: str, at: float) -> list[dict[str, Any]]:
        """Series of an instant query."""
        data = self.get("query", query=expr, time=at)
        return [{"metric": {}, "value": data["result"]}] if data["resultType"] == "scalar" else data["result"]

    def range(self, expr: str, start: float, end: float, step: int) -> list[dict[str, Any]]:
        """Series of a range query."""
        return self.get("query_range", query=expr, start=start, end=end, step=step)["result"]

    def names(self) -> set[str]:
        """All metric names that the server has."""
        with urllib.request.urlopen(f"{self.url}/api/v1/label/__name__/values", timeout=60) as answer:
            return set(json.load(answer)["data"])


def free_port() -> int:
    """A port that is free now."""
    import socket

    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return int(s.getsockname()[1])


@contextlib.contextmanager
def prometheus(folder: Path, config: str = "", *flags: str) -> Iterator[Prometheus]:
    """Start a Prometheus that takes remote write; its data die with it."""
    binary = need("prometheus")
    (folder / "prometheus.yml").write_text(config or "storage: {tsdb: {out_of_order_time_window: 2d}}\n")
    port = free_port()
    command = [
        binary,
        f"--config.file={folder}/prometheus.yml",
        f"--storage.tsdb.path={folder}/data",
        f"--web.listen-address=127.0.0.1:{port}",
        "--web.enable-remote-write-receiver",
        "--storage.tsdb.retention.time=40d",
        "--log.level=warn",
        *flags,
    ]
    with running(command, folder / "log", f"http://127.0.0.1:{port}", "/-/ready") as url:
        yield Prometheus(url)


def load(server: Prometheus, plan: history.Plan, config: Config | None = None) -> tuple[int, int]:
    """Push a plan's history, the recorded series and ALERTS over it; returns its first and last second."""
    config = config or Config()
    made = history.generate(plan)
    history.push(made, server.url)
    server.flush()
    start, end = made.times[0], made.times[-1]
    step = int(seconds(config.time(config.time.rule_interval)))
    for rule in recording.rules(config):
        _replay.record(server.url, rule.series.name, str(rule.expr), dict(rule.labels), start, end, step)
        server.flush()
    todo = [
        Alert(
            alert.name,
            str(case.expr),
            seconds(config.time(case.wait)),
            seconds(config.time(case.keep or "0s")),
            (("severity", case.severity), *case.labels),
        )
        for alert in alerts.alerts(config)
        if alert.name != "LLMWatchdog"
        for case in alert.conditions
    ]
    replay_alerts(server.url, todo, start, end, step)
    return start, end


class VictoriaMetrics(Prometheus):
    """The second back end."""

    def flush(self) -> None:
        urllib.request.urlopen(f"{self.url}/internal/force_flush", timeout=60).close()


@contextlib.contextmanager
def victoria_metrics(folder: Path, *flags: str) -> Iterator[Prometheus]:
    """Start VictoriaMetrics, the second back end; it answers the same API."""
    port = free_port()
    command = [
        need("victoria-metrics"),
        f"-storageDataPath={folder}/vm",
        f"-httpListenAddr=127.0.0.1:{port}",
        "-retentionPeriod=1y",
        "-loggerLevel=ERROR",
        "-search.disableCache=true",
        "-search.latencyOffset=0s",
        *flags,
    ]
    with running(command, folder / "vm-log", f"http://127.0.0.1:{port}", "/health") as url:
        yield VictoriaMetrics(url)
