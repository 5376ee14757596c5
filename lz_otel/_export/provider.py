"""The MeterProvider of the application: its readers get the same series, through the OpenTelemetry API.

Counters, up-down counters and gauges are observable instruments: they cost nothing until a reader
collects. Histograms have no observable form, so each sample is recorded when it is measured, with the
bounds of the catalogue as advice (views of the application may change them, on purpose).

Prepared samples (the gaps between the chunks of a stream come as counts per bucket) are recorded when
the next reader collects, and not on the path of a call. Each sample is recorded at a value inside its
bucket, all at the same relative place, chosen so that their sum is the true one. At most
`DRAIN_LIMIT` samples go in one collection; the rest follows in the next ones.

The provider is used, never replaced, and shut down by its owner only. After a fork the SDK keeps
the parent's histograms in the child (case 17): call ``instrument()`` after the fork. Its own limit of
2,000 attribute sets per instrument applies on top of ``LZ_OTEL_MAX_SERIES``.
"""

from __future__ import annotations

import contextlib
import logging
import time
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary

from opentelemetry.metrics import Observation

from lz_otel._export._label_values import LabelValues
from lz_otel._export._listeners import add_listener, remove_listener
from lz_otel._export._totals import Totals, keep, totals_of
from lz_otel._ground.guard import guard, guarded
from lz_otel._ground.lock import lock
from lz_otel._measure.store import other
from lz_otel._version import __version__
from lz_otel.catalogue import COUNTER, GAUGE, HISTOGRAM

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from opentelemetry.metrics import CallbackOptions, Meter, MeterProvider

    from lz_otel._measure.store import Series, Store
    from lz_otel.catalogue import Metric

_LOG = logging.getLogger("lz_otel")
DRAIN_LIMIT = 10_000  # samples
SNAPSHOT_AGE = 1.0  # seconds that the instruments of one collection may share a snapshot


def values_within(bounds: Sequence[float], counts: Sequence[int], total: float) -> list[float]:
    """Return one value per bucket, so that the samples of all buckets add up to ``total``.

    Args:
        bounds: upper bounds, ascending; the first bucket begins at 0, or at its bound if that is not above 0.
        counts: samples per bucket, one more than the bounds.
        total: their sum, which the buckets must allow; else the nearest that they do.
    """
    lows = [min(0.0, bounds[0]), *bounds]
    highs = [*bounds, max(2 * abs(bounds[-1]), total)]
    low = sum(n * v for n, v in zip(counts, lows, strict=True))
    high = sum(n * v for n, v in zip(counts, highs, strict=True))
    share = (total - low) / (high - low) if high > low else 1.0
    share = min(1.0, max(1e-9, share))  # the lower bound belongs to the bucket below
    return [max(lo + share * (hi - lo), lo + (hi - lo) * 1e-9) for lo, hi in zip(lows, highs, strict=True)]


class _Instruments:
    """The instruments in one provider. They cannot be removed, so they outlive the exporter they serve."""

    def __init__(self, provider: MeterProvider) -> None:
        self.source: ProviderExporter | None = None
        self._meter: Meter = provider.get_meter("lz_otel", __version__)
        self._made: dict[tuple[str, str], Any] = {}

    def add(self, metric: Metric) -> Any:
        key = (metric.name, metric.kind)
        if key not in self._made:
            self._made[key] = self._make(metric)
        return self._made[key]

    def _make(self, metric: Metric) -> Any:
        meter, name, unit, doc = self._meter, metric.name, metric.unit, metric.doc
        if metric.kind == HISTOGRAM:
            return meter.create_histogram(name, unit, doc, explicit_bucket_boundaries_advisory=metric.buckets)
        callbacks = [self._callback(metric)]
        if metric.kind == COUNTER:
            return meter.create_observable_counter(name, callbacks, unit, doc)
        if metric.kind == GAUGE:
            return meter.create_observable_gauge(name, callbacks, unit, doc)
        return meter.create_observable_up_down_counter(name, callbacks, unit, doc)

    def _callback(self, metric: Metric) -> Callable[[CallbackOptions], Iterable[Observation]]:
        def observe(_: CallbackOptions) -> Iterable[Observation]:
            source = self.source
            return [] if source is None else source.observe(metric)

        return observe


_known: WeakKeyDictionary[Any, _Instruments] = WeakKeyDictionary()


