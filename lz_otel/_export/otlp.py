"""OTLP (and console): pushes the store at an interval, with the official exporters of OpenTelemetry.

One daemon thread; nothing is queued. Values are cumulative, so what an outage kept back is in the
next push that succeeds. An outage costs one warning when it begins and one line when it ends.

Who reports (the resource) comes from the SDK's own detection: ``OTEL_SERVICE_NAME``,
``OTEL_RESOURCE_ATTRIBUTES``, ``OTEL_EXPERIMENTAL_RESOURCE_DETECTORS``. ``service.instance.id`` is a
random UUID for each process. One that the user sets is followed by a random part of each process
(``pod-7/1f3a90c2-9b1e``), because two processes must never write one series.

Endpoint, headers, certificates, compression: the exporter's own ``OTEL_EXPORTER_OTLP_*`` (D).
Temporality is always cumulative; one warning says so where
``OTEL_EXPORTER_OTLP_METRICS_TEMPORALITY_PREFERENCE`` asks for another.
"""

from __future__ import annotations

import logging
import os
import sys
import threading
import time
from collections import deque
from typing import TYPE_CHECKING, Any

from opentelemetry.instrumentation.utils import suppress_instrumentation
from opentelemetry.sdk.metrics.export import ConsoleMetricExporter, MetricExportResult
from opentelemetry.sdk.util.instrumentation import InstrumentationScope

from lz_otel._export import _ends, _outage
from lz_otel._export._convert import metrics_data
from lz_otel._export._label_values import LabelValues
from lz_otel._export._listeners import FirstCall
from lz_otel._export._otlp_settings import exporter_class, missing_file, protocol, warn_of_delta
from lz_otel._export._resource import Identity
from lz_otel._export._threads import Flush, start_thread
from lz_otel._ground.guard import guard, guarded
from lz_otel._ground.lock import lock
from lz_otel._version import __version__
from lz_otel.catalogue import (
    BUILD_INFO,
    GENAI_OPERATION_DURATION,
    HISTOGRAM,
    INFERENCE_DURATION,
    LEGACY_GENAI_OPERATION_DURATION,
)
from lz_otel.errors import MissingDependencyError

if TYPE_CHECKING:
    from opentelemetry.sdk.metrics.export import MetricExporter, MetricsData

    from lz_otel._measure.store import Series, Store
    from lz_otel.catalogue import Metric

_LOG = logging.getLogger("lz_otel")
DOWN_LIMIT = 1.0  # seconds for the last push when the receiver is known to be down
# With one of these the SDK loads a session of the user's, which must not be replaced by ours.
_CREDENTIAL_PROVIDERS = (
    "OTEL_PYTHON_EXPORTER_OTLP_HTTP_METRICS_CREDENTIAL_PROVIDER",
    "OTEL_PYTHON_EXPORTER_OTLP_HTTP_CREDENTIAL_PROVIDER",
)
_OF_CALLS = (INFERENCE_DURATION, GENAI_OPERATION_DURATION, LEGACY_GENAI_OPERATION_DURATION)
SHORTEST = 2.0  # seconds that one push may take even when the interval is shorter


