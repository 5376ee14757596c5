"""A receiver of OTLP over HTTP on loopback that can be well, slow, refusing or away."""

from __future__ import annotations

import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING, Any

from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceRequest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["Receiver"]


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    receiver: Receiver

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Clients that leave are part of the tests."""


class _Handler(BaseHTTPRequestHandler):
    server: _Server

    def do_POST(self) -> None:
        receiver = self.server.receiver
        body = self.rfile.read(int(self.headers["Content-Length"]))
        receiver.requests += 1
        if receiver.hang:
            receiver.released.wait(30)
            return
        if receiver.status == 200:
            if self.path == "/v1/traces":
                receiver.traces.append(ExportTraceServiceRequest.FromString(body))
            else:
                receiver.take(ExportMetricsServiceRequest.FromString(body))
        self.send_response(receiver.status)
        if receiver.status == 503:
            self.send_header("Retry-After", "60")
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - name given by http.server
        """Nothing."""


class Receiver:
    """Keeps every request it took.

    Attributes:
        status: what it answers; only what it answers 200 is kept.
        hang: whether it accepts and never answers.
        requests: how many came, refused ones included.
        pushes: what it took of metrics.
        traces: what it took of spans.
    """

    def __init__(self) -> None:
        self.status = 200
        self.hang = False
        self.requests = 0
        self.pushes: list[ExportMetricsServiceRequest] = []
        self.traces: list[ExportTraceServiceRequest] = []
        self.released = threading.Event()
        self._changed = threading.Condition()
        self._server: _Server | None = None
        self.port = 0
        self.up()

    @property
    def endpoint(self) -> str:
        """For ``OTEL_EXPORTER_OTLP_ENDPOINT``."""
        return f"http://127.0.0.1:{self.port}"

    def up(self) -> None:
        """Listen, on the port of the last time."""
        self._server = _Server(("127.0.0.1", self.port), _Handler)
        self._server.receiver = self
        self.port = self._server.server_address[1]
        threading.Thread(target=self._server.serve_forever, args=(0.05,), daemon=True).start()

    def down(self) -> None:
        """Listen no more."""
        server, self._server = self._server, None
        if server:
            server.shutdown()
            server.server_close()

    def fail(self, fault: str) -> None:
        """Be no help any more: ``down``, ``hang`` or ``503``."""
        if fault == "down":
            self.down()
        elif fault == "hang":
            self.hang = True
        else:
            self.status = int(fault)

    def close(self) -> None:
        """Let go of everything."""
        self.released.set()
        self.down()

    def take(self, push: ExportMetricsServiceRequest) -> None:
        """Keep one request."""
        with self._changed:
            self.pushes.append(push)
            self._changed.notify_all()

    def wait(self, pushes: int, seconds: float = 30) -> None:
        """Until so many pushes are here."""
        with self._changed:
            assert self._changed.wait_for(lambda: len(self.pushes) >= pushes, seconds), (
                f"{len(self.pushes)} pushes"
            )

    def last(self, name: str) -> dict[str, float]:
        """Sum of the last points of a metric (count, for a histogram), by ``service.instance.id``."""
        out: dict[str, float] = {}
        for resource, metric in self._metrics():
            if metric.name == name:
                data = getattr(metric, metric.WhichOneof("data"))
                out[resource["service.instance.id"]] = sum(
                    p.count if metric.HasField("histogram") else p.as_double + p.as_int
                    for p in data.data_points
                )
        return out

    def spans(self) -> list[str]:
        """Names of all spans."""
        return [
            s.name
            for t in self.traces
            for r in t.resource_spans
            for scope in r.scope_spans
            for s in scope.spans
        ]

    def resources(self) -> list[dict[str, str]]:
        """Attributes of all resources."""
        return [resource for resource, _ in self._metrics()]

    def _metrics(self) -> Iterator[tuple[dict[str, str], Any]]:
        for push in self.pushes:
            for one in push.resource_metrics:
                resource = {a.key: a.value.string_value for a in one.resource.attributes}
                for scope in one.scope_metrics:
                    for metric in scope.metrics:
                        yield resource, metric
