"""Composition root: settings, exporters, stages and hooks, put together and taken apart.

All global state of lz_otel is the one `_Runtime` in `_current`, behind one lock.
"""

from __future__ import annotations

import functools
import logging
import os
import platform
import time
from dataclasses import dataclass
from importlib import metadata
from typing import TYPE_CHECKING, Any, Unpack

from lz_otel import _config, _operation, catalogue
from lz_otel._capture.clients import LIBRARIES, ClientHooks
from lz_otel._capture.imports import WhenImported
from lz_otel._capture.sdk import HandedCalls
from lz_otel._export import _ends, factory
from lz_otel._export._celery import CeleryHooks
from lz_otel._export._reloaders import Reloaders
from lz_otel._extract import candidate
from lz_otel._ground import gc_phase, interpreter
from lz_otel._ground.guard import guard, guarded
from lz_otel._ground.lock import lock
from lz_otel._intake import Intake
from lz_otel._later import Later
from lz_otel._measure.labels import Labels
from lz_otel._measure.store import Store
from lz_otel._reports import Reports
from lz_otel._version import __version__
from lz_otel.errors import ConfigurationError

if TYPE_CHECKING:
    from opentelemetry.metrics import MeterProvider
    from opentelemetry.trace import TracerProvider
    from prometheus_client import CollectorRegistry

    from lz_otel._config import InstrumentSettings, Settings
    from lz_otel._export._threads import Flush
    from lz_otel._judge.in_force import MechanismsInForce
    from lz_otel._measure.spans import Spans
    from lz_otel._price.cost import Prices

_LOG = logging.getLogger("lz_otel")
_lock = lock()
_current: _Runtime | None = None
# One set of hooks per process: one that another library has wrapped stays, and is used again
_clients = ClientHooks()
_fork_registered = False
_UNDO_LIMIT = 1.0  # seconds that exporters may take to stop when a start has failed


@dataclass(frozen=True, slots=True)
class Status:
    """What `instrument` has put in place.

    Attributes:
        enabled: whether calls are observed.
        hooked: modules and SDKs whose classes are hooked now.
        waiting: those that will be hooked when the application imports them.
        exporters: where metrics go: ``prometheus``, ``otlp``, ``console``, ``meter_provider``.
        prometheus_port: port of our own ``/metrics``, if it is served.
    """

    enabled: bool
    hooked: tuple[str, ...] = ()
    waiting: tuple[str, ...] = ()
    exporters: tuple[str, ...] = ()
    prometheus_port: int | None = None


