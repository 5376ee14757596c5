"""The table of settings: precedence, types, and errors that name setting, value and what is allowed."""

from __future__ import annotations

from typing import Any

import pytest

from lz_otel._config import SETTINGS, Settings, load
from lz_otel.errors import ConfigurationError


def test_every_setting_has_a_default_that_can_be_used() -> None:
    """Without any variable every default is valid, and Settings has one field per row."""
    made = load(environ={})
    assert {s.field for s in SETTINGS} == set(Settings.__dataclass_fields__)
    assert made.prometheus_port == 9464
    assert made.export_interval == 60.0
    assert made.mechanisms == ("auto",)
    assert made.exporters is None


def test_argument_beats_variable_beats_default() -> None:
    """Keyword arguments are on top of the environment; an empty variable counts as unset."""
    environ = {"OTEL_EXPORTER_PROMETHEUS_PORT": "9000", "LZ_OTEL_MECHANISMS": ""}
    assert load(environ=environ).prometheus_port == 9000
    assert load(environ=environ, prometheus_port=0).prometheus_port == 0
    assert load(environ=environ).mechanisms == ("auto",)


@pytest.mark.parametrize(
    ("name", "value", "allowed"),
    [
        ("OTEL_METRICS_EXPORTER", "prometeus", "prometheus, otlp, console"),
        ("OTEL_METRICS_EXPORTER", "none,otlp", "or none"),
        ("OTEL_EXPORTER_PROMETHEUS_PORT", "80000", "0 to 65535"),
        ("OTEL_SDK_DISABLED", "maybe", "true or false"),
        ("OTEL_METRIC_EXPORT_INTERVAL", "0", "milliseconds from 1"),
        ("LZ_OTEL_MECHANISMS", "symbolic,magic", "symbolic, pruning"),
        ("LZ_OTEL_GENAI_CONVENTIONS", "1.40", "latest, 1.36 or both"),
        ("LZ_OTEL_PROVIDERS", "gateway.test", "host=provider"),
        ("LZ_OTEL_RESPONSE_CACHE_HEADER", "x-my-cache", "'name: value'"),
        ("LZ_OTEL_OVERHEAD_SAMPLE", "2", "from 0 to 1"),
        ("LZ_OTEL_MAX_SERIES", "0", "from 1"),
    ],
)
def test_errors_name_setting_value_and_what_is_allowed(name: str, value: str, allowed: str) -> None:
    """A value that cannot be used is one clear error."""
    with pytest.raises(ConfigurationError) as caught:
        load(environ={name: value})
    text = str(caught.value)
    assert name in text
        ("LZ_OTEL_PROVIDERS", "gateway.test:8000=vllm", "without scheme, port and path"),
        ("LZ_OTEL_PROVIDERS", "https://gateway.test=vllm", "without scheme, port and path"),
        ("LZ_OTEL_PROVIDERS", "gateway.test/v1=vllm", "without scheme, port and path"),
        ("LZ_OTEL_PROVIDERS", "a=Vllm", "at most 40 characters out of [a-z0-9_.-]"),
        ("OTEL_EXPORTER_PROMETHEUS_HOST", "no such host!", "a host name or IP address"),
        ("OTEL_EXPORTER_PROMETHEUS_HOST", "256.1.1.1", "a host name or IP address"),
        ("OTEL_EXPORTER_PROMETHEUS_HOST", "localhost:9464", "without port"),
        ("OTEL_EXPORTER_PROMETHEUS_HOST", "[::1]", "a host name or IP address"),
        ("OTEL_EXPORTER_PROMETHEUS_HOST", "a..b", "a host name or IP address"),
        ("OTEL_EXPORTER_PROMETHEUS_HOST", "-a", "a host name or IP address"),
        ("OTEL_EXPORTER_PROMETHEUS_HOST", "x" * 64, "a host name or IP address"),
        ("OTEL_EXPORTER_PROMETHEUS_HOST", "ü" * 64, "a host name or IP address"),
    assert repr(value) in text
    assert allowed in text


@pytest.mark.parametrize(
    "arguments",
    [{"disabled": 1}, {"prometheus_port": True}, {"exporters": 5}, {"providers": ["a"]}, {"call_log": "perhaps"}, {"prometheus_host": ""},
     {"prometheus_host": "no such host!"}, {"providers": {"gateway.test:8000": "vllm"}}],
)
def test_arguments_of_the_wrong_type_are_errors(arguments: dict[str, Any]) -> None:
    """A keyword argument is as strict as its variable."""
    with pytest.raises(ConfigurationError, match=r"instrument\(" + next(iter(arguments))):
        load(environ={}, **arguments)


def test_unknown_argument_is_an_error() -> None:
    """A misspelt setting is not ignored."""
    with pytest.raises(TypeError, match="'exporter'"):
        load(environ={}, exporter="otlp")


def test_values_are_what_they_say() -> None:
    """Lists, maps and headers are parsed, names in lower case."""
    made = load(
        environ={
            "OTEL_METRICS_EXPORTER": "Prometheus, OTLP",
            "LZ_OTEL_PROVIDERS": "gw.Test=anthropic, llm.local=mistral_ai",
            "LZ_OTEL_RESPONSE_CACHE_HEADER": "X-My-Cache: HIT",
            "LZ_OTEL_MECHANISMS": "symbolic,prompt_cache",
        }
    )
    assert made.exporters == ("prometheus", "otlp")
    assert made.providers == {"gw.test": "anthropic", "llm.local": "mistral_ai"}
    assert made.response_cache_header == ("x-my-cache", "hit")
    assert made.mechanisms == ("symbolic", "prompt_cache")
