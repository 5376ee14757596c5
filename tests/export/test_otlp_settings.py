"""The standard variables of OTLP: what cannot work is an error before anything is changed."""

from __future__ import annotations

import pytest

import lz_otel
from lz_otel._export import _otlp_settings
from lz_otel._runtime import _Runtime
from lz_otel.errors import ConfigurationError

OTLP = "OTEL_EXPORTER_OTLP_"
GRPC = "a URL such as http://collector:4317, or host:port"


@pytest.mark.parametrize(
    ("signal", "environ", "named", "allowed"),
    [
        ("metrics", {"PROTOCOL": "carrier"}, "PROTOCOL='carrier'", "grpc or http/protobuf"),
        ("metrics", {"PROTOCOL": "http/json"}, "PROTOCOL='http/json'", "grpc or http/protobuf"),
        (
            "metrics",
            {"METRICS_PROTOCOL": "x", "PROTOCOL": "grpc"},
            "METRICS_PROTOCOL='x'",
            "grpc or http/protobuf",
        ),
        ("traces", {"TRACES_PROTOCOL": "x"}, "TRACES_PROTOCOL='x'", "grpc or http/protobuf"),
        ("metrics", {"ENDPOINT": "nonsense"}, "ENDPOINT='nonsense'", "a URL such as http://"),
        ("metrics", {"ENDPOINT": "collector:4318"}, "ENDPOINT='collector:4318'", "a URL such as http://"),
        ("metrics", {"ENDPOINT": "ftp://collector"}, "ENDPOINT='ftp://collector'", "a URL such as http://"),
        ("metrics", {"ENDPOINT": "http://"}, "ENDPOINT='http://'", "a URL such as http://"),
        ("metrics", {"ENDPOINT": "http://c:99999"}, "ENDPOINT='http://c:99999'", "a URL such as http://"),
        (
            "metrics",
            {"METRICS_ENDPOINT": "x", "ENDPOINT": "http://c"},
            "METRICS_ENDPOINT='x'",
            "a URL such as",
        ),
        ("traces", {"ENDPOINT": "http://a b"}, "ENDPOINT='http://a b'", "a URL such as"),
        ("metrics", {"PROTOCOL": "grpc", "ENDPOINT": "collector"}, "ENDPOINT='collector'", GRPC),
        ("metrics", {"PROTOCOL": "grpc", "ENDPOINT": "a b:1"}, "ENDPOINT='a b:1'", GRPC),
        (
            "metrics",
            {"ENDPOINT": "ftp://user:CANARY@c/p?key=CANARY"},
            "ENDPOINT='ftp://c'",
            "a URL such as http://",
        ),
        ("metrics", {"ENDPOINT": "ftp://u:CA/NARY@c:1/CANARY"}, "ENDPOINT='ftp://c:1'", "a URL such as"),
        ("traces", {"ENDPOINT": "user:CANARY@c/CANARY"}, "ENDPOINT='c'", "a URL such as"),
    ],
)
def test_otlp_is_checked_at_start_up(
    signal: str, environ: dict[str, str], named: str, allowed: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Protocol and endpoint that cannot work are an error: variable, value (no secrets), what is allowed."""
    for name, value in environ.items():
        monkeypatch.setenv(OTLP + name, value)
    with pytest.raises(ConfigurationError) as caught:
        _otlp_settings.check(signal)
    assert str(caught.value).startswith(f"{OTLP}{named} cannot be used: expected {allowed}")


@pytest.mark.parametrize(
    "environ",
    [
        {},
        {"PROTOCOL": "", "ENDPOINT": " "},
        {"PROTOCOL": "HTTP/protobuf", "ENDPOINT": "https://user:pass@collector.example/x?key=1"},
        {"ENDPOINT": "http://[::1]:4318"},
        {"ENDPOINT": "http://otel_collector:4318/"},
        {"ENDPOINT": "nonsense", "METRICS_ENDPOINT": "http://127.0.0.1:4318/v1/metrics"},
        {"PROTOCOL": "grpc", "ENDPOINT": "http://collector:4317"},
        {"PROTOCOL": "grpc", "ENDPOINT": "collector:4317"},
        {"PROTOCOL": "grpc", "ENDPOINT": "dns:///collector:4317"},
        {"PROTOCOL": "grpc", "ENDPOINT": "unix:/run/otel.sock"},
        {"PROTOCOL": "carrier", "METRICS_PROTOCOL": "grpc"},
    ],
)
def test_otlp_settings_that_work_are_taken(environ: dict[str, str], monkeypatch: pytest.MonkeyPatch) -> None:
    """What the SDK's exporters can use is no error; a variable that does not hold is not judged."""
    for name, value in environ.items():
        monkeypatch.setenv(OTLP + name, value)
    _otlp_settings.check("metrics")


@pytest.mark.parametrize(
    ("exporters", "refused", "left"),
    [
        ({"exporters": "otlp"}, True, ()),
        ({}, True, ("prometheus",)),
        ({"exporters": "none"}, False, ()),
        ({"exporters": "console"}, False, ("console",)),
        ({"exporters": "none", "trace_exporters": "otlp"}, True, ()),
        ({"exporters": "none", "trace_exporters": "console"}, False, ()),
    ],
)
def test_otlp_is_checked_where_it_is_used(
    exporters: dict[str, str],
    refused: bool,
    left: tuple[str, ...],
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    """`instrument` checks them exactly when metrics or spans go by OTLP, and goes on without."""
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", "nonsense")
    monkeypatch.setattr(_Runtime, "start", lambda self: None)
    assert left == lz_otel.instrument(**exporters).exporters
    told = [
        r for r in caplog.records if "OTEL_EXPORTER_OTLP_ENDPOINT='nonsense' cannot be used" in r.getMessage()
    ]
    assert refused == bool(told)
    assert 1 >= len(told)
