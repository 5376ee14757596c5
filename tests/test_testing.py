"""What services test with: numbers by name, and no trace of it afterwards."""

from __future__ import annotations

from typing import Any

import httpx2
import pytest

import lz_otel
from lz_otel._ground.guard import guard
from lz_otel.errors import CatalogueError, ConfigurationError
from lz_otel.testing import capture
from tests.wire_doubles import A_JSON, transport

INPUT = "gen_ai.client.inference.usage.input_tokens"
DURATION = "gen_ai.client.inference.duration"


def call() -> None:
    """Make a call of 2104 input tokens, observed."""
    client = httpx2.Client(transport=transport(httpx2, lambda _: httpx2.Response(200, json=A_JSON)))
    lz_otel.instrument_client(client)
    body: dict[str, Any] = {"model": "claude-opus-5", "max_tokens": 10, "messages": []}
    client.post("https://api.anthropic.com/v1/messages", json=body)


def test_numbers_are_read_by_either_name() -> None:
    """A counter is its sum and a histogram the number of its samples, by either name."""
    with capture(strict=True) as seen:
        call()
        assert seen.value(INPUT) == seen.value(lz_otel.catalogue.by_name(INPUT).prometheus) == 2104
        assert (
            seen.value(DURATION)
            == seen.histogram(DURATION).count
            == sum(seen.histogram(DURATION).counts)
            == 1
        )


def test_labels_narrow_what_is_read() -> None:
    """Points whose labels differ are left out."""
    with capture(strict=True) as seen:
        call()
        assert (seen.value(DURATION, lz_ending="ok"), seen.value(DURATION, lz_ending="error")) == (1, 0)
        assert seen.histogram(DURATION, lz_ending="error").count == 0


def test_points_are_those_with_something_in_them() -> None:
    """Zeros are left out; a metric without points has none."""
    with capture(strict=True) as seen:
        call()
        assert list(seen.points(INPUT).values()) == [2104]
        assert seen.points("lz.call.usage_missing") == {}
        assert seen.points("lz.call.retries") == {}


def test_a_name_that_is_no_metric_is_an_error() -> None:
    """A mistyped name is not read as 0."""
    with capture() as seen:
        for read in (seen.value, seen.histogram, seen.points):
            with pytest.raises(CatalogueError):
                read("no.such.metric")


def test_each_capture_starts_from_zero_and_ends_observing() -> None:
    """Nothing is left of the one before, and after it nothing is observed."""
    for _ in range(2):
        with capture() as seen:
            call()
            assert seen.value(DURATION) == 1
        assert not lz_otel.status().enabled


@pytest.mark.parametrize("strict", [True, False])
def test_strictness_ends_with_the_capture(strict: bool) -> None:
    """Faults are raised inside a strict capture only, also when it is left by an exception."""
    before = guard.strict
    inside: list[bool] = []

    def fail() -> None:
        with capture(strict=strict):
            inside.append(guard.strict)
            raise KeyError

    with pytest.raises(KeyError):
        fail()
    assert (inside, guard.strict) == ([strict], before)
    assert not lz_otel.status().enabled


def test_capturing_where_all_is_switched_off(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where OpenTelemetry is disabled there is nothing to capture: the error names the variable."""
    monkeypatch.setenv("OTEL_SDK_DISABLED", "true")
    with pytest.raises(ConfigurationError, match="OTEL_SDK_DISABLED"), capture():
        pass