class _Runtime:
    """One instrumentation in force."""

    def __init__(
        self,
        settings: Settings,
        meter_provider: MeterProvider | None,
        tracer_provider: TracerProvider | None,
        registry: CollectorRegistry | None,
    ) -> None:
        from lz_otel._price.cost import Prices

        self.settings = settings
        self.prices = Prices.load(settings.prices)
        self.store = Store(catalogue.selected(settings.conventions), settings.max_series)
        self.labels = Labels(functools.partial(_priced, self.prices))
        self.judges = self._make_judges()
        self.spans = self._make_spans(tracer_provider)
        self.later = Later(
            self.store,
            self.labels,
            judges=self.judges,
            prices=self.prices,
            spans=self.spans,
            providers=settings.providers,
            legacy=settings.conventions != "latest",
        )
        self.intake = Intake(
            self.store,
            self.later,
            spans=self.spans,
            overhead_sample=settings.overhead_sample,
            at_once=bool(os.environ.get("PROMETHEUS_MULTIPROC_DIR")),
        )
        self.reports = Reports(
            self.store, self.labels, lambda: () if self.judges is None else self.judges.awake
        )
        self.clients = _clients
        made = factory.exporters(self.store, settings, meter_provider, registry)
        self.exporter_names, self.exporters = list(made), list(made.values())
        names = settings.trace_exporters if self.spans is not None or settings.spans == "off" else ()
        self.trace_names = tuple(n for n in names or () if n != "none")
        self.own_spans: Any = None
        self.http_spans: Any = ()  # instrumentors that we have switched on
        if self.trace_names:
            from lz_otel._export import _sdk_settings

            self.trace_names = _sdk_settings.usable(self.trace_names)
        self.audit = factory.audit_log(settings, self.later.listeners)
        self.imports = WhenImported(self.clients.callbacks())
        self.around = (Reloaders(self.exporters), CeleryHooks(self.store, self.ask))
        self.around_imports = WhenImported({k: v for one in self.around for k, v in one.callbacks.items()})

    # --- making -----------------------------------------------------------------------------

    def _make_judges(self) -> MechanismsInForce | None:
        settings = self.settings
        if settings.mechanisms == ("none",):
            return None
        from lz_otel._judge import signals
        from lz_otel._judge.in_force import MechanismsInForce

        table = signals.load(settings.signals, settings.response_cache_header)
        return MechanismsInForce(table, settings.mechanisms, self.prices, miss_reasons=settings.miss_reasons)

    def _make_spans(self, tracer_provider: TracerProvider | None) -> Spans | None:
        if self.settings.spans == "off":
            return None
        from opentelemetry import trace

        from lz_otel._export._sdk_settings import check_provider
        from lz_otel._measure.spans import Spans

        if tracer_provider is None and not check_provider("tracer_provider", trace.get_tracer_provider):
            return None
        return Spans(tracer_provider, __version__, _is_call)

    # --- starting and stopping ----------------------------------------------------------------

    def start(self) -> None:
        """Export, then observe: no call is seen before there is a place for its numbers.

        Where that fails, what was done is undone, so that a corrected start finds ports and hooks free.
        """
        try:
            self._start()
        except BaseException:
            with guarded("export"):  # what went wrong first is what has to be told
                self.stop(_UNDO_LIMIT)
                for instrumentor in self.http_spans:
                    instrumentor.uninstrument()
            raise

    def _start(self) -> None:
        settings = self.settings
        guard.on_fault, guard.on_lost = self._count_fault, self._count_lost
        gc_phase.watch()
        if self.trace_names:
            from lz_otel._export import _sdk_settings

            self.own_spans = _sdk_settings.set_up(self.trace_names)
        for exporter in self.exporters:
            exporter.start()
        if self.own_spans is not None or any(map(_ends.takes_part, self.exporters)):
            _ends.at_end(self._begin_end)  # the last one is the first to run
            _ends.at_end(self.intake.end_all)
        self._constants()
        if settings.http_spans == "on" or (settings.http_spans == "auto" and self.trace_names):
            from lz_otel._export import http_spans

            self.http_spans = http_spans.switch_on()
        self._connect()
        self.imports.install()
        self.around_imports.install()
        if warning := self.prices.stale(time.time()):
            _LOG.warning("lz_otel: %s", warning)

    def _constants(self) -> None:
        """Count what is there before any call: what is running, and faults at 0."""
        labels = (__version__, platform.python_version(), _package("httpx"), _package("httpx2"))
        self.store.add(((catalogue.BUILD_INFO, labels, 1.0),))
        for metric in (catalogue.INTERNAL_ERRORS, catalogue.INTERNAL_LOST):
            self.store.touch(metric, [(value,) for value in metric.attributes[0].values])

    def _connect(self) -> None:
        """Hand the hooks of the capture stage what they call."""
        intake = self.intake
        intake.connect()
        self.clients.sdks.handed = HandedCalls(
            intake.call_opened, intake.call_entered, intake.call_left, intake.lost, _is_call
        )
        self.clients.http.left, self.clients.http.lost = intake.call_left, intake.lost
        self.clients.http.begin = intake.begin

    def _count_fault(self, where: str) -> None:
        """Count a swallowed fault; called by the guard."""
        self.store.add(((catalogue.INTERNAL_ERRORS, (where,), 1.0),))

    def _count_lost(self, what: str, number: float) -> None:
        """Count what could not be kept; called by the guard."""
        self.store.add(((catalogue.INTERNAL_LOST, (what,), number),))

    @guarded("export")
    def _begin_end(self, timeout: float) -> None:
        """Begin to send what waits, spans and metrics side by side; calls that were not read yet included."""
        self.intake.catch_up()
        if self.own_spans is not None:
            self.own_spans.begin()
        for exporter in self.exporters:
            if hasattr(exporter, "begin_stop"):
                exporter.begin_stop(timeout)

    def ask(self) -> list[Flush] | None:
        """Bring in what waits, and begin to send it; ``None`` where that cannot be done."""
        self.intake.catch_up()  # files of worker processes are written with it
        if self.intake.backlog.waiting or any(getattr(one, "failing", False) for one in self.exporters):
            return None
        return [one.ask() for one in (*self.exporters, self.own_spans) if hasattr(one, "ask")]

    def stop(self, timeout: float) -> None:
        """Unhook first, then let the exporters say their last word."""
        end = time.monotonic() + timeout
        self.imports.remove()
        self.around_imports.remove()
        for hooks in self.around:
            hooks.remove()
        self.clients.remove()
        _ends.remove(self._begin_end)
        _ends.remove(self.intake.end_all)
        self._begin_end(timeout)
        for exporter in self.exporters:
            with guarded("export"):  # one exporter must not keep the others from stopping
                exporter.stop(max(0.0, end - time.monotonic()))
        if self.own_spans is not None:
            self.own_spans.finish(timeout)
        if self.audit is not None:
            _ends.remove(self.audit.close)
            self.audit.close(timeout)
        guard.on_fault = guard.on_lost = None
        gc_phase.unwatch()

    def status(self) -> Status:
        """Return what was put in place."""
        port = next((e.port for e in self.exporters if getattr(e, "port", None) is not None), None)
        return Status(
            True,
            tuple(self.clients.hooked),
            tuple(dict.fromkeys(name.partition(".")[0] for name in self.imports.waiting)),
            tuple(self.exporter_names),
            port,
        )

    def after_fork_in_child(self) -> None:
        """Start from zero in a forked child, with exporters of its own."""
        gc_phase.after_fork_in_child()
        self.intake.after_fork_in_child()
        if self.judges is not None:
            self.judges.after_fork_in_child()
        if self.own_spans is not None:
            self.own_spans.after_fork_in_child()
        self._constants()
        for exporter in self.exporters:
            exporter.after_fork_in_child()


