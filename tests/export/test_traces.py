"""Spans of our own making leave the process only on request, and never over the application's provider."""

from __future__ import annotations

import json
import logging
import os
import re
import signal
import subprocess
import sys
import threading
import time
import urllib.request
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from opentelemetry.sdk.trace.export import SpanExporter, SpanExportResult

from lz_otel._export import _otlp_settings, _outage, traces
from lz_otel._ground.guard import guard
from tests.peers import serving
from tests.processes import ROOT, run
from tests.wire_doubles import A_JSON

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.export.receiver import Receiver

PROGRAMS = Path(__file__).parent / "programs"


def one_call(**environ: str) -> str:
    """Standard output of a process that makes one call."""
    return run(PROGRAMS / "one_call.py", silent=True, **environ).stdout


def test_console_exporter_on_request() -> None:
    """OTEL_TRACES_EXPORTER=console: one span per call, without content."""
    output = one_call(OTEL_TRACES_EXPORTER="console", OTEL_SERVICE_NAME="shop")
    span = json.loads(output)
    assert span["name"] == "chat claude-opus-5"
    assert span["attributes"]["gen_ai.usage.input_tokens"] == 2104
    assert span["resource"]["attributes"]["service.name"] == "shop"
    assert "SECRET" not in output


def test_no_request_no_spans() -> None:
    """Without the variable no provider is set and nothing is printed."""
    assert "" == one_call()


class _Upstream(BaseHTTPRequestHandler):
    """A Messages API."""

    def do_POST(self) -> None:
        self.rfile.read(int(self.headers["Content-Length"]))
        body = json.dumps(A_JSON).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - name given by http.server
        """Nothing."""


@pytest.fixture
def upstream() -> Iterator[str]:
    with serving(ThreadingHTTPServer(("127.0.0.1", 0), _Upstream)) as url:
        yield url


def environment(upstream: str, receiver: Receiver, **more: str) -> dict[str, str]:
    """Spans and metrics by OTLP, metrics only at the end."""
    return {
        "UPSTREAM": upstream,
        "OTEL_TRACES_EXPORTER": "otlp",
        "OTEL_METRICS_EXPORTER": "otlp",
        "OTEL_EXPORTER_OTLP_ENDPOINT": receiver.endpoint,
        "LZ_OTEL_HTTP_SPANS": "off",
        **more,
    }


def test_the_last_spans_of_uvicorn_are_sent(upstream: str, receiver: Receiver, tmp_path: Path) -> None:
    """uvicorn ends without exit hooks: `uninstrument` at the end of its lifespan sends spans and metrics."""
    log = tmp_path / "log"
    with log.open("wb") as out:
        server = subprocess.Popen(
            [sys.executable, "-m", "uvicorn", "traced_app:app", "--port", "0"],
            env={
                **os.environ,
                "PYTHONPATH": f"{ROOT}{os.pathsep}{PROGRAMS}",
                **environment(upstream, receiver),
            },
            stdout=out,
            stderr=out,
        )
    try:
        deadline = time.monotonic() + 60
        while not (port := re.search(rb"running on http://127.0.0.1:(\d+)", log.read_bytes())):
            assert time.monotonic() < deadline, log.read_text()
            assert server.poll() is None, log.read_text()
            time.sleep(0.1)
        for _ in range(3):
            urllib.request.urlopen(f"http://127.0.0.1:{int(port[1])}/", timeout=30).close()
        server.send_signal(signal.SIGTERM)
        server.wait(30)
    finally:
        if server.poll() is None:
            server.kill()
            server.wait()
    assert ["chat claude-opus-5"] * 3 == receiver.spans(), log.read_text()
    assert [3] == list(receiver.last("gen_ai.client.inference.duration").values())


@pytest.mark.parametrize("end", ["", "uninstrument", "exit 0", "uninstrument and again"])
def test_the_last_spans_of_an_exit_are_sent(end: str, upstream: str, receiver: Receiver) -> None:
    """Every ordinary end sends the spans of all calls, those that were not worked off yet included."""
    run(PROGRAMS / "asking.py", "3", end, silent=True, **environment(upstream, receiver))
    assert ["chat claude-opus-5"] * 3 == receiver.spans()


@pytest.mark.parametrize("end", ["fork", "multiprocessing"])
def test_a_child_sends_its_own_spans(end: str, upstream: str, receiver: Receiver) -> None:
    """A forked child sends the spans of its own calls, also where it leaves by ``os._exit``; none twice."""
    run(PROGRAMS / "asking.py", "1", end, silent=True, **environment(upstream, receiver))
    assert ["chat claude-opus-5"] * 3 == receiver.spans()


