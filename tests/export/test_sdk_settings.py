"""Settings of OpenTelemetry itself: what it raises at names the variable."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from lz_otel._export._sdk_settings import asked, check_provider, refused
from lz_otel.errors import ConfigurationError
from tests.processes import run

STARTS = Path(__file__).parent / "programs" / "starts.py"


@pytest.mark.parametrize(
    ("error", "setting"),
    [
        (ValueError("OTEL_BSP_SCHEDULE_DELAY must be"), "OTEL_BSP_SCHEDULE_DELAY"),
        (ValueError("max_queue_size must be a positive integer."), "OTEL_BSP_MAX_QUEUE_SIZE"),
        (ValueError("OTEL_BSP_EXPORT_TIMEOUT must be"), None),  # not set
        (ValueError("something else"), None),
        (TypeError("OTEL_BSP_SCHEDULE_DELAY must be"), None),
    ],
)
def test_what_the_sdk_refuses(error: Exception, setting: str | None, monkeypatch: pytest.MonkeyPatch) -> None:
    """An error about a variable that is set names it, by itself or by the SDK's word for it."""
    monkeypatch.setenv("OTEL_BSP_SCHEDULE_DELAY", "0")
    monkeypatch.setenv("OTEL_BSP_MAX_QUEUE_SIZE", "0")
    monkeypatch.delenv("OTEL_BSP_EXPORT_TIMEOUT", raising=False)
    known = refused(error)
    assert (None if known is None else known.setting) == setting


def broken() -> Any:
    raise RuntimeError("no provider")


def test_a_provider_that_cannot_be_made(monkeypatch: pytest.MonkeyPatch) -> None:
    """The variable that names it is the setting; without one, the error is not ours to word."""
    monkeypatch.setenv("OTEL_PYTHON_METER_PROVIDER", "nope")
    with pytest.raises(ConfigurationError, match=r"OTEL_PYTHON_METER_PROVIDER='nope' .*one of .*sdk"):
        asked("meter_provider", broken)
    monkeypatch.delenv("OTEL_PYTHON_METER_PROVIDER")
    with pytest.raises(RuntimeError, match="no provider"):
        asked("meter_provider", broken)


def test_a_provider_is_not_made_to_be_checked(monkeypatch: pytest.MonkeyPatch) -> None:
    """A name that is installed, or none, makes nothing; another one is asked for and refused."""
    monkeypatch.delenv("OTEL_PYTHON_METER_PROVIDER", raising=False)
    assert check_provider("meter_provider", broken)
    monkeypatch.setenv("OTEL_PYTHON_METER_PROVIDER", "sdk_meter_provider")
    assert check_provider("meter_provider", broken)
    monkeypatch.setenv("OTEL_PYTHON_METER_PROVIDER", "nope")
    assert not check_provider("meter_provider", broken)


def test_no_shared_variable_stops_a_service() -> None:
    """With each value that a variable of OpenTelemetry may have, a process starts, and its call is seen."""
    assert "" == run(STARTS, seconds=120).stdout
