"""docker-compose.yml and what it mounts: pinned, bounded, closed, and accepted by the real programs."""

from __future__ import annotations

import contextlib
import importlib.util
import json
import os
import re
import shutil
import subprocess
import sys
import threading
import time
import urllib.error
import urllib.request
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import yaml

from lz_otel.bundle.config import DASHBOARD_FILES
from tests.bundle.prom import free_port, prometheus
from tests.peers import need

if TYPE_CHECKING:
    from collections.abc import Iterator

ROOT = Path(__file__).resolve().parents[2]
COMPOSE: dict[str, Any] = yaml.safe_load((ROOT / "docker-compose.yml").read_text())
SERVICES: dict[str, dict[str, Any]] = COMPOSE["services"]
each_service = pytest.mark.parametrize("name", SERVICES)
# The image holds no program to make a check with.
NO_HEALTH_CHECK = {"collector"}


def bind_mounts(service: dict[str, Any]) -> list[tuple[Path, str, str]]:
    """Files and folders of the project that a service mounts: source, target, mode."""
    mounts = [m.split(":") for m in service.get("volumes", ())]
    return [(ROOT / m[0], m[1], m[2] if len(m) > 2 else "rw") for m in mounts if m[0].startswith(".")]


def mirror(service: str, folder: Path, below: str) -> Path:
    """Lay out a service's mounts below a folder, as the container sees them below ``below``."""
    for source, target, _ in bind_mounts(SERVICES[service]):
        if target.startswith(below):
            place = folder / Path(target).relative_to(below)
            place.parent.mkdir(parents=True, exist_ok=True)
            copy = shutil.copytree if source.is_dir() else shutil.copy
            copy(source, place)
    return folder


def test_services() -> None:
    """The stack is complete; only the collector has to be asked for."""
    assert set(SERVICES) == {
        "demo",
        "simulator",
        "prometheus",
        "alertmanager",
        "sink",
        "grafana",
        "collector",
    }
    assert {n: s["profiles"] for n, s in SERVICES.items() if "profiles" in s} == {"collector": ["collector"]}


@each_service
def test_pinned(name: str) -> None:
    """Every image has a full version, or is built here from one that has."""
    image = SERVICES[name]["image"]
    if "build" in SERVICES[name]:
        dockerfile = (ROOT / SERVICES[name]["build"]["dockerfile"]).read_text()
        bases = re.findall(r"^FROM (\S+)", dockerfile, re.MULTILINE)
        assert bases
        assert all(re.fullmatch(r"[\w./-]+:\d+\.\d+\.\d+[\w.-]*", b) for b in bases)
    else:
        built = {s["image"] for s in SERVICES.values() if "build" in s}
        assert image in built or re.fullmatch(r"[\w./-]+:v?\d+\.\d+\.\d+[\w.-]*", image), image


@each_service
def test_bounded_and_closed(name: str) -> None:
    """Memory, processor and processes are bounded, no capabilities, ports open on this machine only."""
    service = SERVICES[name]
    for key in ("mem_limit", "cpus", "pids_limit", "restart", "logging"):
        assert service.get(key), key
    assert service["cap_drop"] == ["ALL"]
    assert service["security_opt"] == ["no-new-privileges:true"]
    assert "privileged" not in service
    assert all(p.startswith("127.0.0.1:") for p in service["ports"])
    assert all(mode == "ro" for _, _, mode in bind_mounts(service))


@each_service
def test_mounts_exist(name: str) -> None:
    """What is mounted is here; named volumes are declared."""
    for source, _, _ in bind_mounts(SERVICES[name]):
        assert source.exists(), source
    for mount in SERVICES[name].get("volumes", ()):
        if not mount.startswith("."):
            assert mount.split(":")[0] in COMPOSE["volumes"]


@each_service
def test_health_checks(name: str) -> None:
    """Each service says whether it is healthy, and the others wait for those they need."""
    service = SERVICES[name]
    assert ("healthcheck" in service) == (name not in NO_HEALTH_CHECK)
    for other, condition in service.get("depends_on", {}).items():
        assert other in SERVICES
        assert condition == {"condition": "service_healthy"}
    if "healthcheck" in service:
        assert {"test", "interval", "timeout", "retries", "start_period"} <= set(service["healthcheck"])
        port = re.search(r"127\.0\.0\.1:(\d+)", " ".join(service["healthcheck"]["test"]))
        assert port
        assert any(p.endswith(f":{port[1]}") for p in service["ports"])


