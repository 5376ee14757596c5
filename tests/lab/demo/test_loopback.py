"""A machine with an HTTP proxy: the demo reaches its own simulator all the same."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from urllib.request import getproxies, proxy_bypass

import pytest

from lz_otel.lab.demo._loopback import without_proxy

ROOT = Path(__file__).resolve().parents[3]
NOWHERE = "http://127.0.0.1:9"  # the discard port: nothing listens there
PROXIES = dict.fromkeys(
    ("HTTP_PROXY", "http_proxy", "HTTPS_PROXY", "https_proxy", "ALL_PROXY", "all_proxy"), NOWHERE
)


@pytest.mark.parametrize(
    "arguments",
    [
        ("demo", "--seconds", "1.5", "--port", "0", "--rate", "30"),
        ("truth", "--case", "healthy", "--calls", "60"),
    ],
    ids=lambda a: a[0],
)
@pytest.mark.parametrize(
    "variables", [{}, {"NO_PROXY": "intranet.example"}], ids=("no exception", "with an exception")
)
def test_a_proxy_is_not_asked(arguments: tuple[str, ...], variables: dict[str, str]) -> None:
    """With a proxy that nobody answers for, metrics and truth are equal, of some calls."""
    env = {"PATH": os.environ["PATH"], "PYTHONPATH": str(ROOT), **PROXIES, **variables}
    done = subprocess.run(
        [sys.executable, "-m", "lz_otel.cli", *arguments],
        capture_output=True,
        text=True,
        env=env,
        timeout=120,
        check=False,
    )
    assert 0 == done.returncode, done.stdout + done.stderr
    assert "connect_error" not in done.stdout


@pytest.mark.parametrize(
    "before",
    [
        {},
        {"NO_PROXY": "a.example"},
        {"no_proxy": "b.example"},
        {"NO_PROXY": "a.example", "no_proxy": "b.example"},
        {"NO_PROXY": "*"},
        {"no_proxy": ""},
    ],
)
def test_only_loopback_and_only_meanwhile(before: dict[str, str], monkeypatch: pytest.MonkeyPatch) -> None:
    """Loopback is excepted meanwhile, other hosts are as before, and so is the environment afterwards."""
    for name in ("NO_PROXY", "no_proxy"):
        monkeypatch.delenv(name, raising=False)
    for name, value in (PROXIES | before).items():
        monkeypatch.setenv(name, value)
    others = ("a.example", "b.example", "api.anthropic.com")

    def routes() -> list[bool]:
        return [bool(proxy_bypass(host)) for host in others]

    environment, outside = dict(os.environ), routes()
    with without_proxy():
        assert [True, True] == [bool(proxy_bypass(host)) for host in ("127.0.0.1", "localhost")]
        assert outside == routes()
        assert NOWHERE == getproxies()["http"]
    assert environment == dict(os.environ)
