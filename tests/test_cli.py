"""The command ``lz-otel``: help, errors of one line, and what each command ends with."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import urllib.request
from pathlib import Path

import pytest

for needed in ("typer", "rich"):
    pytest.importorskip(needed, reason=f"the command needs {needed}: install the extra 'cli'")

ROOT = Path(__file__).resolve().parent.parent
COMMANDS = ("demo", "truth", "prices", "simulate", "bundle", "version")


def environment() -> dict[str, str]:
    """The environment of a user who has set nothing."""
    return {"PATH": os.environ.get("PATH", ""), "PYTHONPATH": str(ROOT), "COLUMNS": "100", "NO_COLOR": "1"}


def cli(*arguments: str) -> subprocess.CompletedProcess[str]:
    """Run the command to its end."""
    return subprocess.run(
        [sys.executable, "-m", "lz_otel.cli", *arguments],
        capture_output=True,
        text=True,
        env=environment(),
        timeout=120,
        check=False,
    )


def test_help_lists_the_commands() -> None:
    """``--help`` names every command."""
    done = cli("--help")
    assert 0 == done.returncode
    assert list(COMMANDS) == [name for name in COMMANDS if re.search(rf"\b{name}\b", done.stdout)]


@pytest.mark.parametrize("name", COMMANDS)
def test_each_command_has_help(name: str) -> None:
    """``--help`` of a command says how it is used, and does nothing else."""
    done = cli(name, "--help")
    assert (0, "") == (done.returncode, done.stderr)
    assert "usage" in done.stdout.lower()


@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        (("demo", "--scenario", "nothing"), "scenario='nothing'"),
        (("truth", "--case", "nothing"), "case='nothing'"),
        (("simulate", "--scenario", "nothing.toml"), "scenario='nothing.toml'"),
        (("simulate", "--history", "--incident", "layer-down@soon"), "--incident='layer-down@soon'"),
        (("simulate", "--history", "--incident", "earthquake"), "incident='earthquake'"),
        (("simulate", "--history", "--hours", "0"), "hours=0"),
    ],
)
def test_what_cannot_be_used_is_one_line_and_2(arguments: tuple[str, ...], named: str) -> None:
    """A value that cannot be used ends with 2 and one line that names it and what is allowed."""
    done = cli(*arguments)
    assert (2, "", 1) == (done.returncode, done.stdout, len(done.stderr.splitlines()))
    assert done.stderr.startswith("lz-otel: ")
    assert named in done.stderr
    assert "expected" in done.stderr


@pytest.mark.parametrize(
    "arguments",
    [("demo", "--port", "70000"), ("demo", "--rate", "-1"), ("simulate", "--nothing"), ("nothing",)],
)
def test_what_cannot_be_parsed_is_2(arguments: tuple[str, ...]) -> None:
    """An argument out of range or unknown ends with 2 and no traceback."""
    done = cli(*arguments)
    assert 2 == done.returncode
    assert "Traceback" not in done.stderr


def test_version() -> None:
    """``version`` says the name and the version of the package."""
    from lz_otel import __version__

    assert f"lz-otel {__version__}\n" == cli("version").stdout


def test_simulate_makes_a_history(tmp_path: Path) -> None:
    """``simulate --history`` writes the file and ends with 0."""
    out = tmp_path / "history.om"
    done = cli(
        "simulate", "--history", "--hours", "0.1", "--instances", "1", "--models", "1", "--out", str(out)
    )
    assert (0, "") == (done.returncode, done.stdout)
    assert out.read_text(encoding="utf-8").endswith("# EOF\n")


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_simulate_serves_until_told_to_end(number: signal.Signals) -> None:
    """``simulate`` says its address, answers there, and ends with 0 on SIGTERM and on Ctrl-C."""
    pytest.importorskip("uvicorn")
    child = subprocess.Popen(
        [sys.executable, "-m", "lz_otel.cli", "simulate", "--port", "0"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=environment(),
    )
    try:
        assert child.stdout is not None
        line = child.stdout.readline()
        found = re.search(r"http://\S+", line)
        assert found is not None, line
        opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
        with opener.open(f"{found[0]}/__truth/summary", timeout=20) as answer:
            assert 200 == answer.status
        child.send_signal(number)
        _, err = child.communicate(timeout=30)
    finally:
        child.kill()
    assert (0, "") == (child.returncode, err)


def test_a_port_that_is_taken_is_one_line_and_2() -> None:
    """``simulate`` on a taken port says so."""
    pytest.importorskip("uvicorn")
    import socket

    with socket.create_server(("127.0.0.1", 0)) as taken:
        done = cli("simulate", "--port", str(taken.getsockname()[1]))
    assert (2, 1) == (done.returncode, len(done.stderr.splitlines()))


def test_bundle_check_finds_a_stale_file(tmp_path: Path) -> None:
    """``bundle --check`` ends with 1 and the file's name where a generated file differs, else with 0."""
    pytest.importorskip("grafana_foundation_sdk")
    target = ("--out", str(tmp_path))
    assert 0 == cli("bundle", "--write", *target).returncode
    assert 0 == cli("bundle", "--check", *target).returncode
    stale = next(p for p in sorted(tmp_path.rglob("*.json")) if p.is_file())
    stale.write_text("{}\n", encoding="utf-8")
    done = cli("bundle", "--check", *target)
    assert 1 == done.returncode
    assert stale.name in done.stdout + done.stderr


def test_prices_of_models() -> None:
    """A known model's prices are told; one without makes the exit status 1."""
    known = cli("prices", "gpt-5.4", "--provider", "openai")
    assert (0, True) == (known.returncode, "gpt-5.4: input 2.5, output 15, cache_read 0.25" in known.stdout)
    assert "above 272000 tokens: input 5" in known.stdout
    assert "web_search USD 0.01 each" in known.stdout
    unknown = cli("prices", "nobodys-model", "claude-opus-5")
    assert (1, True) == (unknown.returncode, "nobodys-model: no price" in unknown.stdout)


def test_prices_that_are_unknown() -> None:
    """Every model that the data set, the SDKs or the articles name is listed where it has no price."""
    lines = cli("prices", "--unknown").stdout.splitlines()
    assert {"openai\tdall-e-3", "openai\tgpt-6.2-sol", "anthropic\tclaude-3-5-sonnet-quantized"} <= set(lines)
    assert all(
        line.startswith("openai\t")
        for line in cli("prices", "--unknown", "--provider", "openai").stdout.splitlines()
    )
