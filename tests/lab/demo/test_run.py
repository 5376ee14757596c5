"""The demo itself: it ends with the truth, shows what a scenario does, and survives what goes wrong."""

from __future__ import annotations

import asyncio
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

import httpx2
import pytest

import lz_otel
from lz_otel.lab.demo import run
from lz_otel.lab.demo.driver import Driver
from lz_otel.lab.demo.run import rate_of
from lz_otel.lab.simulator import load, names, parse, running
from lz_otel.lab.simulator.traffic import plan
from lz_otel.testing import capture

ROOT = Path(__file__).resolve().parents[3]
slow = pytest.mark.skipif(os.environ.get("LZ_SLOW") != "1", reason="takes a minute: set LZ_SLOW=1")


def command(*arguments: str) -> list[str]:
    """The demo as a command, as a user would start it."""
    return [sys.executable, "-m", "lz_otel.cli", "demo", *arguments]


def environment() -> dict[str, str]:
    """The environment of a user who has set nothing."""
    return {"PATH": os.environ.get("PATH", ""), "PYTHONPATH": str(ROOT), "COLUMNS": "100"}


def test_a_short_run_ends_with_the_truth(capsys: pytest.CaptureFixture[str]) -> None:
    """Some seconds of the demo in this process end with 0, both modes, money and equal figures."""
    assert 0 == run(seconds=2.0, port=0, rate=30)
    text = capsys.readouterr().out
    for shown in (
        "figures equal the simulator's truth",
        "fast",
        "full",
        "symbolic",
        "prompt_cache",
        "saved",
        "$",
    ):
        assert shown in text
    assert "DIFFERS" not in text
    assert not lz_otel._runtime.status().enabled


def test_a_difference_ends_with_1(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Metrics that differ from the truth end the demo with 1, and the figure is named."""
    from lz_otel._judge.symbolic import SymbolicJudge

    monkeypatch.setattr(SymbolicJudge, "judge", lambda self, exchange: None)
    assert 1 == run(seconds=1.5, port=0, rate=30)
    text = capsys.readouterr().out
    assert "The metrics differ from the truth: symbolic: hit" in text


@slow
@pytest.mark.parametrize("scenario", names())
def test_every_scenario_ends_with_the_truth(scenario: str, capsys: pytest.CaptureFixture[str]) -> None:
    """Each scenario is run for some seconds without a difference or a traceback."""
    assert 0 == run(seconds=3.5, port=0, scenario=scenario)
    assert "Traceback" not in capsys.readouterr().out


def test_interrupted_it_says_the_summary() -> None:
    """Ctrl-C ends an endless demo within seconds, with the summary, status 0 and nothing on stderr."""
    child = subprocess.Popen(
        command("--forever", "--port", "0", "--rate", "30"),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=environment(),
        start_new_session=True,
    )
    assert child.stdout is not None
    first = next(line for line in child.stdout if line.startswith("metrics:"))
    time.sleep(1.0)
    os.killpg(child.pid, signal.SIGINT)  # as a terminal does: to the simulator's process too
    out, err = child.communicate(timeout=60)
    assert (0, "") == (child.returncode, err)
    assert "/metrics" in first
    assert "figures equal the simulator's truth" in out


def test_a_taken_port_is_explained_and_the_demo_goes_on() -> None:
    """Where the port of /metrics is taken, one line says so, and the demo ends well."""
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
        done = subprocess.run(
            command("--seconds", "1", "--rate", "20", "--host", "127.0.0.1", "--port", port),
            capture_output=True,
            text=True,
            env=environment(),
            timeout=90,
            check=False,
        )
    assert 0 == done.returncode
    assert port in done.stderr
    assert 1 == len(done.stderr.strip().splitlines())
    assert "figures equal" in done.stdout


NAMES = (
    "gen_ai_client_inference_duration_seconds_bucket",
    "gen_ai_client_inference_usage_input_tokens_total",
    "lz_attempts_total",
    "lz_call_time_to_first_token_seconds_bucket",
    "lz_cost_usd_total",
    "lz_fast_path_calls_total",
    "lz_prompt_cache_write_tokens_total",
)


def test_metrics_are_served_meanwhile() -> None:
    """``/metrics`` answers while the demo runs, with the contract's names."""
    child = subprocess.Popen(
        command("--forever", "--host", "127.0.0.1", "--port", "0", "--rate", "20"),
        stdout=subprocess.PIPE,
        text=True,
        env=environment(),
    )
    try:
        assert child.stdout is not None
        url = next(line.split()[1] for line in child.stdout if line.startswith("metrics:"))
        text = ""
        for _ in range(400):
            text = httpx2.get(url, trust_env=False).text
            missing = [name for name in NAMES if name not in text]
            if not missing:
                break
            time.sleep(0.1)
        assert missing == []
    finally:
        child.send_signal(signal.SIGINT)
        child.communicate(timeout=60)
    assert 0 == child.returncode


def test_the_rate_is_the_users_or_the_scenarios() -> None:
    """A rate that is given wins, else the scenario's is used."""
    assert [7.0, load("healthy").traffic.rate] == [
        rate_of(load("healthy"), 7.0),
        rate_of(load("healthy"), 0.0),
    ]


def test_the_same_seed_makes_the_same_calls() -> None:
    """Seeds decide what is asked."""
    scenario = load("healthy")
    one, again, other = ([p.kwargs for p in plan(scenario, seed, 30)] for seed in (3, 3, 4))
    assert one == again
    assert one != other


FAULTS = """
[faults]
drop = 0.15
disconnect = 0.1
malformed_json = 0.15
stream_error = 0.1
no_stop = 0.1
bad_request = 0.1
retry_after_ms = 5
[[traffic.routes]]
name = "ask"
stream = 0.7
"""


def test_errors_of_every_kind_are_the_applications_own() -> None:
    """Whatever breaks, in a stream or outside, is counted as failed; no task ends with an error left over."""
    scenario = parse(FAULTS)
    lost: list[Any] = []

    async def drive(url: str) -> Driver:
        asyncio.get_running_loop().set_exception_handler(lambda loop, context: lost.append(context))
        driver = Driver(url, 0.0, 16)
        await driver.run(plan(scenario, 1, 60))
        await driver.close()
        return driver

    with running(scenario, latency_scale=0.0) as simulator, capture():
        driver = asyncio.run(drive(simulator.url))
    assert [] == lost
    assert 60 == driver.counts["operations"]
    assert driver.counts["failed"] > 5


def test_stop_lets_calls_end() -> None:
    """After `stop` no call begins, and none in progress is given up."""
    scenario = load("healthy")

    async def drive(url: str) -> Driver:
        driver = Driver(url, 0.0, 8)
        asyncio.get_running_loop().call_later(0.3, driver.stop)
        await driver.run(plan(scenario, 1))
        await driver.close()
        return driver

    with running(scenario, latency_scale=0.02) as simulator, capture() as seen:
        driver = asyncio.run(drive(simulator.url))
        ended = seen.histogram("lz.operation.calls").count
    assert driver.counts["operations"] == ended > 0


def test_threads_are_not_left_behind() -> None:
    """A run in this process leaves no thread of ours."""
    before = set(threading.enumerate())
    run(seconds=0.5, port=0, rate=20)
    time.sleep(0.1)
    assert set() == {t.name for t in set(threading.enumerate()) - before if not t.daemon}
