"""instrument(): which exporters, whose providers, what is said, and what is left when it is undone."""

from __future__ import annotations

import gc
import logging
import re
import sys
import threading
import urllib.request
from pathlib import Path
from typing import TYPE_CHECKING, Any

import httpx2
import pytest
from opentelemetry import metrics, trace
from opentelemetry.instrumentation import httpx as package
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader
from opentelemetry.sdk.trace import TracerProvider
from prometheus_client import CollectorRegistry, generate_latest

import lz_otel
from lz_otel import _runtime
from lz_otel._capture import imports
from lz_otel._ground.guard import guard
from tests.processes import run
from tests.wire_doubles import A_JSON, transport

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

PROGRAMS = Path(__file__).parent / "programs"
URL = "https://api.anthropic.com/v1/messages"
ASK = {"model": "claude-opus-5", "max_tokens": 10, "messages": [{"role": "user", "content": "x"}]}


@pytest.fixture
def registry() -> CollectorRegistry:
    """A registry of the test's own."""
    return CollectorRegistry()


@pytest.fixture
def global_provider(monkeypatch: pytest.MonkeyPatch) -> Iterator[InMemoryMetricReader]:
    """An application that has set a MeterProvider of its own."""
    from opentelemetry.metrics import _internal

    reader = InMemoryMetricReader()
    provider = MeterProvider([reader])
    monkeypatch.setattr(_internal, "_METER_PROVIDER", provider)
    assert metrics.get_meter_provider() is provider
    yield reader
    provider.shutdown()


@pytest.fixture
def instrumentor() -> Iterator[Any]:
    """The instrumentor of httpx2 (of httpx, where that is all there is), off before and after."""
    names = ("HTTPXClientInstrumentor", "HTTPX2ClientInstrumentor")
    known = [getattr(package, name)() for name in names if hasattr(package, name)]
    for one in known:
        if one.is_instrumented_by_opentelemetry:
            one.uninstrument()
    yield known[-1]
    for one in known:
        if one.is_instrumented_by_opentelemetry:
            one.uninstrument()


def one_call() -> None:
    """One good call through a double."""
    client = httpx2.Client(transport=transport(httpx2, lambda r: httpx2.Response(200, json=A_JSON)))
    lz_otel.instrument_client(client)
    client.post(URL, json=ASK)


def scraped(port: int) -> str:
    """The text of our own /metrics."""
    with urllib.request.urlopen(f"http://localhost:{port}/metrics", timeout=5) as answer:
        text: str = answer.read().decode()
    return text


def test_default_is_prometheus_on_its_port(registry: CollectorRegistry) -> None:
    """Without any setting metrics are served by Prometheus, in the registry and on the port."""
    status = lz_otel.instrument(prometheus_port=0, registry=registry)
    assert status.exporters == ("prometheus",)
    assert status.prometheus_port
    one_call()
    text = scraped(status.prometheus_port)
    for name in (
        "gen_ai_client_inference_duration_seconds_count",
        "lz_attempts_total",
        "lz_cost_usd_total",
        "lz_call_active",
        "lz_build_info",
        "lz_internal_errors_total",
    ):
        assert name in text
    assert "lz_attempts_total" in generate_latest(registry).decode()


