"""Outages: what may be said of an endpoint and of an error."""

from __future__ import annotations

import pytest

from lz_otel._export._outage import _cause, endpoint


@pytest.mark.parametrize(
    ("url", "wanted"),
    [
        ("http://localhost:4318/v1/metrics", " to http://localhost:4318"),
        ("https://user:secret@example.com/v1?key=secret", " to https://example.com"),
        ("collector:4317", " to collector:4317"),
        ("http://[::1", ""),
        (None, ""),
    ],
)
def test_endpoint_shows_no_secret(url: object, wanted: str) -> None:
    """Of an endpoint only scheme, host and port are shown."""
    exporter = type("Exporter", (), {"_endpoint": url})()
    assert wanted == endpoint(exporter)


def test_cause_finds_the_systems_error() -> None:
    """The reason is the outermost class and the system's own words; texts of exceptions are left out."""
    inner = ConnectionRefusedError(111, "Connection refused")
    middle = ValueError("url: /v1?key=secret")
    middle.__cause__ = inner
    outer = RuntimeError(middle)
    assert "RuntimeError: Connection refused" == _cause(outer)
    loop = KeyError("secret")
    loop.__cause__ = loop
    assert "KeyError" == _cause(loop)
