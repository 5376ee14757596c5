"""Fixtures for every test: where recorded traffic lies, and a clean slate around each test."""

from __future__ import annotations

import os
import signal
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tests.interrupts import Stop

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.export.receiver import Receiver

ROOT = Path(__file__).resolve().parent.parent

# Settings of the machine the tests run on must not decide what they see.
_OURS = ("OTEL_", "LZ_OTEL_", "PROMETHEUS_MULTIPROC_DIR", "ANTHROPIC_", "OPENAI_")


@pytest.fixture(scope="session")
def shared() -> Path:
    """The folder with recorded exchanges: ``LZ_SHARED``, else ``../shared``;
    the test is skipped without it.
    """
    path = Path(os.environ.get("LZ_SHARED") or ROOT.parent / "shared")
    if not (path / "corpus").is_dir():
        pytest.skip(f"no recorded exchanges in {path}: set LZ_SHARED to the folder that holds corpus/")
    return path


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    """A receiver of OTLP on loopback."""
    from tests.export.receiver import Receiver  # the older SDKs' environment has no such package

    one = Receiver()
    yield one
    one.close()


@pytest.fixture
def alarm() -> Iterator[None]:
    """SIGALRM raises `Stop`."""

    def handler(*_: Any) -> None:
        raise Stop

    before = signal.signal(signal.SIGALRM, handler)
    yield
    signal.setitimer(signal.ITIMER_REAL, 0)
    signal.signal(signal.SIGALRM, before)


@pytest.fixture(autouse=True)
def _own_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in list(os.environ):
        if name.startswith(_OURS):
            monkeypatch.delenv(name)


@pytest.fixture(autouse=True)
def _taken_off() -> Iterator[None]:
    """No test leaves lz_otel switched on for the next one."""
    yield
    runtime = sys.modules.get("lz_otel._runtime")
    if runtime is not None:
        runtime.uninstrument()