@pytest.mark.parametrize("fault", ["down", "hang", "503"])
def test_a_receiver_that_is_no_help_keeps_nobody(fault: str, upstream: str, receiver: Receiver) -> None:
    """A receiver that is away, hangs or refuses delays an end by a bound; two lines say so."""
    receiver.fail(fault)
    done = run(PROGRAMS / "asking.py", "3", "exit 5", status=5, **environment(upstream, receiver))
    assert 5 == done.returncode
    lines = done.stderr.splitlines()
    assert ([1, 1], 2) == (
        [sum(word in line for line in lines) for word in ("last spans", "OTLP exporter")],
        len(lines),
    )


class Kept(SpanExporter):
    """Keeps the names of spans, once it is let."""

    def __init__(self) -> None:
        self.names: list[str] = []
        self.let, self.begun = threading.Event(), threading.Event()
        self.let.set()
        self.result: SpanExportResult | Exception = SpanExportResult.SUCCESS

    def export(self, spans: Any) -> SpanExportResult:
        self.begun.set()
        assert self.let.wait(30)
        if isinstance(self.result, Exception):
            raise self.result
        self.names += [span.name for span in spans]
        return self.result

    def shutdown(self) -> None:
        pass


def test_waiting_has_an_end(caplog: pytest.LogCaptureFixture) -> None:
    """An export that hangs is left behind after the time given, with one line, and sent when it goes on."""
    kept = Kept()
    kept.let.clear()
    own = traces.OwnSpans([kept])
    own.provider.get_tracer("t").start_span("one").end()
    own.finish(0.05)
    assert [] == kept.names
    [record] = caplog.records
    assert (logging.WARNING, "no answer in time") == (
        record.levelno,
        record.getMessage().split("(")[1].split(")")[0],
    )
    done = own._done
    kept.let.set()
    assert done.wait(30)
    assert ["one"] == kept.names


def test_the_end_of_an_older_flush_is_no_answer(caplog: pytest.LogCaptureFixture) -> None:
    """An end while an earlier flush hangs waits for its own: what came since is sent, or logged as lost."""
    kept = Kept()
    kept.let.clear()
    own = traces.OwnSpans([kept])
    tracer = own.provider.get_tracer("t")
    tracer.start_span("one").end()
    own.finish(0.05)
    older = own._done
    tracer.start_span("two").end()
    own.begin()
    assert own._done is not older
    kept.let.set()
    own.finish(30)
    assert older.is_set()
    assert ["one", "two"] == kept.names
    assert 1 == len(caplog.records)


def test_a_flush_that_hangs_is_waited_for_once(caplog: pytest.LogCaptureFixture) -> None:
    """An exit after an `uninstrument` that gave up does not wait again, nor say it again."""
    kept = Kept()
    kept.let.clear()
    own = traces.OwnSpans([kept])
    own.provider.get_tracer("t").start_span("one").end()
    own.finish(0.05)
    own.finish(0.05)
    kept.let.set()
    assert 1 == len(caplog.records)


def test_one_batch_of_several_that_fails_is_told() -> None:
    """A batch that was sent does not hide one that was not."""

    class First(Kept):
        def export(self, spans: Any) -> SpanExportResult:
            super().export(spans)
            return SpanExportResult.SUCCESS if len(self.names) > 1 else SpanExportResult.FAILURE

    watched = traces._Watched(First())
    with _outage.quiet_thread():  # as in a flush
        assert [SpanExportResult.FAILURE, SpanExportResult.SUCCESS] == [
            watched.export([_Named("one")]),
            watched.export([_Named("two")]),  # type: ignore[list-item]  # the name is all it needs
        ]
    assert (1, 0) == (watched.failed(), watched.failed())


class _Named:
    def __init__(self, name: str) -> None:
        self.name = name


def test_a_child_hears_its_own_exporters(monkeypatch: pytest.MonkeyPatch) -> None:
    """A parent that forks amid a flush leaves no thread's number behind whose log lines are kept back."""
    own = traces.OwnSpans([])
    monkeypatch.setattr(_outage, "_threads", {1: ""})
    own.after_fork_in_child()
    assert {} == _outage._threads


def test_a_finish_without_a_begin_flushes(caplog: pytest.LogCaptureFixture) -> None:
    """Ends may come in any order and number: each sends what waits, and says nothing where all went well."""
    kept = Kept()
    own = traces.OwnSpans([kept])
    tracer = own.provider.get_tracer("t")
    for n, begin in enumerate([True, False, True]):
        tracer.start_span(str(n)).end()
        if begin:
            own.begin()
        own.finish(30)
    assert ["0", "1", "2"] == kept.names
    assert [] == caplog.records


