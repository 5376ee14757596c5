"""The project's own configuration on real servers: Prometheus, Alertmanager and the sink, all on loopback."""

from __future__ import annotations

import collections
import contextlib
import importlib.util
import json
import shutil
import subprocess
import sys
import threading
import time
import urllib.request
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import yaml

from tests.bundle.prom import free_port
from tests.peers import need, running

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from lz_otel.bundle.config import Config

ROOT = Path(__file__).resolve().parents[2]
# Alertmanager's waiting times here, in place of those of minutes and hours.
SHORT = {"group_wait": "1s", "group_interval": "2s"}


class Service(NamedTuple):
    """One process of the fleet, and the ports of its ``/metrics`` and its simulator."""

    job: str
    metrics: int
    simulator: int


@contextlib.contextmanager
def fleet(jobs: list[dict[str, Any]]) -> Iterator[tuple[list[Service], Callable[[], None]]]:
    """Start the services; yields them, and what makes them begin."""
    command = [sys.executable, str(Path(__file__).with_name("fleet.py")), json.dumps(jobs)]
    process = subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd=ROOT, env={**_environment()}
    )
    assert process.stdin is not None
    assert process.stdout is not None
    try:
        lines = [process.stdout.readline() for _ in jobs]
        found = [json.loads(line) for line in lines]
        assert [one["job"] for one in found if "failed" in one] == []

        def begin() -> None:
            process.stdin.write("go\n")  # type: ignore[union-attr]  # it is a pipe
            process.stdin.flush()  # type: ignore[union-attr]  # it is a pipe

        yield [Service(**one) for one in found], begin
    finally:
        process.stdin.close()
        process.wait(30)
        process.stdout.close()


def _environment() -> dict[str, str]:
    import os

    kept = {k: v for k, v in os.environ.items() if not k.startswith(("OTEL_", "LZ_OTEL_", "PROMETHEUS_"))}
    return {**kept, "PYTHONPATH": str(ROOT)}


class Notification(NamedTuple):
    """What came to the sink, and when."""

    at: float
    body: dict[str, Any]


class Sink:
    """The stack's own sink, which besides keeps the time; ``/slack`` stands for a chat."""

    def __init__(self) -> None:
        spec = importlib.util.spec_from_file_location("lz_otel_stack_sink", ROOT / "stack/sink.py")
        assert spec is not None
        assert spec.loader is not None
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        module.say = lambda _line: None
        self.chats: list[dict[str, Any]] = []
        self.notifications: list[Notification] = []
        mine = self

        class Handler(module.Handler):  # type: ignore[misc, name-defined]  # known at run time only
            def do_POST(self) -> None:
                if self.path == "/slack":
                    body = json.loads(self.rfile.read(int(self.headers["content-length"])))
                    mine.chats.append(body)
                    self._answer(200, "text/plain", "ok")
                else:
                    super().do_POST()

        class Stamped(collections.deque[dict[str, Any]]):
            def appendleft(self, body: dict[str, Any]) -> None:
                mine.notifications.append(Notification(time.time(), body))
                super().appendleft(body)

        self.server = module.Sink(("127.0.0.1", 0))
        self.server.RequestHandlerClass = Handler
        self.server.received = Stamped(maxlen=module.KEPT)
        self.url = f"http://127.0.0.1:{self.server.server_address[1]}"

    @contextlib.contextmanager
    def serving(self) -> Iterator[Sink]:
        """Serve in a thread."""
        thread = threading.Thread(target=self.server.serve_forever, args=(0.1,), daemon=True)
        thread.start()
        try:
            yield self
        finally:
            self.server.shutdown()
            self.server.server_close()
            thread.join(10)

    @property
    def checked_in(self) -> int:
        """How often the watchdog was heard of."""
        return int(self.server.checked_in)


