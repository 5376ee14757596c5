"""Pushing: what is sent, what an outage costs, and that an end is an end."""

from __future__ import annotations

import logging
import socket
import sys
import threading
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from opentelemetry.exporter.otlp.proto.http.metric_exporter import OTLPMetricExporter
from opentelemetry.instrumentation.utils import is_instrumentation_enabled
from opentelemetry.sdk.metrics.export import MetricExporter, MetricExportResult, MetricsData
from prometheus_client import CollectorRegistry

import lz_otel
from lz_otel import catalogue
from lz_otel._export import _outage
from lz_otel._export.otlp import ConsoleExporter, OtlpExporter, PushExporter
from lz_otel._export.prometheus import PrometheusExporter, StoreCollector
from lz_otel._ground.guard import guard
from lz_otel._measure.store import Store
from tests.export.filling import filled, from_sdk, from_text
from tests.export.receiver import Receiver
from tests.processes import run

if TYPE_CHECKING:
    from collections.abc import Iterator

COMMON = ("chat", "anthropic", "claude-sonnet-5", "", "")
DURATION = catalogue.INFERENCE_DURATION
CALL = (DURATION, (*COMMON, "claude-sonnet-5", "", "full", "", "true", "ok"), 1.5)
PUSHING = Path(__file__).parent / "programs" / "pushing.py"
VARIABLE = "OTEL_EXPORTER_OTLP_ENDPOINT"


@pytest.fixture
def receiver(monkeypatch: pytest.MonkeyPatch) -> Iterator[Receiver]:
    one = Receiver()
    monkeypatch.setenv(VARIABLE, one.endpoint)
    yield one
    one.close()


def store(calls: int = 1) -> Store:
    one = Store(catalogue.selected("latest"))
    one.add([CALL] * calls)
    return one


def until(ready: Any, what: str) -> None:
    deadline = time.monotonic() + 30
    while not ready():
        assert time.monotonic() < deadline, what
        time.sleep(0.01)


class Memory(MetricExporter):
    """Keeps what it is given; answers what it is told to."""

    def __init__(self) -> None:
        super().__init__()
        self.given: list[MetricsData] = []
        self.observed: list[bool] = []
        self.threads: set[str] = set()
        self.result: MetricExportResult | Exception = MetricExportResult.SUCCESS
        self.limit = 0.0

    def exporter(self, store: Store, interval: float, timeout: float = 5) -> PushExporter:
        """Push to this."""
        memory = self

        class MemoryExporter(PushExporter):
            def make_exporter(self, timeout_s: float) -> Memory:
                memory.limit = timeout_s
                return memory

        return MemoryExporter(store, interval, timeout)

    def export(self, metrics_data: MetricsData, timeout_millis: float = 0, **_: Any) -> MetricExportResult:
        self.given.append(metrics_data)
        self.observed.append(is_instrumentation_enabled())
        self.threads.add(threading.current_thread().name)
        if isinstance(self.result, Exception):
            raise self.result
        return self.result

    def shutdown(self, timeout_millis: float = 0, **_: Any) -> None:
        pass

    def force_flush(self, timeout_millis: float = 0) -> bool:
        return True


def test_pushes_are_cumulative_since_the_store_began() -> None:
    """Every push holds everything since the store began, under the scope ``lz_otel`` and its version."""
    one = store(3)
    memory = Memory()
    exporter = memory.exporter(one, 0.02)
    exporter.start()
    until(lambda: len(memory.given) >= 2, "two pushes")
    one.add([CALL])
    exporter.stop()
    counts = []
    for data in memory.given:
        [scope] = data.resource_metrics[0].scope_metrics
        assert ("lz_otel", lz_otel.__version__) == (scope.scope.name, scope.scope.version)
        [metric] = [m for m in scope.metrics if m.name == DURATION.name]
        [point] = metric.data.data_points
        assert one.started_ns == point.start_time_unix_nano < point.time_unix_nano
        counts.append(point.count)
    assert (3, 4) == (counts[0], counts[-1])


def test_a_clock_that_is_set_back_puts_no_point_before_its_start(monkeypatch: pytest.MonkeyPatch) -> None:
    """A point's time is never before the time from which it counts."""
    one = store()
    memory = Memory()
    monkeypatch.setattr(time, "time_ns", lambda: one.started_ns - 3600 * 10**9)
    exporter = memory.exporter(one, 60)
    exporter.start()
    exporter.stop()
    points = [
        p
        for r in memory.given[-1].resource_metrics
        for s in r.scope_metrics
        for m in s.metrics
        for p in m.data.data_points
    ]
    assert {(one.started_ns, one.started_ns)} == {(p.start_time_unix_nano, p.time_unix_nano) for p in points}


