"""The table of settings: precedence, types, and errors that name setting, value and what is allowed."""

from __future__ import annotations

import re
import time
import tomllib
import traceback
from collections.abc import Sequence
from pathlib import Path
from types import UnionType
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

import httpx2
import pytest

import lz_otel
from lz_otel._config import SETTINGS, InstrumentSettings, Settings, load
from lz_otel._extract import candidate, identify
from lz_otel._ground.headers import head_of
from lz_otel._price.price_file import load_table
from lz_otel.errors import ConfigurationError
from lz_otel.model import Request


def test_every_setting_has_a_default_that_can_be_used() -> None:
    """Without any variable every default is valid, and Settings has one field per row."""
    made = load(environ={})
    assert {s.field for s in SETTINGS} == set(Settings.__dataclass_fields__)
    assert made.prometheus_port == 9464
    assert made.export_interval == 60.0
    assert made.mechanisms == ("auto",)
    assert made.exporters is None


def accepts(hint: Any, value: object) -> bool:
    """Whether a type hint of the settings allows a value."""
    kind, parts = get_origin(hint), get_args(hint)
    if kind in (Union, UnionType):
        return any(accepts(part, value) for part in parts)
    if kind is Literal:
        return value in parts
    if kind is Sequence:
        return isinstance(value, (list, tuple)) and all(accepts(parts[0], item) for item in value)
    return isinstance(value, kind or hint)


def test_type_checkers_see_the_table() -> None:
    """Keyword arguments have one type per row, in the table's order; each allows its default."""
    hints = get_type_hints(InstrumentSettings, localns={"Sequence": Sequence})
    assert [s.field for s in SETTINGS] == list(hints)
    defaults = load(environ={})
    assert [] == [name for name, hint in hints.items() if not accepts(hint, getattr(defaults, name))]
    arguments = {
        s.field: getattr(defaults, s.field) for s in SETTINGS if not s.field.startswith("export_")
    }  # ms
    assert arguments == {name: getattr(load(environ={}, **arguments), name) for name in arguments}


def test_argument_beats_variable_beats_default() -> None:
    """Keyword arguments are on top of the environment; an empty variable counts as unset."""
    environ = {"OTEL_EXPORTER_PROMETHEUS_PORT": "9000", "LZ_OTEL_MECHANISMS": ""}
    assert load(environ=environ).prometheus_port == 9000
    assert load(environ=environ, prometheus_port=0).prometheus_port == 0
    assert load(environ=environ).mechanisms == ("auto",)