def alertmanager_config(folder: Path, sink: Sink) -> Path:
    """The committed file with its template:
    waiting times shortened, secrets and chat on the sink, no mail, no pager.

    Routes, inhibitions, receivers' names and webhooks stay as they are.
    """
    shutil.copytree(ROOT / "alerts/templates", folder / "templates")
    secrets = folder / "secrets"
    secrets.mkdir()
    for name, path in (("webhook_url", "/"), ("watchdog_url", "/watchdog"), ("slack_url", "/slack")):
        (secrets / name).write_text(sink.url + path)
    data = yaml.safe_load((ROOT / "alerts/alertmanager.yml").read_text())
    for receiver in data["receivers"]:
        for kind in ("email_configs", "pagerduty_configs"):  # these would leave this machine
            receiver.pop(kind, None)
    routes = [data["route"], *data["route"]["routes"]]
    for route in routes:
        route.update({key: value for key, value in SHORT.items() if key in route})
    path = folder / "alertmanager.yml"
    path.write_text(yaml.safe_dump(data, sort_keys=False))
    return path


def prometheus_config(folder: Path, services: list[Service], alertmanager: int, config: Config) -> Path:
    """stack/prometheus.yml with its two kinds of scrape for each service,
    and the rules of a configuration.
    """
    from lz_otel.bundle.render import files

    for path, text in files(config, with_dashboards=False).items():
        if path.startswith("alerts/rules/"):
            target = folder / "rules" / Path(path).name
            target.parent.mkdir(exist_ok=True)
            target.write_text(text)
    shutil.copytree(ROOT / "stack/secrets", folder / "secrets")
    data = yaml.safe_load((ROOT / "stack/prometheus.yml").read_text())
    data["global"] = {"scrape_interval": "2s", "scrape_timeout": "2s", "evaluation_interval": "2s"}
    data["alerting"]["alertmanagers"][0]["static_configs"][0]["targets"] = [f"127.0.0.1:{alertmanager}"]
    demo, vendor = (
        next(s for s in data["scrape_configs"] if s["job_name"] == n) for n in ("lz-otel-demo", "vendor")
    )
    scrapes = []
    for service in services:
        own = vendor["static_configs"][0] | {"labels": {"job": service.job}}
        scrapes.append(
            demo
            | {"job_name": service.job, "static_configs": [{"targets": [f"127.0.0.1:{service.metrics}"]}]}
        )
        scrapes.append(
            vendor
            | {
                "job_name": f"vendor-{service.job}",
                "scrape_interval": "2s",
                "static_configs": [own | {"targets": [f"127.0.0.1:{service.simulator}"]}],
            }
        )
    data["scrape_configs"] = scrapes
    path = folder / "prometheus.yml"
    path.write_text(yaml.safe_dump(data, sort_keys=False))
    return path


@contextlib.contextmanager
def server(name: str, folder: Path, port: int, *flags: str) -> Iterator[str]:
    """A real server, once it says that it is ready; its log is in the folder."""
    with running([need(name), *flags], folder / f"{name}.log", f"http://127.0.0.1:{port}", "/-/ready") as url:
        yield url


@contextlib.contextmanager
def alertmanager(folder: Path, sink: Sink) -> Iterator[tuple[str, int]]:
    """Alertmanager with the committed configuration: address and port."""
    config, port = alertmanager_config(folder, sink), free_port()
    flags = (
        f"--config.file={config.name}",
        "--storage.path=am-data",
        f"--web.listen-address=127.0.0.1:{port}",
        "--cluster.listen-address=",
    )
    with server("alertmanager", folder, port, *flags) as url:
        yield url, port


@contextlib.contextmanager
def prometheus(folder: Path, services: list[Service], alertmanager: int, config: Config) -> Iterator[str]:
    """Prometheus with the stack's configuration, scraping the services; its address."""
    path, port = prometheus_config(folder, services, alertmanager, config), free_port()
    flags = (
        f"--config.file={path.name}",
        "--storage.tsdb.path=data",
        f"--web.listen-address=127.0.0.1:{port}",
        "--log.level=warn",
    )
    with server("prometheus", folder, port, *flags) as url:
        yield url


def get(url: str) -> Any:
    """JSON from an address."""
    with urllib.request.urlopen(url, timeout=30) as answer:
        return json.load(answer)
