"""Starting, stopping, and the simulator's own endpoints."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import urllib.error
import urllib.request
from pathlib import Path
from typing import Any

import pytest

import lz_otel
from lz_otel.errors import ConfigurationError, MissingDependencyError
from lz_otel.lab.simulator import Simulator, _server, parse, running

pytest.importorskip("starlette")
pytest.importorskip("uvicorn")

BODY = json.dumps({"model": "m", "max_tokens": 9, "messages": [{"role": "user", "content": "x"}]}).encode()


def fetch(url: str, data: bytes | None = None, **headers: str) -> tuple[int, bytes]:
    """Status and body of one request."""
    request = urllib.request.Request(url, data, {"x-api-key": "k", **headers})
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    try:
        with opener.open(request, timeout=10) as response:
            return response.status, response.read()
    except urllib.error.HTTPError as error:
        return error.code, error.read()


def test_two_simulators_at_once() -> None:
    """Each has its own port and its own memory."""
    with running(parse(""), latency_scale=0.0) as one, running(parse(""), latency_scale=0.0) as two:
        assert one.url != two.url
        assert 200 == fetch(one.url + "/v1/messages", BODY)[0]
        assert ([1], []) == ([r["ordinal"] for r in one.truth()], two.truth())


def test_after_the_block_nobody_listens() -> None:
    """The port is closed."""
    with running(parse("")) as sim:
        url = sim.url
    with pytest.raises(urllib.error.URLError):
        fetch(url + "/__truth")


def test_a_taken_port_is_told() -> None:
    """By name and value."""
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        with pytest.raises(ConfigurationError, match=f"port={port}"), running(parse(""), port=port):
            pass


def test_a_missing_package_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    """With the command that installs it."""

    def missing(name: str) -> Any:
        raise ImportError(name)

    monkeypatch.setattr(_server.importlib, "import_module", missing)
    with pytest.raises(MissingDependencyError, match=r"lz-otel\[demo\]"):
        Simulator(parse("")).application()


def test_importing_the_simulator_loads_no_server() -> None:
    """starlette and uvicorn are imported when it starts."""
    code = (
        "import sys, lz_otel.lab.simulator;"
        "print(sorted({'starlette', 'uvicorn', 'anthropic', 'openai'} & set(sys.modules)))"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, env=_environment()
    )
    assert "[]" == done.stdout.strip()


def _environment() -> dict[str, str]:
    return {**os.environ, "PYTHONPATH": str(Path(lz_otel.__file__).parent.parent)}


def test_own_endpoints(sim: Any) -> None:
    """Truth as JSON lines, from any record on; a summary; a reset."""
    for _ in range(3):
        fetch(sim.url + "/v1/messages", BODY)
    sim.settle()
    lines = fetch(sim.url + "/__truth")[1].splitlines()
    assert lines[1:] == fetch(sim.url + "/__truth?after=1")[1].splitlines()
    assert 3 == json.loads(fetch(sim.url + "/__truth/summary")[1])["requests"]
    fetch(sim.url + "/__reset", b"")
    assert b"" == fetch(sim.url + "/__truth")[1]


def test_vendor_metrics(sim: Any) -> None:
    """Prometheus text with the articles' names and labels, for those who have a key."""
    parser = pytest.importorskip("prometheus_client.parser")
    status, body = fetch(sim.url + "/v1/metrics")
    samples = {
        (s.name, *s.labels.items()): s.value
        for f in parser.text_string_to_metric_families(body.decode())
        for s in f.samples
    }
    assert 200 == status
    assert {
        ("cache_hit_rate", ("layer", "zero")): 0.37,
        ("decompression_latency_p95", ("precision", "fp16")): 39.0,
        ("kv_slice_efficiency", ("block_type", "anchor")): 0.937,
    } == samples
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    with pytest.raises(urllib.error.HTTPError, match="401"):
        opener.open(sim.url + "/v1/metrics", timeout=10)


def test_the_switch_turns_the_families_off(sim: Any) -> None:
    """After it nothing is served by the layer, and no call fails; back on, it is."""
    force = {"x-sim-force": "symbolic=hit"}
    for wanted in (False, True):
        assert 200 == fetch(sim.url + "/v1/layer-zero/control", json.dumps({"enabled": wanted}).encode())[0]
        assert 200 == fetch(sim.url + "/v1/messages", BODY, **force)[0]
        assert wanted == (sim.truth()[-1]["path"] == "fast")
    assert 400 == fetch(sim.url + "/v1/layer-zero/control", b"no")[0]


def test_a_process_of_its_own() -> None:
    """The same face, over HTTP; it ends with the block."""
    with running(parse("[symbolic]\nenabled = true"), process=True, latency_scale=0.0, seed=3) as sim:
        fetch(sim.url + "/v1/messages", BODY)
        sim.advance(10)
        assert (1, 1) == (len(sim.truth()), sim.summary()["requests"])
        sim.reset()
        assert [] == sim.truth()
        url = sim.url
    with pytest.raises(urllib.error.URLError):
        fetch(url + "/__truth")


def test_a_process_tells_what_is_wrong() -> None:
    """Its error comes out here."""
    with pytest.raises(ConfigurationError, match="scenario"), running("nothing", process=True):
        pass


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_the_foreground_ends_cleanly(number: signal.Signals) -> None:
    """On SIGTERM and SIGINT: no traceback, code 0."""
    code = (
        "from lz_otel.lab.simulator import simulate\n"
        "simulate(0, on_start=lambda url: print(url, flush=True))\n"
        "print('done', flush=True)"
    )
    process = subprocess.Popen(
        [sys.executable, "-c", code],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=_environment(),
    )
    try:
        assert process.stdout is not None
        url = process.stdout.readline().strip()
        for _ in range(200):
            try:
                fetch(url + "/__truth/summary")
                break
            except urllib.error.URLError:
                continue
        process.send_signal(number)
        out, err = process.communicate(timeout=20)
    finally:
        process.kill()
    assert ("done\n", "", 0) == (out, err, process.returncode)