class PushExporter:
    """Pushes the store through an exporter of the SDK, with a limit of time for each push.

    Subclasses say which exporter.
    """

    target = "exporter"
    port = None

    def __init__(self, store: Store, interval_s: float = 60.0, timeout_s: float = 30.0) -> None:
        self._store = store
        self._interval = interval_s
        # The exporter tries again within its time. Beyond the interval the next push does that better.
        self._timeout = min(timeout_s, max(interval_s, SHORTEST))
        self._values = LabelValues()
        self._identity: Identity | None = None
        self._silent = False
        self._ready = False
        self._first_call: FirstCall | None = None
        self._reset()

    def _reset(self) -> None:
        if self._first_call is not None:
            self._first_call.cancel()
            self._first_call = None
        self._lock = lock()
        self._stop, self._wake = threading.Event(), threading.Event()
        self._flushes: deque[Flush] = deque()  # asked for, and not begun
        self._flush_within = _ends.LIMIT
        self._arrived = 0  # calls in the last push that arrived
        self._thread: threading.Thread | None = None
        self._exporter: MetricExporter | None = None
        self._outage = _outage.Outage(self.target)
        self._pushing: MetricExporter | None = None

    def make_exporter(self, timeout_s: float) -> MetricExporter:
        """Make the exporter of the SDK, whose pushes may take so many seconds.

        Raises:
            MissingDependencyError: its package is not installed.
        """
        raise NotImplementedError

    def start(self) -> None:
        """Import the exporter and find out who reports; the first call starts the thread that pushes.

        The first two on this thread: a fork during an import leaves the child with a lock that never opens.

        Whatever is wrong with it is one warning; the host goes on.
        """
        if self._ready:
            return
        try:
            with _outage.unquoted_headers():
                self._exporter = self.make_exporter(self._timeout)
            self._identity = Identity(self._store)
        except MissingDependencyError as error:
            _LOG.warning("%s", error)
            return
        except Exception as error:  # noqa: BLE001 - a bad certificate path, a bad endpoint
            kind = type(error).__name__
            _LOG.warning("%s cannot be started (%s: %s); nothing is pushed", self.target, kind, error)
            return
        self._ready = True
        _ends.at_end(self.stop)
        if any(map(_has_happened, self._store.snapshot())):
            self._spawn()
        else:
            self._first_call = FirstCall(self._store, self._spawn)

    def _spawn(self) -> None:
        with self._lock:
            if self._thread is not None or not self._ready or self._stop.is_set():
                return
            self._thread = start_thread("lz-otel-push", self._run)

    def ask(self) -> Flush:
        """Push in the background, at once."""
        flush = Flush()
        self._spawn()
        if self._thread is None:
            flush.end(False)
        else:
            self._flushes.append(flush)
            self._wake.set()
        return flush

    def begin_stop(self, timeout: float) -> None:
        """Push once more, in the background, and end then."""
        if not self._ready or self._stop.is_set():
            return
        self._flush_within = max(0.1, timeout * 0.8)
        self._stop.set()
        self._wake.set()
        pushing = self._pushing
        if pushing is not None:
            with guarded("export"):
                pushing.shutdown(timeout_millis=100)  # ends a wait between two tries

    def stop(self, timeout: float = _ends.LIMIT) -> None:
        """Push once more and end, within ``timeout`` seconds (a push that hangs is left behind)."""
        if not self._ready:
            return
        self.begin_stop(timeout)
        self._ready = False
        _ends.remove(self.stop)
        thread = self._thread
        if thread is not threading.current_thread():
            if thread is not None:
                thread.join(timeout)
            if thread is None or thread.is_alive():
                self._ends_badly(self._store.snapshot())
        self._reset()

    def _ends_badly(self, series: list[Series]) -> None:
        """Tell of the calls that no push has brought to the receiver."""
        if lost := _calls(series) - self._arrived:
            guard.lost("push", lost)
            text = (
                "%s: no answer before the end of this process, which does not wait longer; %d calls are lost"
            )
            _LOG.warning(text, self.target, lost)

    def after_fork_in_child(self) -> None:
        """Forget the parent's thread and connections, and push as this process.

        A child that makes no call is silent: it pushes nothing, not even at its end.
        """
        if not self._ready:
            return
        if self._identity is not None:
            self._identity.after_fork_in_child()
        _outage.after_fork_in_child()
        self._reset()
        self._silent = True
        self._first_call = FirstCall(self._store, self._spawn)

    def _run(self) -> None:
        stop, wake, exporter, outage = self._stop, self._wake, self._exporter, self._outage
        began = time.monotonic()
        with _outage.quiet_thread(), guarded("export"):
            while True:
                wake.wait(max(0.0, self._interval - (time.monotonic() - began)))
                wake.clear()
                if stop.is_set():
                    break
                began = time.monotonic()
                if exporter is None:  # a forked child: the parent's connections are not its own
                    exporter = self.make_exporter(self._timeout)
                self._push(exporter, outage, self._timeout, stop)
            limit = min(self._flush_within, DOWN_LIMIT) if outage.on else self._flush_within
            self._push(self.make_exporter(limit), outage, limit, stop)

    def _push(
        self, exporter: MetricExporter, outage: _outage.Outage, limit: float, stop: threading.Event
    ) -> None:
        flushes = [self._flushes.popleft() for _ in range(len(self._flushes))]
        ok = False
        try:
            ok = self._export(exporter, outage, limit, stop)
        finally:
            for flush in flushes:
                flush.end(ok)

    def _export(
        self, exporter: MetricExporter, outage: _outage.Outage, limit: float, stop: threading.Event
    ) -> bool:
        last = stop.is_set()
        series: list[Series] = []
        try:
            series = self._store.snapshot()
            if not series or self._identity is None:
                return True
            if self._silent and not any(map(_has_happened, series)):
                return True
            self._silent = False
            scope = InstrumentationScope("lz_otel", __version__)
            began = self._store.started_ns
            # A clock that was set back would put points before their start, which receivers refuse.
            span = (began, max(began, time.time_ns()))
            data = metrics_data(series, self._identity.resource, scope, span, self._values)
            _outage.take_reason()
            self._pushing = None if last else exporter
            ok = _sent(exporter, data, limit, outage)
        except Exception as error:  # noqa: BLE001 - the next push may do better
            guard.fault("export", error)
            return False
        finally:
            self._pushing = None
        if ok:
            self._arrived = _calls(series)
        elif last:
            lost = _calls(series) - self._arrived
            if not lost and outage.on:
                return False  # told before
            guard.lost("push", lost)
        elif stop.is_set():
            return False  # cut short by the end; the last push notes how it went
        outage.note(ok, exporter, self._interval, last)
        return ok