def _priced(prices: Prices, model: str) -> bool:
    """Return whether the price table knows a model: such names are always admitted as labels."""
    row, _, _ = prices.table.find(model, "", time.time())
    return row is not None


def _is_call(method: str, path: str) -> bool:
    return candidate(method, path) is not None


def _package(name: str) -> str:
    try:
        return metadata.version(name)
    except metadata.PackageNotFoundError:
        return ""


def current() -> _Runtime | None:
    """Return the instrumentation in force."""
    return _current


def instrument(
    *,
    meter_provider: MeterProvider | None = None,
    tracer_provider: TracerProvider | None = None,
    registry: CollectorRegistry | None = None,
    **settings: Unpack[InstrumentSettings],
) -> Status:
    """Observe every call that this process makes to LLM APIs over httpx, httpx2, urllib3 or aiohttp.

    Call it once at start-up. Calling it again changes nothing. Clients made before count too.

    Args:
        meter_provider: an OpenTelemetry MeterProvider to record into (used, never replaced).
        tracer_provider: an OpenTelemetry TracerProvider for spans; by default the global one.
        registry: a prometheus_client registry; by default the global one.
        **settings: any row of the table of settings, for example ``exporters=("otlp",)``.

    Returns:
        What was put in place.

    Raises:
        ConfigurationError: a setting cannot be used; the text names it, its value and what is allowed.
    """
    global _current
    with _lock:
        if _current is not None:
            _LOG.debug("lz_otel: instrument() was called again; nothing to do")
            return _current.status()
        loaded = _config.load(None, factory.unread(settings, meter_provider), **settings)
        if loaded.disabled:
            _LOG.info("lz_otel: switched off by OTEL_SDK_DISABLED")
            return Status(False)
        if interpreter.refused():
            return Status(False)
        try:
            runtime = _Runtime(loaded, meter_provider, tracer_provider, registry)
            _register_fork()
            runtime.start()
        except ConfigurationError as error:
            raise _config.named(error, settings) from None
        _current = runtime
        status = runtime.status()
    _tell(status)
    return status


def _tell(status: Status) -> None:
    if not status.hooked and not any(map(_package, LIBRARIES)):
        _LOG.warning("lz_otel: none of %s is installed, so no call can be observed", ", ".join(LIBRARIES))
    else:
        _LOG.info(
            "lz_otel: observing %s%s; metrics to %s",
            ", ".join(status.hooked) or "nothing yet",
            " (and others when they are imported)" if status.waiting else "",
            ", ".join(status.exporters) or "nowhere",
        )


def uninstrument(timeout: float = 1.8) -> None:
    """Undo `instrument`: remove what is ours (never another library's wrapper), stop the exporters.

    Sends the last metrics, and the last spans where lz_otel made the TracerProvider (which stays).

    Args:
        timeout: most seconds that a last export may take, of metrics and of spans side by side.
    """
    global _current
    with _lock:
        runtime, _current = _current, None
        if runtime is not None:
            runtime.stop(timeout)


def status() -> Status:
    """Return what is in place now."""
    runtime = _current
    return Status(False) if runtime is None else runtime.status()


# --- fork ---------------------------------------------------------------------------------------


def _register_fork() -> None:
    global _fork_registered
    if not _fork_registered and hasattr(os, "register_at_fork"):
        os.register_at_fork(after_in_child=_after_fork)
        _fork_registered = True


def _after_fork() -> None:
    global _lock
    _lock = lock()
    guard.reset()
    _operation.after_fork_in_child()
    runtime = _current
    if runtime is None:
        return
    with guarded("export"):  # a fork of the host must not fail for us
        runtime.after_fork_in_child()