@pytest.mark.parametrize(
    ("name", "value", "allowed"),
    [
        ("LZ_OTEL_MECHANISMS", "symbolic,magic", "symbolic, pruning"),
        ("LZ_OTEL_GENAI_CONVENTIONS", "1.40", "latest, 1.36 or both"),
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
    assert repr(value) in text
    assert allowed in text


@pytest.mark.parametrize(
    ("name", "value", "allowed"),
    [
        ("OTEL_METRICS_EXPORTER", "prometeus", "prometheus, otlp, console"),
        ("OTEL_EXPORTER_PROMETHEUS_PORT", "80000", "0 to 65535"),
        ("OTEL_SDK_DISABLED", "maybe", "true or false"),
        ("OTEL_METRIC_EXPORT_INTERVAL", "0", "milliseconds from 1"),
        ("OTEL_EXPORTER_PROMETHEUS_HOST", "no such host!", "a host name or IP address"),
        ("OTEL_EXPORTER_PROMETHEUS_HOST", "256.1.1.1", "a host name or IP address"),
        ("OTEL_EXPORTER_PROMETHEUS_HOST", "localhost:9464", "without port"),
        ("OTEL_EXPORTER_PROMETHEUS_HOST", "[::1]", "a host name or IP address"),
        ("OTEL_EXPORTER_PROMETHEUS_HOST", "a..b", "a host name or IP address"),
        ("OTEL_EXPORTER_PROMETHEUS_HOST", "-a", "a host name or IP address"),
        ("OTEL_EXPORTER_PROMETHEUS_HOST", "x" * 64, "a host name or IP address"),
        ("OTEL_EXPORTER_PROMETHEUS_HOST", "ü" * 64, "a host name or IP address"),
    ],
)
def test_a_shared_variable_is_a_warning(
    name: str, value: str, allowed: str, caplog: pytest.LogCaptureFixture
) -> None:
    """OpenTelemetry's variables, which other SDKs share, stop no service: one line, and the default holds."""
    assert load(environ={}) == load(environ={name: value})
    [line] = [record.getMessage() for record in caplog.records]
    assert f"{name}={value!r} cannot be used: expected " in line
    assert allowed in line
    field = next(setting.field for setting in SETTINGS if setting.env == name)
    with pytest.raises(ConfigurationError):
        load(environ={}, **{field: value})


@pytest.mark.parametrize(
    ("value", "metrics", "traces", "told"),
    [
        ("otlp_proto_http", ("otlp",), ("otlp",), ""),
        ("otlp_proto_grpc", ("otlp",), ("otlp",), ""),
        ("otlp,logging", ("otlp", "console"), ("otlp", "console"), ""),
        ("console", ("console",), ("console",), ""),
        ("none", ("none",), ("none",), ""),
        ("none,otlp", ("otlp",), ("otlp",), "only otlp is used"),
        ("zipkin", None, None, "those are left out"),
        ("jaeger,otlp", ("otlp",), ("otlp",), "only otlp is used"),
        ("prometheus,otlp", ("prometheus", "otlp"), ("otlp",), "only otlp is used"),
    ],
)
def test_exporters_by_the_names_of_other_sdks(
    value: str, metrics: Any, traces: Any, told: str, caplog: pytest.LogCaptureFixture
) -> None:
    """What another SDK accepts is understood, or skipped with one line for each variable."""
    settings = load(environ={"OTEL_METRICS_EXPORTER": value, "OTEL_TRACES_EXPORTER": value})
    assert (metrics, traces) == (settings.exporters, settings.trace_exporters)
    assert all(told and told in record.getMessage() for record in caplog.records)
    assert bool(told) == bool(caplog.records)


@pytest.mark.parametrize(
    ("name", "meant"),
    [
        ("LZ_OTEL_MECHANISM", "did you mean LZ_OTEL_MECHANISMS?"),
        ("LZ_OTEL_PROVIDER", "did you mean LZ_OTEL_PROVIDERS?"),
        ("LZ_OTEL_XYZZY_QUUX_FROBNICATE", "known are LZ_OTEL_MECHANISMS, "),
    ],
)
def test_a_misspelt_variable_is_told(name: str, meant: str, caplog: pytest.LogCaptureFixture) -> None:
    """With the nearest name, and without its value; one of another library is none of our business."""
    load(environ={name: "CANARY", "LZ_OTHER": "1"})
    [line] = [record.getMessage() for record in caplog.records]
    assert line.startswith(f"lz_otel: {name} is no setting: {meant}")
    assert "CANARY" not in line


def test_a_variable_that_means_nothing_here_is_not_read(caplog: pytest.LogCaptureFixture) -> None:
    """Where the application has its own provider no variable for ours is looked at."""
    settings = load(environ={"OTEL_METRICS_EXPORTER": "zipkin"}, unread=("exporters",))
    assert (None, []) == (settings.exporters, caplog.records)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("OTEL_EXPORTER_PROMETHEUS_HOST", "http://u:CANARY@host"),
        ("OTEL_METRICS_EXPORTER", "otlp?key=CANARY"),
    ],
)
def test_a_warning_shows_no_secret(name: str, value: str, caplog: pytest.LogCaptureFixture) -> None:
    """Nor does the line about a shared variable."""
    load(environ={name: value})
    assert f"{name}=(not shown, it may hold a secret) cannot be used" in caplog.text
    assert "CANARY" not in caplog.text


@pytest.mark.parametrize(
    ("name", "value", "allowed"),
    [
        ("LZ_OTEL_PROVIDERS", "gateway.test", "host=provider"),
        ("LZ_OTEL_PROVIDERS", "gateway.test:8000=vllm", "without scheme, port and path"),
        ("LZ_OTEL_PROVIDERS", "https://gateway.test=vllm", "without scheme, port and path"),
        ("LZ_OTEL_PROVIDERS", "gateway.test/v1=vllm", "without scheme, port and path"),
        ("LZ_OTEL_PROVIDERS", "a=Vllm", "at most 40 characters out of [a-z0-9_.-]"),
        ("LZ_OTEL_RESPONSE_CACHE_HEADER", "x-other", "'name: value'"),
        ("LZ_OTEL_PROVIDERS", "a=vllm, CANARY@gateway.test=vllm", "(pair 2 is none)"),
        ("LZ_OTEL_PROVIDERS", "gateway.test=sk-CANARY", "(pair 1 is none)"),
        ("LZ_OTEL_RESPONSE_CACHE_HEADER", "x my cache: CANARY", "'name: value'"),
    ],
)
def test_what_may_be_a_secret_is_not_shown(name: str, value: str, allowed: str) -> None:
    """An error does not hold a value with a place for keys and passwords, in its text or elsewhere."""
    with pytest.raises(ConfigurationError) as caught:
        load(environ={name: value})
    assert f"{name}=(not shown, it may hold a secret) cannot be used" in str(caught.value)
    assert allowed in str(caught.value)
    assert value not in "".join(traceback.format_exception(caught.value))
    assert value not in map(str, vars(caught.value).values())


@pytest.mark.parametrize(
    "arguments",
    [
        {"providers": ["CANARY"]},
        {"providers": {"CANARY@gateway.test": "vllm"}},
        {"response_cache_header": ("x-my-cache", "CANARY")},
        {"response_cache_header": "CANARY"},
        {"prometheus_host": "u:CANARY@host"},
        {"exporters": ("CANARY@host",)},
    ],
)
def test_secrets_in_arguments_are_not_shown(arguments: dict[str, Any]) -> None:
    """The same holds for keyword arguments."""
    with pytest.raises(ConfigurationError) as caught:
        load(environ={}, **arguments)
    assert "CANARY" not in "".join(traceback.format_exception(caught.value))