def _sent(exporter: MetricExporter, data: MetricsData, limit: float, outage: _outage.Outage) -> bool:
    """Return whether an exporter has sent the numbers; what it raises is an outage, counted and told once."""
    try:
        with suppress_instrumentation():
            return exporter.export(data, timeout_millis=limit * 1000) is MetricExportResult.SUCCESS
    except Exception as error:  # noqa: BLE001 - the next push may do better
        if not outage.on and not isinstance(error, OSError):  # older ones let those of the connection through
            guard.count("export")
        _outage.remember(error, again=False)  # what the session saw is more exact
        return False


def _calls(series: list[Series]) -> int:
    """Return how many calls have been counted, whichever convention they are named by."""
    counts: dict[Metric, int] = {
        one.metric: sum(value.count for _, value in one.points) for one in series if one.metric in _OF_CALLS
    }
    every_call = counts.pop(LEGACY_GENAI_OPERATION_DURATION, 0)
    return every_call or sum(counts.values())


def _has_happened(series: Series) -> bool:
    """Return whether a series counts anything that happened: zeros, and what is running, do not."""
    if series.metric is BUILD_INFO:
        return False
    return any(value.count if series.metric.kind == HISTOGRAM else value for _, value in series.points)


class OtlpExporter(PushExporter):
    """OTLP over HTTP, or over gRPC where the package for it is installed."""

    target = "OTLP exporter"

    def make_exporter(self, timeout_s: float) -> MetricExporter:
        """Make the exporter of the protocol in the environment; see `PushExporter.make_exporter`."""
        chosen = protocol("metrics")
        name = chosen.removesuffix("/protobuf")
        if name == "grpc" and (missing := missing_file("metrics")):
            raise FileNotFoundError(missing)  # the exporter would log a traceback, and go on without it
        make = exporter_class("metric_exporter.OTLPMetricExporter", chosen, f"OTLP over {name}")
        arguments: dict[str, Any] = {"timeout": min(timeout_s, _request_timeout())}
        if name == "http" and not any(map(os.environ.get, _CREDENTIAL_PROVIDERS)):
            arguments["session"] = _outage.session()
        exporter: MetricExporter = make(**arguments)
        return exporter

    def start(self) -> None:
        """Start as `PushExporter.start` does, and refuse aloud what is asked for and not to be had."""
        if not self._ready and (text := warn_of_delta("metrics")):
            _LOG.warning("%s: %s", self.target, text)
        super().start()


class ConsoleExporter(PushExporter):
    """One JSON document per push on standard output, for looking at."""

    target = "console exporter"

    def make_exporter(self, timeout_s: float) -> MetricExporter:
        """Make the SDK's console exporter."""
        return ConsoleMetricExporter(out=sys.stdout)


def _request_timeout() -> float:
    """Return the exporter's own setting in seconds; it would be overruled by the one we hand over."""
    for name in ("OTEL_EXPORTER_OTLP_METRICS_TIMEOUT", "OTEL_EXPORTER_OTLP_TIMEOUT"):
        try:
            value = float(os.environ[name])
        except (KeyError, ValueError):
            continue
        if value > 0:
            return value
    return 10.0