def test_otlp_joins_as_soon_as_an_endpoint_is_set(
    registry: CollectorRegistry, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The standard variable for an endpoint switches OTLP on, besides Prometheus."""
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", "http://127.0.0.1:9")
    assert lz_otel.instrument(prometheus_port=0, registry=registry).exporters == ("prometheus", "otlp")


@pytest.fixture
def new_threads() -> Callable[[], set[str]]:
    """What gives the names of the threads that were started in this test."""
    before = set(threading.enumerate())
    return lambda: {thread.name for thread in set(threading.enumerate()) - before}


def test_only_the_port_has_a_thread_before_the_first_call(
    registry: CollectorRegistry, monkeypatch: pytest.MonkeyPatch, new_threads: Callable[[], set[str]]
) -> None:
    """A service may fork first; from Python 3.12 on a fork beside threads is a warning."""
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", "http://127.0.0.1:9")
    lz_otel.instrument(prometheus_port=0, registry=registry)
    assert {"lz-otel-prometheus"} == new_threads()
    with httpx2.Client(transport=httpx2.MockTransport(lambda _: httpx2.Response(200, json={}))) as client:
        lz_otel.instrument_client(client)
        client.get("https://example.org/")
        assert {"lz-otel-prometheus"} == new_threads()
        client.post(URL, json=ASK)
    assert {"lz-otel-prometheus", "lz-otel-push"} == new_threads()


def test_what_the_application_reports_is_pushed_without_a_call(
    monkeypatch: pytest.MonkeyPatch, new_threads: Callable[[], set[str]]
) -> None:
    """Not every number comes from a call."""
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", "http://127.0.0.1:9")
    lz_otel.instrument(exporters="otlp")
    assert set() == new_threads()
    lz_otel.record_response_cache(hit=True)
    assert {"lz-otel-push"} == new_threads()


def test_the_applications_meter_provider_is_used_and_alone(global_provider: InMemoryMetricReader) -> None:
    """An application with its own MeterProvider gets the numbers there, once, and no port is opened."""
    status = lz_otel.instrument()
    assert (status.exporters, status.prometheus_port) == (("meter_provider",), None)
    one_call()
    data: Any = global_provider.get_metrics_data()
    found = {m.name: m for r in data.resource_metrics for s in r.scope_metrics for m in s.metrics}
    points = found["gen_ai.client.inference.duration"].data.data_points
    assert [(p.count, p.attributes["lz.ending"]) for p in points] == [(1, "ok")]
    tokens = found["gen_ai.client.inference.usage.input_tokens"].data.data_points
    assert [p.value for p in tokens] == [2104]


def test_exporters_said_aloud_are_used_beside_it(
    global_provider: InMemoryMetricReader, registry: CollectorRegistry
) -> None:
    """Exporters given on purpose are ours; the global provider then stays out of it: nothing is doubled."""
    status = lz_otel.instrument(exporters=("prometheus",), prometheus_port=0, registry=registry)
    assert status.exporters == ("prometheus",)
    one_call()
    assert global_provider.get_metrics_data() is None


def test_none_means_none() -> None:
    """With no exporter there is no thread and no port."""
    before = threading.active_count()
    status = lz_otel.instrument(exporters="none")
    assert (status.enabled, status.exporters, status.prometheus_port) == (True, (), None)
    one_call()
    assert threading.active_count() == before


def test_disabled_does_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """OTEL_SDK_DISABLED switches everything off."""
    monkeypatch.setenv("OTEL_SDK_DISABLED", "true")
    original = httpx2.HTTPTransport.handle_request
    assert lz_otel.instrument().enabled is False
    assert httpx2.HTTPTransport.handle_request is original


def test_a_bad_setting_leaves_nothing_behind(monkeypatch: pytest.MonkeyPatch) -> None:
    """A setting that cannot be used is an error at start-up, and nothing has been hooked."""
    original = httpx2.HTTPTransport.handle_request
    monkeypatch.setenv("LZ_OTEL_PRICES", "/nowhere/prices.toml")
    with pytest.raises(lz_otel.ConfigurationError, match=r"LZ_OTEL_PRICES|/nowhere"):
        lz_otel.instrument(exporters="none")
    assert lz_otel.status().enabled is False
    assert httpx2.HTTPTransport.handle_request is original


@pytest.mark.parametrize(
    ("variables", "said"),
    [
        (
            {"OTEL_BSP_MAX_QUEUE_SIZE": "100"},
            r"OTEL_BSP_MAX_QUEUE_SIZE='100' cannot .*ValueError: max_export_batch_size must",
        ),
        (
            {"OTEL_BSP_MAX_QUEUE_SIZE": "9", "OTEL_BSP_MAX_EXPORT_BATCH_SIZE": "10"},
            r"BATCH_SIZE='\d+, \d+' cannot",
        ),
        ({"OTEL_BSP_SCHEDULE_DELAY": "0"}, r"OTEL_BSP_SCHEDULE_DELAY='0' cannot"),
        ({"OTEL_SPAN_ATTRIBUTE_COUNT_LIMIT": "x"}, r"OTEL_SPAN_ATTRIBUTE_COUNT_LIMIT='x' cannot"),
        (
            {"OTEL_PYTHON_TRACER_PROVIDER": "nope"},
            r"_TRACER_PROVIDER='nope' cannot .* one of default_tracer_provider, sdk_",
        ),
        (
            {"OTEL_PYTHON_METER_PROVIDER": "nope"},
            r"_METER_PROVIDER='nope' cannot .* one of default_meter_provider, sdk_",
        ),
        ({"OTEL_PYTHON_METER_PROVIDER": ""}, r"_METER_PROVIDER='' cannot .* or no such variable"),
    ],
)
def test_what_opentelemetry_refuses_is_a_warning(
    variables: dict[str, str],
    said: str,
    registry: CollectorRegistry,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    """A variable at which OpenTelemetry's API or SDK raises is named in the log; the service starts."""
    monkeypatch.setattr(trace, "_TRACER_PROVIDER", None)
    monkeypatch.setenv("OTEL_TRACES_EXPORTER", "console")
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    assert lz_otel.instrument(prometheus_port=0, registry=registry).prometheus_port
    told = {record.getMessage() for record in caplog.records if record.name == "lz_otel"}
    assert [True] == [bool(re.search(said, line)) for line in told if "cannot be used" in line]
    one_call()
    assert "lz_attempts_total" in generate_latest(registry).decode()


def test_what_the_sdk_refuses_as_it_is_imported() -> None:
    """Limits that an import of the SDK refuses are the same warning, and a second start has the spans."""
    done = run(PROGRAMS / "refused_on_import.py")
    assert 1 == done.stderr.count("OTEL_SPAN_ATTRIBUTE_COUNT_LIMIT='x' cannot be used")
    assert "('prometheus',) False\n('prometheus',) True\n" == done.stdout


def test_a_provider_of_the_application_makes_its_variable_void(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where the application has set a provider, nobody asks for the one that the variable names."""
    monkeypatch.setattr(trace, "_TRACER_PROVIDER", TracerProvider())
    monkeypatch.setenv("OTEL_PYTHON_TRACER_PROVIDER", "nope")
    assert lz_otel.instrument(exporters="none").enabled


def test_spans_that_cannot_be_exported_are_a_warning(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """What no setting explains (no thread is left, say) costs the spans and one line without its text."""

    def refuse(self: threading.Thread) -> None:
        raise RuntimeError("SECRET")

    monkeypatch.setattr(trace, "_TRACER_PROVIDER", None)
    monkeypatch.setattr(threading.Thread, "start", refuse)
    assert lz_otel.instrument(exporters="none", trace_exporters="console", http_spans="off").enabled
    assert ["lz_otel: spans cannot be exported (RuntimeError)"] == [
        r.getMessage() for r in caplog.records if r.levelno >= logging.WARNING
    ]


@pytest.mark.parametrize("error", [RuntimeError, KeyboardInterrupt])
@pytest.mark.parametrize("step", ["_constants", "imports"])
def test_a_start_that_fails_is_undone(
    step: str,
    error: type[BaseException],
    registry: CollectorRegistry,
    instrumentor: Any,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Port, registry, hooks, instrumentors, the collector's callback:
    nothing is left, and a second start has them all.
    """

    def state() -> tuple[object, ...]:
        return httpx2.HTTPTransport.handle_request, len(gc.callbacks), len(sys.meta_path)

    before, threads = state(), set(threading.enumerate())

    def fails(*_: Any) -> None:
        raise error("x")

    with monkeypatch.context() as bad:
        if step == "imports":
            bad.setattr(imports.WhenImported, "install", fails)
        else:
            bad.setattr(_runtime._Runtime, step, fails)
        with pytest.raises(error):
            lz_otel.instrument(prometheus_port=0, registry=registry, http_spans="on")
    assert before == state()
    for thread in set(threading.enumerate()) - threads:
        thread.join(5)  # told to end, which takes a moment on a busy machine
    assert not set(threading.enumerate()) - threads
    assert not instrumentor.is_instrumented_by_opentelemetry
    assert "" == generate_latest(registry).decode()
    assert guard.on_fault is None
    port = lz_otel.instrument(prometheus_port=0, registry=registry).prometheus_port
    assert port
    one_call()
    assert "lz_attempts_total" in scraped(port)
    assert "lz_attempts_total" in generate_latest(registry).decode()


def test_it_says_what_is_hooked(caplog: pytest.LogCaptureFixture) -> None:
    """One line says what is observed; a second instrument() is quiet."""
    with caplog.at_level(logging.INFO, logger="lz_otel"):
        lz_otel.instrument(exporters="none")
        lz_otel.instrument(exporters="none")
    lines = [r.getMessage() for r in caplog.records if r.levelno >= logging.INFO]
    assert len(lines) == 1
    assert "httpx2" in lines[0]
    assert "httpx2" in lz_otel.status().hooked


def test_a_taken_port_is_one_warning(registry: CollectorRegistry, caplog: pytest.LogCaptureFixture) -> None:
    """A port that is in use costs a warning that names it; calls go on being counted."""
    first = CollectorRegistry()
    taken = lz_otel.instrument(prometheus_port=0, registry=first).prometheus_port
    assert taken
    from lz_otel._export.prometheus import PrometheusExporter
    from lz_otel._runtime import current

    runtime = current()
    assert runtime is not None
    second = PrometheusExporter(runtime.store, "localhost", taken, registry)
    second.start()
    try:
        warnings = [r.getMessage() for r in caplog.records if r.levelno == logging.WARNING]
        assert len(warnings) == 1
        assert str(taken) in warnings[0]
        one_call()
        assert "lz_attempts_total" in generate_latest(registry).decode()
    finally:
        second.stop()


@pytest.mark.parametrize("conventions", ["latest", "1.36", "both"])
def test_conventions(conventions: str, registry: CollectorRegistry) -> None:
    """The older names by choice: every call in operation.duration, tokens as a histogram."""
    lz_otel.instrument(conventions=conventions, prometheus_port=0, registry=registry)
    one_call()
    text = generate_latest(registry).decode()
    assert ("gen_ai_client_inference_duration_seconds_count{" in text) == (conventions != "1.36")
    assert ("gen_ai_client_token_usage_sum{" in text) == (conventions != "latest")
    assert ("gen_ai_client_operation_duration_seconds_count{" in text) == (conventions != "latest")


def test_call_log_and_audit_log(tmp_path: Any, caplog: pytest.LogCaptureFixture) -> None:
    """The call log has a line per call without content;
    the audit log keeps the originals of pruned calls only.
    """
    path = tmp_path / "audit.jsonl"
    tag = '<layer-zero enabled="true" prune_ratio="0.32"/>\nCANARY-SYSTEM'
    pruned = {**ASK, "system": tag}
    report = {**A_JSON, "usage": {**A_JSON["usage"], "layer_zero": {"pruned_tokens": 30}}}

    def answer(request: Any) -> Any:
        return httpx2.Response(200, json=report if b"layer-zero" in request.content else A_JSON)

    with caplog.at_level(logging.INFO, logger="lz_otel.calls"):
        lz_otel.instrument(exporters="none", call_log=True, audit_log=str(path))
        client = httpx2.Client(transport=transport(httpx2, answer))
        lz_otel.instrument_client(client)
        client.post(URL, json=ASK)
        client.post(URL, json=pruned)
        lz_otel.uninstrument()
    lines = [r.getMessage() for r in caplog.records if r.name == "lz_otel.calls"]
    assert len(lines) == 2
    assert all('"ending": "ok"' in line and "CANARY" not in line for line in lines)
    kept = path.read_text().splitlines()
    assert len(kept) == 1
    assert "CANARY-SYSTEM" in kept[0]
    assert '"log_type": "layer_zero_audit"' in kept[0]
    assert path.stat().st_mode & 0o777 == 0o600


def test_audit_log_that_cannot_be_written_is_an_error(tmp_path: Any) -> None:
    """The path of the audit log is checked at start-up."""
    with pytest.raises(lz_otel.ConfigurationError, match="LZ_OTEL_AUDIT_LOG"):
        lz_otel.instrument(exporters="none", audit_log=str(tmp_path / "missing" / "audit.jsonl"))
    assert lz_otel.status().enabled is False


def test_spans_of_ended_calls_are_made_before_they_are_sent(monkeypatch: pytest.MonkeyPatch) -> None:
    """An end works off what waits, then sends spans beside metrics, and only then waits for them,
    with the same limit.
    """
    done: list[Any] = []

    class Spans:
        def begin(self) -> None:
            done.append("begin")

        def finish(self, timeout: float) -> None:
            done.append(("finish", timeout))

    class Exporter:
        def stop(self, timeout: float) -> None:
            done.append(("stop", round(timeout, 1)))

    lz_otel.instrument(exporters="none")
    runtime = _runtime.current()
    assert runtime is not None
    monkeypatch.setattr(runtime.intake, "catch_up", lambda: done.append("catch up"))
    runtime.own_spans = Spans()
    runtime.exporters.append(Exporter())
    lz_otel.uninstrument(2.5)
    assert ["catch up", "begin", ("stop", 2.5), ("finish", 2.5)] == done
