"""Spans out of the process: only on request, and never over a TracerProvider of the application.

The SDK's processor sends spans in batches, every few seconds, and its ``force_flush`` has no limit
of time. So a thread of ours asks for the last batch, and an end waits for that thread for
seconds at most. A provider that the application has set is flushed by its owner only.
"""

from __future__ import annotations

import logging
import threading
import time
from collections import deque
from typing import TYPE_CHECKING

from opentelemetry import trace
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import (
    BatchSpanProcessor,
    ConsoleSpanExporter,
    SpanExporter,
    SpanExportResult,
)

from lz_otel._export import _ends, _outage
from lz_otel._export._otlp_settings import check, exporter_class, protocol
from lz_otel._export._sdk_settings import asked, refused
from lz_otel._export._threads import Flush, start_thread
from lz_otel._ground.guard import guard, guarded
from lz_otel._ground.once import Once
from lz_otel.errors import MissingDependencyError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from opentelemetry.sdk.trace import ReadableSpan

_LOG = logging.getLogger("lz_otel")
_own: OwnSpans | None = None  # of the provider that we made: it stays for the life of the process


class _Watched(SpanExporter):
    """An exporter of the SDK that counts spans which it could not send, and tells when that begins and ends.

    It remembers in which threads it failed, since a processor does not say. What it logs itself, a line for
    each batch, is kept back, and so is the text of what it raises, which may quote a header.
    """

    def __init__(self, exporter: SpanExporter) -> None:
        self._exporter = exporter
        self._here = threading.local()
        self._failing = False
        self.sending = 0

    def export(self, spans: Sequence[ReadableSpan]) -> SpanExportResult:
        asked = _outage.is_quiet()  # by a flush of ours, which tells of its failure itself
        self.sending = len(spans)
        with _outage.quiet_thread():
            try:
                result = self._exporter.export(spans)
            except Exception as error:  # noqa: BLE001 - a header that cannot be sent, say
                _outage.remember(error)
                result = SpanExportResult.FAILURE
            self.sending = 0
            ok = result is SpanExportResult.SUCCESS
            if asked and not ok:
                self._here.failed = getattr(self._here, "failed", 0) + len(spans)
            elif not asked:
                self._tell(ok, len(spans))
        return result

    def _tell(self, ok: bool, number: int) -> None:
        if not ok:
            guard.lost("spans", number)
        if ok == (not self._failing):
            return
        self._failing = not ok
        if ok:
            _LOG.warning("lz_otel: sending spans%s works again", _outage.endpoint(self._exporter))
            return
        text = (
            "lz_otel: sending spans%s fails (%s); the service is not affected, they are lost and counted in "
            "lz_internal_lost_total until it works. Is the receiver up? Are address and headers right?"
        )
        reason = _outage.take_reason() or "no answer in time"
        _LOG.warning(text, _outage.endpoint(self._exporter, reason), reason)

    def failed(self) -> int:
        """Return how many spans failed in the current thread, and forget it."""
        failed: int = getattr(self._here, "failed", 0)
        self._here.failed = 0
        return failed

    def shutdown(self) -> None:
        self._exporter.shutdown()

    def force_flush(self, timeout_millis: int = 30000) -> bool:
        return self._exporter.force_flush(timeout_millis)


class _Batches(BatchSpanProcessor):
    """The SDK's processor. It drops the oldest span where its queue is full: counted here, and told once."""

    def __init__(self, exporter: _Watched) -> None:
        super().__init__(exporter)
        batches = getattr(self, "_batch_processor", None)
        self._queue: deque[object] = getattr(batches, "_queue", deque())  # an SDK without it: nothing is told
        self._watched = exporter
        self._told = Once()

    def on_end(self, span: ReadableSpan) -> None:
        with guarded("spans"):
            sampled = span.context is not None and span.context.trace_flags.sampled
            if sampled and len(self._queue) == self._queue.maxlen:
                guard.lost("spans")
                if next(self._told, False):
                    text = (
                        "lz_otel: spans are lost: %d wait to be sent, and there is no more room. They are "
                        "counted in lz_internal_lost_total. Raise OTEL_BSP_MAX_QUEUE_SIZE, or sample"
                    )
                    _LOG.warning(text, self._queue.maxlen)
        super().on_end(span)

    @property
    def waiting(self) -> int:
        """Return how many spans are not sent yet."""
        return len(self._queue) + self._watched.sending