@pytest.mark.parametrize("result", [SpanExportResult.FAILURE, ZeroDivisionError("CANARY")])
def test_a_failed_flush_is_one_line(result: Any, caplog: pytest.LogCaptureFixture) -> None:
    """An exporter that fails, or raises, reaches nobody: one line without its text."""
    kept = Kept()
    kept.result = result
    own = traces.OwnSpans([kept])
    own.provider.get_tracer("t").start_span("one").end()
    own.finish(30)
    assert 1 == caplog.text.count("sending the last spans fails")
    assert "CANARY" not in caplog.text


@pytest.mark.parametrize("result", [SpanExportResult.FAILURE, ZeroDivisionError("CANARY")])
def test_spans_that_cannot_be_sent_are_counted(
    result: Any, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each span of a batch that fails counts as lost; one warning when that begins and one when it ends."""
    lost: list[tuple[str, float]] = []
    monkeypatch.setattr(guard, "on_lost", lambda what, number: lost.append((what, number)))
    kept = Kept()
    kept.result = result
    own = traces.OwnSpans([kept])
    for batch in (["a", "b"], ["c"]):
        for name in batch:
            own.provider.get_tracer("t").start_span(name).end()
        own.provider.force_flush()  # as the SDK's own thread does
    kept.result = SpanExportResult.SUCCESS
    own.provider.get_tracer("t").start_span("d").end()
    own.provider.force_flush()
    assert [("spans", 2), ("spans", 1)] == lost
    assert [True, False] == ["they are lost and counted" in r.getMessage() for r in caplog.records]
    assert [False, True] == ["works again" in r.getMessage() for r in caplog.records]
    assert "CANARY" not in caplog.text


def test_spans_without_room_are_counted(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Spans that the SDK drops since its queue is full count as lost, with one warning; so do those of an end
    that cannot wait.
    """
    lost: list[tuple[str, float]] = []
    monkeypatch.setattr(guard, "on_lost", lambda what, number: lost.append((what, number)))
    monkeypatch.setenv("OTEL_BSP_MAX_QUEUE_SIZE", "4")
    monkeypatch.setenv("OTEL_BSP_MAX_EXPORT_BATCH_SIZE", "4")
    kept = Kept()
    kept.let.clear()
    own = traces.OwnSpans([kept])
    tracer = own.provider.get_tracer("t")
    tracer.start_span("first").end()
    own.begin()  # its export hangs
    assert kept.begun.wait(30)
    for _ in range(7):
        tracer.start_span("more").end()
    assert [("spans", 1.0)] * 3 == lost
    assert 1 == sum("OTEL_BSP_MAX_QUEUE_SIZE" in r.getMessage() for r in caplog.records)
    own.finish(0.05)
    assert ("spans", 5) == lost[-1]
    kept.let.set()


def test_no_thread_is_no_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where the system gives no thread (as newer interpreters at their end), nothing waits; it is counted."""
    faults: list[str] = []
    monkeypatch.setattr(guard, "on_fault", faults.append)
    own = traces.OwnSpans([])

    def refuse(self: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(threading.Thread, "start", refuse)
    own._spawn()
    own.finish(3600)
    assert {"export"} == set(faults)


def test_the_applications_provider_is_left_alone() -> None:
    """A TracerProvider of the application is neither flushed nor shut down; its settings are not checked."""
    environ = {"OTEL_TRACES_EXPORTER": "otlp", "OTEL_EXPORTER_OTLP_TRACES_PROTOCOL": "pigeon"}
    assert "[] []\n" == run(PROGRAMS / "host_provider.py", silent=True, **environ).stdout


@pytest.mark.parametrize(("protocol", "package"), [("grpc", "grpc"), ("http/protobuf", "http")])
def test_spans_follow_the_protocol(
    protocol: str, package: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Spans go by the protocol that is set; without its package, one warning has the command for it."""
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_TRACES_PROTOCOL", protocol)
    assert protocol == _otlp_settings.protocol("traces")
    monkeypatch.setattr(traces, "_taken", lambda: False)
    monkeypatch.setitem(sys.modules, f"opentelemetry.exporter.otlp.proto.{package}.trace_exporter", None)
    assert traces.set_up(("otlp",)) is None
    [record] = caplog.records
    assert f"'lz-otel[{'otlp-grpc' if package == 'grpc' else 'otlp'}]'" in record.getMessage()