def test_scrape_targets_are_services() -> None:
    """Prometheus scrapes, and alerts to, services of this file on ports that they open."""
    config = yaml.safe_load((ROOT / "stack/prometheus.yml").read_text())
    groups = [g for job in config["scrape_configs"] for g in job["static_configs"]]
    groups += [g for a in config["alerting"]["alertmanagers"] for g in a["static_configs"]]
    for target in (t for g in groups for t in g["targets"]):
        host, port = target.split(":")
        service = SERVICES["prometheus" if host == "localhost" else host]
        assert any(p.endswith(f":{port}") for p in service["ports"]), target


def test_commands_are_those_of_the_command_line() -> None:
    """Every option that the demo and the simulator are started with exists."""
    pytest.importorskip("typer", reason="the extra cli is not installed")
    for name in ("demo", "simulator"):
        command, *options = SERVICES[name]["command"]
        done = subprocess.run(
            [sys.executable, "-m", "lz_otel.cli", command, "--help"],
            capture_output=True,
            text=True,
            cwd=ROOT,
            env={**os.environ, "COLUMNS": "200", "TERM": "dumb"},
            timeout=60,
        )
        assert done.returncode == 0, done.stderr
        for option in options:
            if option.startswith("--"):
                assert option in done.stdout, option


def test_no_default_password() -> None:
    """Grafana has no administrator at all, so nobody can log in as admin/admin; readers need no login."""
    environment = SERVICES["grafana"]["environment"]
    assert environment["GF_SECURITY_DISABLE_INITIAL_ADMIN_CREATION"] == "true"
    assert environment["GF_AUTH_DISABLE_LOGIN_FORM"] == "true"
    assert environment["GF_AUTH_ANONYMOUS_ORG_ROLE"] == "Viewer"
    assert not re.search(
        r"password\W+\w", (ROOT / "docker-compose.yml").read_text().replace("no password", ""), re.IGNORECASE
    )


def test_grafana_provisioning() -> None:
    """Dashboards are mounted where they are provisioned, home is one, the source is Prometheus."""
    mounts = {target: source for source, target, _ in bind_mounts(SERVICES["grafana"])}
    folder = mounts["/etc/grafana/provisioning"]
    (provider,) = yaml.safe_load((folder / "dashboards/lz-otel.yml").read_text())["providers"]
    dashboards = mounts[provider["options"]["path"]]
    assert {p.name for p in dashboards.glob("*.json")} == set(DASHBOARD_FILES.values())
    home = Path(SERVICES["grafana"]["environment"]["GF_DASHBOARDS_DEFAULT_HOME_DASHBOARD_PATH"])
    assert (dashboards / home.name).is_file()
    assert str(home.parent) == provider["options"]["path"]
    sources = yaml.safe_load((folder / "datasources/prometheus.yml").read_text())["datasources"]
    assert [s["isDefault"] for s in sources if s["type"] == "prometheus"] == [True]
    scrape = yaml.safe_load((ROOT / "stack/prometheus.yml").read_text())["global"]["scrape_interval"]
    assert sources[0]["jsonData"]["timeInterval"] == scrape
    for source in sources:
        host, port = re.fullmatch(r"http://([\w-]+):(\d+)", source["url"]).groups()  # type: ignore[union-attr]
        assert any(p.endswith(f":{port}") for p in SERVICES[host]["ports"])


def test_collector_config() -> None:
    """Every component of a pipeline is declared; metrics go to Prometheus' OTLP receiver, which is on."""
    config = yaml.safe_load((ROOT / "stack/collector.yml").read_text())
    for pipeline in config["service"]["pipelines"].values():
        for kind, names in pipeline.items():
            assert set(names) <= set(config[kind])
    assert set(config["service"]["extensions"]) <= set(config["extensions"])
    assert config["exporters"]["otlphttp/prometheus"]["endpoint"] == "http://prometheus:9090/api/v1/otlp"
    assert "--web.enable-otlp-receiver" in SERVICES["prometheus"]["command"]


def test_promtool_accepts_the_mounted_config(tmp_path: Path) -> None:
    """promtool reads the configuration, its rule files and the file with the key."""
    folder = mirror("prometheus", tmp_path, "/etc/prometheus")
    command = [need("promtool"), "check", "config", str(folder / "prometheus.yml")]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "rule files found" in done.stdout


@pytest.fixture
def vendor() -> Iterator[tuple[int, list[str]]]:
    """A vendor's endpoint that notes the key it is asked with."""
    from http.server import BaseHTTPRequestHandler, HTTPServer

    keys: list[str] = []

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            keys.append(self.headers.get("x-api-key", ""))
            self.send_response(200)
            self.send_header("content-type", "text/plain; version=0.0.4")
            self.end_headers()
            self.wfile.write(b'cache_hit_rate{layer="zero"} 0.4\n')

        def log_message(self, *_: Any) -> None:
            return

    with HTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        yield server.server_address[1], keys
        server.shutdown()