class OwnSpans:
    """The provider that lz_otel has made, and the thread that sends what waits in it, in batches."""

    def __init__(self, exporters: Sequence[SpanExporter]) -> None:
        self._watched = [_Watched(exporter) for exporter in exporters]
        self._batches: list[_Batches] = []
        self.provider = TracerProvider(shutdown_on_exit=False)  # that would wait for 30 s; `finish` does not
        try:
            for exporter in self._watched:
                self._batches.append(_Batches(exporter))
                self.provider.add_span_processor(self._batches[-1])
        except Exception:
            self.provider.shutdown()  # the processors that were made have threads
            raise
        self._begun_at: float | None = None
        self._spawn()

    def _spawn(self) -> None:
        self._wake, self._done = threading.Event(), Flush()
        self._flushes: deque[Flush] = deque()  # one for each that was asked for and is not over
        self._thread = start_thread("lz-otel-spans", self._run, self._wake, self._flushes)

    @property
    def _runs(self) -> bool:
        return self._thread is not None and self._thread.is_alive()

    def _run(self, wake: threading.Event, flushes: deque[Flush]) -> None:
        while True:
            wake.wait()
            wake.clear()
            while flushes:
                ok = False
                try:
                    ok = bool(self._flush())
                finally:
                    flushes.popleft().end(ok)

    @guarded("export")
    def _flush(self) -> bool:
        with _outage.quiet_thread():
            _outage.take_reason()
            sent = self.provider.force_flush()
            failed = sum(exporter.failed() for exporter in self._watched)
            if failed:
                _lost(_outage.take_reason() or "no answer in time", failed)
            return sent and not failed

    def ask(self) -> Flush:
        """Send what waits, in the background."""
        if not self._runs:
            self._spawn()
        # A new one: the end of an earlier flush that hung does not mean that what has come since is sent.
        flush = Flush()
        self._flushes.append(flush)
        self._wake.set()
        if not self._runs:
            flush.end(False)
        return flush

    def begin(self) -> None:
        """Send what waits, in the background; `finish` waits for it."""
        self._begun_at = time.monotonic()
        self._done = self.ask()

    def finish(self, timeout: float = _ends.LIMIT) -> None:
        """Wait until what waited is sent, for at most ``timeout`` seconds since `begin` (called if need be).

        Where an earlier flush still hangs and none was begun since, that was waited for and logged already.
        """
        if self._begun_at is None:
            if self._flushes and self._runs:
                return
            self.begin()
        begun_at, self._begun_at = self._begun_at or 0.0, None
        if self._runs and not self._done.wait(max(0.0, begun_at + timeout - time.monotonic())):
            waiting = sum(batches.waiting for batches in self._batches)
            _lost("no answer in time", waiting)  # the thread that hangs is left behind

    def after_fork_in_child(self) -> None:
        """Start a thread of the child's. What waited in the parent is sent by the parent (by the SDK)."""
        self._begun_at = None
        for exporter in self._watched:
            exporter.sending = 0
        _outage.after_fork_in_child()
        self._spawn()


def _lost(reason: str, number: int = 1) -> None:
    guard.lost("spans", number)
    _LOG.warning(
        "lz_otel: sending the last spans fails (%s); the service is not affected, they are lost", reason
    )


def _taken() -> bool:
    """Return whether the application has set a TracerProvider of its own."""
    provider = asked("tracer_provider", trace.get_tracer_provider)
    return not isinstance(provider, (trace.ProxyTracerProvider, trace.NoOpTracerProvider))


def check_settings(names: tuple[str, ...]) -> None:
    """Check the settings of these exporters of spans before anything is changed, if they are to be used.

    Raises:
        ConfigurationError: one cannot be used.
    """
    if "otlp" in names and not _taken():
        check("traces")


def set_up(names: tuple[str, ...]) -> OwnSpans | None:
    """Set a global TracerProvider that exports to ``otlp`` and/or ``console``.

    Does nothing when the application has set one: that one is used. What cannot be made is a warning.

    Returns:
        The provider of ours, made now or earlier; ``None`` where there is none.

    Raises:
        ConfigurationError: the SDK refuses a variable of its own, such as ``OTEL_BSP_MAX_QUEUE_SIZE``.
    """
    global _own
    if _own is not None and trace.get_tracer_provider() is _own.provider:
        return _own
    if _taken():
        return None
    exporters: list[SpanExporter] = []
    for name in names:
        try:
            if name == "console":
                exporters.append(ConsoleSpanExporter())
            else:
                path, purpose = "trace_exporter.OTLPSpanExporter", "OTEL_TRACES_EXPORTER=otlp"
                made = exporter_class(path, protocol("traces"), purpose)
                with _outage.unquoted_headers():
                    exporters.append(made())
        except MissingDependencyError as missing:
            _LOG.warning("lz_otel: %s; no spans are exported", missing)
        except Exception as error:  # noqa: BLE001 - a bad certificate path
            kind = type(error).__name__
            _LOG.warning("lz_otel: the %s exporter of spans cannot be started (%s)", name, kind)
    if not exporters:
        return None
    try:
        _own = OwnSpans(exporters)
    except Exception as error:  # noqa: BLE001 - no setting: no thread for it, say
        if known := refused(error):
            raise known from None
        _LOG.warning("lz_otel: spans cannot be exported (%s)", type(error).__name__)
        return None
    trace.set_tracer_provider(_own.provider)
    _ends.at_end(_own.finish)
    return _own