def test_nothing_measured_is_nothing_pushed() -> None:
    """Without any series there is no push, not even at the end."""
    memory = Memory()
    exporter = memory.exporter(Store([DURATION]), 0.01)
    exporter.start()
    time.sleep(0.05)
    exporter.stop()
    assert [] == memory.given


def test_our_push_is_not_observed() -> None:
    """Exports run on a thread of ours, with instrumentation suppressed: they are no call and no span."""
    memory = Memory()
    exporter = memory.exporter(store(), 3600)
    exporter.start()
    exporter.stop()
    assert ([False], {"lz-otel-push"}) == (memory.observed, memory.threads)


def test_no_attribute_is_sent_empty() -> None:
    """An attribute without a value is left out, such as ``error.type`` of a call that went well."""
    memory = Memory()
    exporter = memory.exporter(store(), 3600)
    exporter.start()
    exporter.stop()
    points = [
        (metric.name, dict(point.attributes))
        for metric in memory.given[0].resource_metrics[0].scope_metrics[0].metrics
        for point in metric.data.data_points
    ]
    assert [] == [point for point in points if "" in point[1].values()]
    durations = [attributes for name, attributes in points if name == DURATION.name]
    assert durations
    assert not any("error.type" in attributes or "lz.route" in attributes for attributes in durations)
    assert all({"gen_ai.request.model", "lz.ending"} <= set(attributes) for attributes in durations)


def test_resource_is_the_sdks(receiver: Receiver, monkeypatch: pytest.MonkeyPatch) -> None:
    """Service name, resource attributes and a random instance id come as the SDK finds them."""
    monkeypatch.setenv("OTEL_SERVICE_NAME", "shop")
    monkeypatch.setenv("OTEL_RESOURCE_ATTRIBUTES", "deployment.environment.name=test")
    exporter = OtlpExporter(store(), 3600)
    exporter.start()
    exporter.stop(20)
    resource = receiver.resources()[0]
    assert ("shop", "test") == (resource["service.name"], resource["deployment.environment.name"])
    assert 36 == len(resource["service.instance.id"])


def test_a_given_instance_id_is_kept(receiver: Receiver, monkeypatch: pytest.MonkeyPatch) -> None:
    """A process reports under the instance id that the user gave, and a part of its own behind it."""
    monkeypatch.setenv("OTEL_RESOURCE_ATTRIBUTES", "service.instance.id=blue-1")
    one = store()
    exporter = OtlpExporter(one, 3600)
    exporter.start()
    exporter.stop(20)
    assert {f"blue-1/{one.life[:13]}": 1} == receiver.last(DURATION.name)


@pytest.mark.parametrize(
    ("fault", "reason"),
    [("down", "Connection refused"), ("503", "HTTP 503"), ("404", "HTTP 404"), ("400", "HTTP 400")],
)
def test_an_outage_is_two_lines(
    fault: str, reason: str, receiver: Receiver, caplog: pytest.LogCaptureFixture
) -> None:
    """An outage is one warning with its reason, its end one line, and nothing that was counted is lost."""
    caplog.set_level(logging.INFO)
    if fault == "down":
        receiver.down()
    else:
        receiver.status = int(fault)
    one = store()
    exporter = OtlpExporter(one, 0.02, 1)
    exporter.start()
    until(lambda: caplog.records, "no warning")
    one.add([CALL] * 9)
    seen = receiver.requests
    if fault == "down":
        receiver.up()
    else:
        until(lambda: receiver.requests > seen + 2, "no more tries")
        receiver.status = 200
    receiver.wait(2)
    exporter.stop(20)
    first, second = [(r.name, r.levelno, r.getMessage()) for r in caplog.records]
    assert [("lz_otel", logging.WARNING)] * 2 == [first[:2], second[:2]]
    assert reason in first[2]
    path = "/v1/metrics" if fault == "404" else ""
    assert f"to {receiver.endpoint}{path} fails" in first[2]
    assert "works again" in second[2]
    assert [10] == list(receiver.last(DURATION.name).values())


def test_no_secret_in_the_warning(caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch) -> None:
    """User, password, path and query of an endpoint never reach the log."""
    monkeypatch.setenv(
        "OTEL_EXPORTER_OTLP_METRICS_ENDPOINT", "http://user:canary1@127.0.0.1:1/canary2?key=canary3"
    )
    exporter = OtlpExporter(store(), 0.02, 1)
    exporter.start()
    until(lambda: caplog.records, "no warning")
    exporter.stop(20)
    assert "http://127.0.0.1:1 " in caplog.text
    assert "canary" not in caplog.text


