"""Outages: what may be said of an endpoint and of an error."""

from __future__ import annotations

from pathlib import Path

import pytest

from lz_otel._export._outage import _cause, endpoint
from tests.processes import run

PROGRAMS = Path(__file__).parent / "programs"


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


def test_a_404_names_the_path_that_was_asked() -> None:
    """A path that is doubled by the exporter is seen in the warning; a part that may be a key is not."""
    url = "http://user:secret@localhost:4318/v1/metrics/v1/metrics?key=secret"
    exporter = type("Exporter", (), {"_endpoint": url})()
    assert " to http://localhost:4318/v1/metrics/v1/metrics" == endpoint(exporter, "HTTP 404")
    assert " to http://localhost:4318" == endpoint(exporter, "HTTP 401")
    exporter._endpoint = "http://localhost/otlp/0123456789abcdef0123456789/v1/metrics"
    assert " to http://localhost/otlp/***/v1/metrics" == endpoint(exporter, "HTTP 404")


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


@pytest.mark.parametrize("protocol", ["http/protobuf", "grpc"])
@pytest.mark.parametrize(
    ("headers", "lines"),
    [("authorization CANARY", 2), ("x=1,CANARY;x,y=2", 2), ("authorization=Bearer%0ACANARY", 0)],
)
def test_headers_are_never_in_the_log(headers: str, lines: int, protocol: str) -> None:
    """Headers that cannot be read or sent: what is wrong is told, for metrics and for spans, without them."""
    if protocol == "grpc":
        pytest.importorskip("grpc")
    told = run(
        PROGRAMS / "unreadable_headers.py",
        OTEL_EXPORTER_OTLP_PROTOCOL=protocol,
        OTEL_EXPORTER_OTLP_HEADERS=headers,
        OTEL_EXPORTER_OTLP_ENDPOINT="http://127.0.0.1:1",
        OTEL_EXPORTER_OTLP_TIMEOUT="1",
    ).stderr
    assert "CANARY" not in told
    assert lines == told.count("has a part that cannot be read and is left out")