class ProviderExporter:
    """Hands the store to the application's MeterProvider."""

    port = None

    def __init__(self, store: Store, meter_provider: MeterProvider) -> None:
        self._store = store
        self._provider = meter_provider
        self._instruments: _Instruments | None = None
        self._histograms: dict[int, Any] = {}
        self._names = {id(m): tuple(a.name for a in m.attributes) for m in store.metrics}
        self._attributes: dict[int, dict[tuple[str, ...], dict[str, str]]] = {key: {} for key in self._names}
        self._values = LabelValues()
        self._recorded = False
        self._totals = totals_of(meter_provider)
        self._renew()

    def _renew(self) -> None:
        self._lock = lock()
        self._pending_lock = lock()
        self._pending: dict[tuple[int, tuple[str, ...]], tuple[Metric, list[int], float]] = {}
        self._points: dict[int, Any] = {}
        self._served: set[int] = set()
        self._taken_at = float("-inf")

    def start(self) -> None:
        """Make the instruments and record from now on. A provider that refuses is one warning."""
        if self._instruments is not None:
            return
        try:
            self._instruments = self._made()
        except Exception as error:  # noqa: BLE001 - a provider of the application's own making
            guard.count("export")
            text = (
                "The MeterProvider of the application takes no instruments (%s); it gets nothing of lz_otel"
            )
            _LOG.warning(text, type(error).__name__)
            return
        self._instruments.source = self
        add_listener(self._store, self.measured)

    def _made(self) -> _Instruments:
        try:
            instruments = _known[self._provider]
        except (KeyError, TypeError):
            instruments = _Instruments(self._provider)
            with contextlib.suppress(TypeError):  # cannot be referred to weakly: made again next time
                _known[self._provider] = instruments
        for metric in self._store.metrics:
            instrument = instruments.add(metric)
            if metric.kind == HISTOGRAM:
                self._histograms[id(metric)] = instrument
        return instruments

    def stop(self, timeout: float = 1.0) -> None:
        """Record no more, and observe nothing. What was recorded stays with the provider."""
        remove_listener(self._store, self.measured)
        instruments, self._instruments = self._instruments, None
        if instruments is None:
            return
        with guarded("export"):  # a provider that is already shut down
            self._drain()
        keep(self._provider, self._totals.added_to(self._sums()))
        if instruments.source is self:
            instruments.source = None

    def after_fork_in_child(self) -> None:
        """Start from zero where that is ours to decide, and warn once where it is not."""
        self._renew()
        self._totals = Totals()
        if self._instruments is not None and self._recorded:
            self._recorded = False
            _LOG.warning(
                "A forked process goes on with the MeterProvider of its parent, which keeps the parent's "
                "histograms: they are counted twice. Call lz_otel.instrument() after the fork instead"
            )

    @guarded("export")  # this is the host's thread
    def measured(self, measurements: Sequence[Any]) -> None:
        """Store listener: record the histograms' samples of a batch."""
        for metric, labels, value in measurements:
            histogram = self._histograms.get(id(metric))
            if histogram is None:
                continue
            if type(value) is tuple:
                self._put_off(metric, labels, value)
            else:
                self._recorded = True
                histogram.record(value, self._attributes_of(metric, labels))

    def _attributes_of(self, metric: Metric, labels: tuple[str, ...]) -> dict[str, str]:
        known = self._attributes[id(metric)]
        attributes = known.get(labels)
        if attributes is None:
            if len(known) >= self._store.max_series:
                labels = other(metric, labels)
            attributes = known[labels] = self._named(metric, labels)
        return attributes

    def _named(self, metric: Metric, labels: tuple[str, ...]) -> dict[str, str]:
        names, values = self._names[id(metric)], self._values
        return {name: values[label] for name, label in zip(names, labels, strict=True) if label}

    def _put_off(self, metric: Metric, labels: tuple[str, ...], value: Any) -> None:
        counts, total, _ = value
        with self._pending_lock:
            key = (id(metric), labels)
            entry = self._pending.get(key)
            if entry is None and len(self._pending) >= self._store.max_series:
                key = (id(metric), other(metric, labels))
                entry = self._pending.get(key)
            if entry is None:
                self._pending[key] = (metric, list(counts), total)
            else:
                added = [a + b for a, b in zip(entry[1], counts, strict=True)]
                self._pending[key] = (metric, added, entry[2] + total)

    def _drain(self) -> None:
        with self._pending_lock:
            pending, self._pending = self._pending, {}
        room = DRAIN_LIMIT
        for (ident, labels), (metric, counts, total) in pending.items():
            values = values_within(metric.buckets, counts, total)
            histogram, attributes = self._histograms[ident], self._attributes_of(metric, labels)
            for i, value in enumerate(values):
                n = min(counts[i], room)
                for _ in range(n):
                    histogram.record(value, attributes)
                self._recorded = self._recorded or n > 0
                room -= n
                counts[i] -= n
            if any(counts):
                total = sum(n * v for n, v in zip(counts, values, strict=True))
                self._put_off(metric, labels, (counts, total, 0))

    def _sums(self) -> list[Series]:
        """Return all but the histograms, which the provider holds."""
        return [series for series in self._store.snapshot() if series.metric.kind != HISTOGRAM]

    def observe(self, metric: Metric) -> Iterator[Observation]:
        """Yield the points of one metric; all instruments of a collection see the same snapshot."""
        ident = id(metric)
        with self._lock:
            now = time.monotonic()
            # An instrument that asks again: a new collection has begun.
            begins = ident in self._served or now - self._taken_at > SNAPSHOT_AGE
            if begins:
                self._points = {id(s.metric): s for s in self._totals.added_to(self._sums())}
                self._served.clear()
                self._taken_at = now
            self._served.add(ident)
            series = self._points.get(ident)
        if begins:
            self._drain()
        if series is None:
            return
        for labels, value in series.points:
            yield Observation(value, self._named(metric, labels))
