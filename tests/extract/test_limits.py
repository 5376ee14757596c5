"""Rate-limit headers: formats, resources, what is unknown and what is wrong."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from lz_otel._extract.limits import Limit, read
from lz_otel.catalogue import RESOURCE

NOW = datetime(2026, 11, 29, 12, 0, 0, tzinfo=UTC).timestamp()


def test_anthropic() -> None:
    """Counts and RFC 3339 times, per resource, priority and fast ones too."""
    headers = {
        "request-id": "x",
        "retry-after": "30",
        "anthropic-ratelimit-requests-limit": "50",
        "anthropic-ratelimit-requests-remaining": "49",
        "anthropic-ratelimit-requests-reset": "2026-11-29T12:00:01Z",
        "anthropic-ratelimit-input-tokens-limit": "20000000",
        "anthropic-ratelimit-input-tokens-remaining": "0",
        "anthropic-ratelimit-input-tokens-reset": "2026-11-29T12:01:00.500+00:00",
        "anthropic-priority-output-tokens-remaining": "7",
        "anthropic-fast-input-tokens-reset": "2026-11-29T11:59:00Z",
    }
    expected = [
        Limit("requests", 50, 49, 1.0),
        Limit("input_tokens", 20_000_000, 0, 60.5),
        Limit("priority_output_tokens", None, 7, None),
    ]
    found = read(headers, NOW)
    assert expected == found[:3]
    assert [] == read({"retry-after": "30", "content-type": "x"}, NOW)


@pytest.mark.parametrize(
    ("reset", "expected"),
    [
        ("12ms", 0.012),
        ("1s", 1.0),
        ("6m0s", 360.0),
        ("1h2m3.5s", 3723.5),
        ("0s", 0.0),
        ("7", 7.0),
        ("7.66s", 7.66),
        ("500", 500.0),
        ("2m59.56s", 179.56),
        ("100us", 0.0001),
        ("100µs", 0.0001),
        ("2026-11-29T12:00:30Z", 30.0),
    ],
)
def test_resets(reset: str, expected: float) -> None:
    """Go durations, integer seconds and times all become seconds from now."""
    found = read({"x-ratelimit-remaining-tokens": "9", "x-ratelimit-reset-tokens": reset}, NOW)
    assert [Limit("tokens", None, 9, pytest.approx(expected))] == found


@pytest.mark.parametrize(
    "reset",
    [
        "soon",
        "1x",
        "s",
        "-3",
        "1d",
        "2026-11-29T12:00:30",
        "2026-13-01T00:00:00Z",
        "9" * 40,
        "1h" * 40,
        "999999999h",
    ],
)
def test_resets_that_are_none(reset: str) -> None:
    """A reset that cannot be read is absent and noted; the rest of the limit stands."""
    noted: list[str] = []
    found = read({"x-ratelimit-remaining-tokens": "9", "x-ratelimit-reset-tokens": reset}, NOW, noted)
    assert ([Limit("tokens", None, 9, None)], ["limit"]) == (found, noted)


def test_unknown() -> None:
    """−1 means unknown: no limit, and no fault."""
    noted: list[str] = []
    headers = {
        "x-ratelimit-limit-tokens": "-1",
        "x-ratelimit-remaining-tokens": "-1",
        "x-ratelimit-reset-tokens": "0",
        "x-ratelimit-limit-requests": "100",
        "x-ratelimit-remaining-requests": "99",
        "x-ratelimit-limit-project-tokens": "5",
        "x-ratelimit-abusepenalty-active": "False",
        "x-ratelimit-renewalperiod-tokens": "60",
    }
    expected = [Limit("requests", 100, 99, None), Limit("project_tokens", 5, None, None)]
    assert (expected, []) == (read(headers, NOW, noted), noted)


def test_wrong_counts() -> None:
    """A count that is none is absent and noted."""
    noted: list[str] = []
    headers = {
        "x-ratelimit-limit-tokens": "many",
        "x-ratelimit-remaining-tokens": "9e9",
        "x-ratelimit-limit-requests": "5",
    }
    assert [Limit("requests", 5, None, None)] == read(headers, NOW, noted)
    assert ["limit", "limit"] == noted


_NAMES = st.sampled_from(
    [
        f"x-ratelimit-{part}-{what}"
        for part in ("limit", "remaining", "reset")
        for what in ("requests", "tokens", "project-tokens")
    ]
    + [
        f"anthropic-{what}-{part}"
        for part in ("limit", "remaining", "reset")
        for what in ("ratelimit-tokens", "fast-input-tokens")
    ]
)


@settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(
    st.dictionaries(
        _NAMES,
        st.one_of(st.text(max_size=40), st.sampled_from(["1", "-1", "1s", "9" * 30, "2026-01-01T00:00:00Z"])),
    )
)
def test_any_headers(headers: dict[str, str]) -> None:
    """No header raises; what comes out is in the catalogue and of sane size."""
    for limit in read(headers, NOW):
        assert limit.resource in RESOURCE.values
        assert limit.limit is None or 0 <= limit.limit <= 1 << 53
        assert limit.reset_seconds is None or 0 <= limit.reset_seconds <= 366 * 86_400