@pytest.mark.parametrize(
    "arguments",
    [
        {"disabled": 1},
        {"prometheus_port": True},
        {"exporters": 5},
        {"providers": ["a"]},
        {"call_log": "perhaps"},
        {"prometheus_host": ""},
        {"prometheus_host": "no such host!"},
        {"providers": {"gateway.test:8000": "vllm"}},
    ],
)
def test_arguments_of_the_wrong_type_are_errors(arguments: dict[str, Any]) -> None:
    """A keyword argument is as strict as its variable."""
    with pytest.raises(ConfigurationError, match=r"instrument\(" + next(iter(arguments))):
        load(environ={}, **arguments)


@pytest.mark.parametrize(
    "host",
    [
        "localhost",
        "0.0.0.0",
        "::",
        "::1",
        "fe80::1%eth0",
        "a",
        "my_service",
        "a-1.Example.test.",
        "bücher.example",
        "10.example",
    ],
)
def test_names_and_addresses_are_hosts(host: str) -> None:
    """What can be a host is taken as it is."""
    assert load(environ={"OTEL_EXPORTER_PROMETHEUS_HOST": host}).prometheus_host == host


@pytest.mark.parametrize(
    ("written", "asked"),
    [("GW.Test", "gw.test"), ("::1", "::1"), ("bücher.example", "xn--bcher-kva.example")],
)
def test_hosts_of_providers_are_those_of_requests(written: str, asked: str) -> None:
    """A host of your own is compared in the form that requests have, which is without port."""
    assert {
        httpx2.URL(f"http://{f'[{asked}]' if ':' in asked else asked}:8000/v1").raw_host.decode(): "vllm"
    } == load(environ={"LZ_OTEL_PROVIDERS": f"{written}=vllm"}).providers


@pytest.mark.parametrize("field", ["prices", "signals", "audit_log"])
def test_errors_of_files_name_what_was_used(field: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A path given as an argument is told as the argument, one of the environment as the variable alone."""
    variable = next(s.env for s in SETTINGS if s.field == field)
    for given in (True, False):
        if not given:
            monkeypatch.setenv(variable, "/no/such/file")
        with pytest.raises(ConfigurationError) as caught:
            lz_otel.instrument(exporters="none", **({field: "/no/such/file"} if given else {}))
        assert given == (f"instrument({field}=...)" in str(caught.value))
        assert [True, True] == [part in str(caught.value) for part in (variable, "/no/such/file")]


@pytest.mark.parametrize(
    ("path", "headers", "provider"),
    [
        ("/v1/messages", {}, "other"),
        ("/v1/chat/completions", {}, "other"),
        ("/openai/v1/chat/completions", {}, "openai"),
        ("/v1/messages", {"anthropic-version": "2023-06-01"}, "anthropic"),
        ("/api/chat", {}, "ollama"),
        ("/model/anthropic.claude-haiku-4-5-v1:0/converse", {}, "aws.bedrock"),
        ("/model/anthropic.claude-haiku-4-5-v1:0/invoke", {}, "aws.bedrock"),
        ("/v1beta/models/gemini-3:generateContent", {}, "gcp.gen_ai"),
    ],
)
def test_what_the_documentation_says_of_unknown_hosts(
    path: str, headers: dict[str, str], provider: str
) -> None:
    """The provider of a host that nobody has named is the one that the page says."""
    page = (Path(__file__).parents[1] / "docs" / "configuration.md").read_text("utf-8")
    section = page[page.index("Hosts that are not known") : page.index("LZ_OTEL_PROVIDERS=")]
    body = (
        b'{"model": "m", "messages": [{"role": "user", "content": "x"}],'
        b' "contents": [{"parts": [{"text": "x"}]}]}'
    )
    found = identify(
        candidate("POST", path) or (),
        Request("POST", "llm.internal", path, headers=head_of(headers), body=body),
    )
    assert found is not None
    assert provider == found.facts.provider
    assert provider == "openai" or f"`{provider}`" in section


def test_the_price_file_of_the_documentation_loads(tmp_path: Path) -> None:
    """The example of a price file in the documentation gives the prices that it shows."""
    page = (Path(__file__).parents[1] / "docs" / "configuration.md").read_text("utf-8")
    [example] = re.findall(r"```toml\n(.*?)```", page, re.DOTALL)
    path = tmp_path / "prices.toml"
    path.write_text(example)
    wanted = tomllib.loads(example)["model"][0]
    for name in wanted["ids"]:
        row, _, _ = load_table(str(path)).find(name, "vllm", time.time())
        assert row is not None
        assert row.user
        assert [wanted[k] for k in ("input", "output", "cache_read")] == pytest.approx(
            [1e6 * r for r in (row.rates.input, row.rates.output, row.rates.cache_read)]
        )


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