def test_the_hosts_own_exporter_may_complain(receiver: Receiver, caplog: pytest.LogCaptureFixture) -> None:
    """Only our thread is kept out of the exporters' log; what the host's own exporter says is heard."""
    exporter = Memory().exporter(store(), 3600)
    exporter.start()
    until(lambda: _outage._threads, "not begun")
    receiver.status = 404
    theirs = OTLPMetricExporter(endpoint=receiver.endpoint)
    theirs.export(MetricsData([]))
    exporter.stop()
    assert {"opentelemetry.exporter.otlp.proto.http.metric_exporter"} == {r.name for r in caplog.records}
    assert not logging.getLogger("opentelemetry.exporter.otlp.proto.http.metric_exporter").filters


def test_a_receiver_that_never_answers_is_left_behind(receiver: Receiver) -> None:
    """An end does not wait for a hanging push longer than it was told to."""
    receiver.hang = True
    exporter = OtlpExporter(store(), 0.01, 3600)
    exporter.start()
    until(lambda: receiver.requests, "no push")
    thread = exporter._thread
    exporter.stop(0.1)
    assert thread is not None
    assert (True, True) == (thread.is_alive(), thread.daemon)
    receiver.released.set()
    thread.join(30)
    assert not thread.is_alive()


def test_an_exporter_that_raises_is_counted(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """What an exporter raises is one fault and one warning for as long as it goes on; pushes are tried on."""
    faults: list[str] = []
    monkeypatch.setattr(guard, "on_fault", faults.append)
    memory = Memory()
    memory.result = ZeroDivisionError("CANARY")
    exporter = memory.exporter(store(), 0.01)
    exporter.start()
    until(lambda: len(memory.given) >= 3, "three pushes")
    memory.result = MetricExportResult.SUCCESS
    until(lambda: len(caplog.records) >= 2, "an end of the outage")
    exporter.stop()
    assert ["export"] == faults
    assert ["ZeroDivisionError" in r.getMessage() for r in caplog.records] == [True, False]
    assert "CANARY" not in caplog.text


@pytest.mark.parametrize(("protocol", "extra"), [("http/protobuf", "otlp"), ("grpc", "otlp-grpc")])
def test_a_missing_package_is_one_warning(
    protocol: str, extra: str, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without the exporter's package: one warning with the command that installs it, and no thread."""
    for name in ("http", "grpc"):
        monkeypatch.setitem(sys.modules, f"opentelemetry.exporter.otlp.proto.{name}.metric_exporter", None)
    before = threading.active_count()
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_PROTOCOL", protocol)
    exporter = OtlpExporter(store(), 0.01)
    exporter.start()
    exporter.after_fork_in_child()
    exporter.stop()
    assert before == threading.active_count()
    [record] = caplog.records
    assert f"pip install 'lz-otel[{extra}]'" in record.getMessage()


def test_a_bad_certificate_is_one_warning(
    receiver: Receiver, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A certificate file that is not there is told like an outage, and so is what is lost at the end."""
    monkeypatch.setenv(VARIABLE, receiver.endpoint.replace("http:", "https:"))
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_CERTIFICATE", "/nowhere/ca.pem")
    for name in ("REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE"):  # which requests prefers
        monkeypatch.delenv(name, raising=False)
    exporter = OtlpExporter(store(), 0.02, 1)
    exporter.start()
    until(lambda: caplog.records, "no warning")
    exporter.stop(20)
    assert 2 == len(caplog.records)
    assert "(there is no file /nowhere/ca.pem, which the settings of TLS name)" in caplog.text
    assert "the last values are lost" in caplog.records[1].getMessage()


def test_a_bad_certificate_of_grpc_is_named(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What is read once, at the start, is told at the start, with the variable and the path."""
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_PROTOCOL", "grpc")
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_METRICS_CERTIFICATE", "/nowhere/ca.pem")
    OtlpExporter(store(), 3600).start()
    [record] = caplog.records
    assert (
        "OTEL_EXPORTER_OTLP_METRICS_CERTIFICATE=/nowhere/ca.pem: there is no such file" in record.getMessage()
    )


def test_delta_is_refused_aloud(
    receiver: Receiver, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Who asks for delta temporality is told that values stay cumulative."""
    monkeypatch.setenv(VARIABLE, receiver.endpoint)
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_METRICS_TEMPORALITY_PREFERENCE", "Delta")
    exporter = OtlpExporter(store(), 3600)
    exporter.start()
    exporter.start()
    exporter.stop(20)
    [record] = caplog.records
    assert "TEMPORALITY_PREFERENCE is not honoured: values stay cumulative" in record.getMessage()


def test_tls_and_names_that_fail_are_told_alike(
    receiver: Receiver, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A receiver without TLS, or a name that does not resolve, is told in the system's words."""
    texts = []
    for endpoint in (receiver.endpoint.replace("http:", "https:"), "http://collector.example:4318"):
        monkeypatch.setenv(VARIABLE, endpoint)
        exporter = OtlpExporter(store(), 0.02, 1)
        caplog.clear()
        with monkeypatch.context() as names:
            if "example" in endpoint:
                unknown = socket.gaierror(socket.EAI_NONAME, "Name or service not known")
                names.setattr(
                    socket, "getaddrinfo", lambda *_, error=unknown, **__: (_ for _ in ()).throw(error)
                )
            exporter.start()
            until(lambda: caplog.records, "no warning")
            exporter.stop(20)
        texts.append(caplog.records[0].getMessage())
    assert "SSL" in texts[0]
    assert "Name or service not known" in texts[1]


@pytest.mark.parametrize(
    ("interval", "timeout", "limit"), [(60, 30, 30), (60, 5, 5), (10, 30, 10), (0.5, 30, 2), (0.5, 1, 1)]
)
def test_one_push_may_not_take_longer_than_told(interval: float, timeout: float, limit: float) -> None:
    """A push may take as long as the setting says, and not longer than the interval, but always 2 seconds."""
    memory = Memory()
    exporter = memory.exporter(store(), interval, timeout)
    exporter.start()
    assert limit == memory.limit
    exporter.stop()


@pytest.mark.parametrize(("own", "limit"), [("", 10), ("7", 7), ("40", 30), ("nonsense", 10), ("-1", 10)])
def test_the_exporters_own_time_holds(own: str, limit: float, monkeypatch: pytest.MonkeyPatch) -> None:
    """The exporter's own setting (seconds, as the SDK reads it) is kept where it is the shorter one."""
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_TIMEOUT", own)
    made: Any = OtlpExporter(store()).make_exporter(30)
    assert limit == getattr(made, "_client", made)._timeout


def test_no_more_threads_reaches_nobody(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Where the system gives no thread, the host goes on, and it is told."""
    faults: list[str] = []
    monkeypatch.setattr(guard, "on_fault", faults.append)

    def refuse(self: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    exporters = [
        Memory().exporter(store(), 3600),
        PrometheusExporter(store(), "127.0.0.1", 0, CollectorRegistry(auto_describe=True)),
    ]
    with monkeypatch.context() as system:
        system.setattr(threading.Thread, "start", refuse)
        for exporter in exporters:
            exporter.start()
    for exporter in exporters:
        exporter.stop()
    assert ["export"] == faults
    assert 1 == caplog.text.count("exporter cannot be started (RuntimeError")


def test_console(capsys: pytest.CaptureFixture[str]) -> None:
    """The console exporter writes the series to standard output as JSON."""
    exporter = ConsoleExporter(store(), 3600)
    exporter.start()
    exporter.stop()
    assert '"gen_ai.client.inference.duration"' in capsys.readouterr().out


def test_start_and_stop_may_be_repeated() -> None:
    """Start and stop are idempotent, and a stopped exporter can be started again."""
    memory = Memory()
    exporter = memory.exporter(store(), 3600)
    exporter.stop()
    before = set(threading.enumerate())
    for _ in range(2):
        exporter.start()
        exporter.start()
        assert ["lz-otel-push"] == [t.name for t in set(threading.enumerate()) - before]
        exporter.stop()
        exporter.stop()
    assert 2 == len(memory.given)


@pytest.mark.parametrize(("end", "status"), [("", 0), ("exit", 3), ("signal", 4)])
def test_an_exit_pushes_once_more(end: str, status: int, receiver: Receiver) -> None:
    """A process that ends, by an orderly SIGTERM too, pushes its last values and keeps its status."""
    done = run(PUSHING, "3600", end, status=status, **{VARIABLE: receiver.endpoint})
    assert (status, "") == (done.returncode, done.stderr)
    assert [5] == list(receiver.last("lz.internal.overhead").values())


@pytest.mark.parametrize("fault", ["down", "hang", "503"])
def test_an_exit_during_an_outage(fault: str, receiver: Receiver) -> None:
    """An outage delays no exit beyond its bound, changes no status, and prints one line at most."""
    receiver.fail(fault)
    done = run(PUSHING, "0.05", "late exit", status=5, **{VARIABLE: receiver.endpoint})
    assert 5 == done.returncode
    assert done.stderr.count("\n") <= 1
    assert "Traceback" not in done.stderr


def test_data_model_equals_the_text() -> None:
    """What is pushed and what is scraped are the same series."""
    memory = Memory()
    one = filled()
    exporter = memory.exporter(one, 3600)
    exporter.start()
    exporter.stop()
    assert from_text(StoreCollector(one).text()) == from_sdk(memory.given[0])