def test_prometheus_runs_with_the_mounted_config(tmp_path: Path, vendor: tuple[int, list[str]]) -> None:
    """A real Prometheus loads it with all its rules, and scrapes the vendor with the key from the file."""
    port, keys = vendor
    folder = mirror("prometheus", tmp_path, "/etc/prometheus")
    text = (folder / "prometheus.yml").read_text().replace("simulator:8080", f"127.0.0.1:{port}")
    text = text.replace("scrape_interval: 30s", "scrape_interval: 1s\n    scrape_timeout: 1s")
    with prometheus(folder, text) as server:
        groups = server.get("rules")["groups"]
        assert {r["type"] for g in groups for r in g["rules"]} == {"recording", "alerting"}
        deadline = time.monotonic() + 30
        while not keys and time.monotonic() < deadline:
            time.sleep(0.2)
    assert keys
    assert keys[0] == (ROOT / "stack/secrets/vendor_api_key").read_text().strip()


def load_sink() -> Any:
    spec = importlib.util.spec_from_file_location("sink", ROOT / "stack/sink.py")
    assert spec
    assert spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture
def sink() -> Iterator[str]:
    """The stack's sink on a free port."""
    with load_sink().Sink(("127.0.0.1", 0)) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_address[1]}"
        server.shutdown()


def get(url: str) -> str:
    with urllib.request.urlopen(url, timeout=5) as answer:
        return str(answer.read().decode())


def post(url: str, body: bytes) -> int:
    try:
        with urllib.request.urlopen(urllib.request.Request(url, data=body), timeout=5) as answer:
            return int(answer.status)
    except urllib.error.HTTPError as error:
        return error.code


def test_sink_refuses_what_is_no_webhook(sink: str) -> None:
    """Anything but Alertmanager's JSON is refused, and the sink goes on."""
    assert [post(sink, b) for b in (b"{", b"[]", b'{"alerts": 1}')] == [400, 400, 400]
    assert get(sink + "/-/healthy") == "healthy\n"


def test_sink_escapes(sink: str) -> None:
    """What comes in labels and annotations is text on the page, and no link but http."""
    alert = {"labels": {}, "annotations": {"summary": "<script>x</script>", "dashboard_url": "javascript:x"}}
    assert post(sink, json.dumps({"status": "firing", "alerts": [alert]}).encode()) == 200
    page = get(sink)
    assert "<script>" not in page
    assert "javascript:" not in page


def test_alertmanager_notifies_the_sink(tmp_path: Path, sink: str) -> None:
    """A real Alertmanager with the mounted configuration sends a page; the watchdog only checks in."""
    folder = mirror("alertmanager", tmp_path, "/etc/alertmanager")
    (folder / "secrets/webhook_url").write_text(sink + "/")
    (folder / "secrets/watchdog_url").write_text(sink + "/watchdog")
    config = folder / "alertmanager.yml"
    config.write_text(re.sub(r"group_wait: \w+", "group_wait: 0s", config.read_text()))
    port = free_port()
    command = [
        need("alertmanager"),
        "--config.file=alertmanager.yml",
        f"--storage.path={tmp_path}/am-data",
        f"--web.listen-address=127.0.0.1:{port}",
        "--cluster.listen-address=",
    ]
    with (tmp_path / "log").open("w") as log:
        process = subprocess.Popen(command, cwd=folder, stdout=log, stderr=log)
    try:
        alerts = [
            {"labels": {"alertname": n, "severity": s, "job": "shop"}, "annotations": {"summary": n}}
            for n, s in (
                ("LLMProviderFailing", "critical"),
                ("LLMWatchdog", "none"),
                ("LLMRateLimitNear", "info"),
            )
        ]
        request = urllib.request.Request(
            f"http://127.0.0.1:{port}/api/v2/alerts",
            json.dumps(alerts).encode(),
            {"content-type": "application/json"},
        )
        deadline = time.monotonic() + 30
        sent = False
        received: list[dict[str, Any]] = []
        while time.monotonic() < deadline and not received:
            assert process.poll() is None, (tmp_path / "log").read_text()
            with contextlib.suppress(OSError):
                if not sent:
                    urllib.request.urlopen(request, timeout=5).close()
                    sent = True
            received = json.loads(get(sink + "/notifications"))
            time.sleep(0.2)
        names = [a["labels"]["alertname"] for one in received for a in one["alerts"]]
        assert names == ["LLMProviderFailing"], (tmp_path / "log").read_text()
    finally:
        process.terminate()
        process.wait(30)
