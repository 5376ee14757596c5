"""Prometheus: the store as metric families, in any registry, and on a port of our own.

The collector reads the store when it is asked, so recording costs nothing here. It fits into
every registry of prometheus_client (``generate_latest``, ``make_asgi_app``, OpenMetrics). Our own
server renders the same text directly, about ten times as fast as through sample objects.
Names, types and bounds come from the catalogue, as on OTLP (signal contract, D).
"""

from __future__ import annotations

import threading
from contextlib import contextmanager
from itertools import accumulate
from typing import TYPE_CHECKING

from prometheus_client import REGISTRY
from prometheus_client.core import Metric as Family
from prometheus_client.core import Sample
from prometheus_client.exposition import choose_encoder
from prometheus_client.utils import floatToGoString

from lz_otel._export._children import FirstCall, clean, logger
from lz_otel._export._server import MetricsServer
from lz_otel._ground.guard import guard
from lz_otel.catalogue import COUNTER, HISTOGRAM

if TYPE_CHECKING:
    from collections.abc import Iterator

    from prometheus_client.core import CollectorRegistry

    from lz_otel._measure.store import HistogramValue, Series, Store
    from lz_otel.catalogue import Metric

__all__ = ["PrometheusExporter", "StoreCollector"]


def _float(value: float) -> str:
    """A number as Prometheus writes it."""
    return str(floatToGoString(value))  # type: ignore[no-untyped-call]  # the one function without hints


def _escaped(value: str) -> str:
    value = clean(value)
    if '"' in value or "\\" in value:
        return value.replace("\\", "\\\\").replace('"', '\\"')
    return value


def _number(value: int) -> str:
    return f"{value}.0" if value < 1_000_000 else _float(value)


class _Layout:
    """What stays the same of a metric between two scrapes: its names, and its lines with gaps."""

    def __init__(self, metric: Metric) -> None:
        self.kind = metric.kind
        self.type = {COUNTER: "counter", HISTOGRAM: "histogram"}.get(metric.kind, "gauge")
        self.sample = metric.prometheus
        self.family = self.sample.removesuffix("_total") if metric.kind == COUNTER else self.sample
        self.doc = metric.doc
        self.labels = metric.labels
        self.bounds = (*(_float(b) for b in metric.buckets), "+Inf")
        # prometheus_client sorts labels; the same order here gives the same text.
        order = sorted(range(len(self.labels)), key=lambda i: self.labels[i])
        before = [i for i in order if self.labels[i] < "le"]
        self._order, self._split = order, len(before)
        names = [f'{self.labels[i]}="%s"' for i in order]
        self._line = f"{self.sample}{{{','.join(names)}}} " if names else f"{self.sample} "
        self._plain = f"{{{','.join(names)}}} " if names else " "
        self._head = "".join(f"{n}," for n in names[: self._split])
        self._tail = "".join(f",{n}" for n in names[self._split :])
        self._les = [f'le="{b}"' for b in self.bounds]

    def head(self, openmetrics: bool) -> str:
        name = self.family if openmetrics else self.sample
        doc = self.doc.replace("\\", "\\\\").replace("\n", "\\n")
        if openmetrics:
            doc = doc.replace('"', '\\"')
        return f"# HELP {name} {doc}\n# TYPE {name} {self.type}\n"

    def line(self, labels: tuple[str, ...], value: float) -> str:
        return f"{self._line % tuple([_escaped(labels[i]) for i in self._order])}{_float(value)}\n"

    def histogram(self, labels: tuple[str, ...], value: HistogramValue, out: list[str]) -> None:
        values = [_escaped(labels[i]) for i in self._order]
        head = f"{self.sample}_bucket{{{self._head % tuple(values[: self._split])}"
        tail = f"{self._tail % tuple(values[self._split :])}}} "
        out.extend(
            f"{head}{le}{tail}{_number(n)}\n"
            for le, n in zip(self._les, accumulate(value.counts), strict=True)
        )
        plain = self._plain % tuple(values)
        out.append(f"{self.sample}_count{plain}{_number(value.count)}\n")
        out.append(f"{self.sample}_sum{plain}{_float(value.sum)}\n")

    def empty_family(self) -> Family:
        return Family(self.family, self.doc, self.type)

    def family_of(self, series: Series) -> Family:
        family = self.empty_family()
        samples = family.samples
        name, names = self.sample, self.labels
        for labels, value in series.points:
            pairs = dict(zip(names, map(clean, labels), strict=True))
            if self.kind != HISTOGRAM:
                samples.append(Sample(name, pairs, float(value)))
                continue
            samples.extend(
                Sample(f"{name}_bucket", {**pairs, "le": bound}, float(n))
                for bound, n in zip(self.bounds, accumulate(value.counts), strict=True)
            )
            samples.append(Sample(f"{name}_count", pairs, float(value.count)))
            samples.append(Sample(f"{name}_sum", pairs, value.sum))
        return family


class StoreCollector:
    """A collector of prometheus_client over a store. No ``_created`` series, no exemplars."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._layouts = {metric: _Layout(metric) for metric in store.metrics}
        self._muted = threading.local()

    def describe(self) -> list[Family]:
        """The families without samples: the registry finds clashes, and ``name[]=`` works."""
        return [layout.empty_family() for layout in self._layouts.values()]

    def collect(self) -> Iterator[Family]:
        """All families that have points."""
        if getattr(self._muted, "on", False):
            return
        try:
            found = self._store.snapshot()
        except Exception as fault:  # noqa: BLE001 - the page of the host must not fail for us
            guard.fault("export", fault)
            return
        for series in found:
            try:
                family = self._layouts[series.metric].family_of(series)
            except Exception as fault:  # noqa: BLE001 - as above
                guard.fault("export", fault)
                continue
            yield family

    def text(self, openmetrics: bool = False) -> str:
        """The same as ``generate_latest`` gives for this collector, rendered directly."""
        out: list[str] = []
        for series in self._store.snapshot():
            layout = self._layouts[series.metric]
            out.append(layout.head(openmetrics))
            if layout.kind == HISTOGRAM:
                for labels, value in series.points:
                    layout.histogram(labels, value, out)
            else:
                out.extend([layout.line(labels, value) for labels, value in series.points])
        return "".join(out)

    @contextmanager
    def muted(self) -> Iterator[None]:
        """Within it, this thread's `collect` gives nothing (our server adds `text` itself)."""
        self._muted.on = True
        try:
            yield
        finally:
            self._muted.on = False


class PrometheusExporter:
    """The store in a registry, and on ``http://host:port/metrics``.

    Args:
        store: the numbers.
        host: address to listen on; ``OTEL_EXPORTER_PROMETHEUS_HOST``.
        port: port to listen on; ``OTEL_EXPORTER_PROMETHEUS_PORT``. 0 picks a free one.
        registry: where the series also appear; the default registry of prometheus_client if not given.
        serve: whether to listen at all. Without, there is no thread.
    """

    def __init__(
        self,
        store: Store,
        host: str = "localhost",
        port: int = 9464,
        registry: CollectorRegistry | None = None,
        serve: bool = True,
    ) -> None:
        self.collector = StoreCollector(store)
        self._store = store
        self._registry = REGISTRY if registry is None else registry
        self._server = MetricsServer(host, port, self.expose) if serve else None
        self._registered = False
        self._alone = False  # the registry would not have us: our port shows our series only
        self._broken_told = False
        self._first_call: FirstCall | None = None

    @property
    def port(self) -> int | None:
        """The port in use, or ``None`` while nothing listens."""
        return self._server.port if self._server else None

    def start(self) -> None:
        """Register and listen. A clash or a taken port is one warning; the host goes on."""
        self._register()
        if self._server:
            self._server.start()

    def _register(self) -> None:
        if self._registered:
            return
        try:
            self._registry.register(self.collector)
        except ValueError as error:  # DuplicateTimeseries
            self._alone = True
            clashes = sorted(getattr(error, "duplicates", ()))
            logger.warning(
                "The Prometheus registry already has series of these names, so those of lz_otel are left out of it: %s%s",
                ", ".join(clashes[:3]) or error,
                f" and {len(clashes) - 3} more" if len(clashes) > 3 else "",
            )
        else:
            self._registered = True

    def stop(self, timeout: float = 1.0) -> None:
        """Unregister and release the port, within about ``timeout`` seconds."""
        if self._first_call:
            self._first_call.cancel()
            self._first_call = None
        if self._registered:
            self._registered = False
            self._registry.unregister(self.collector)
        if self._server:
            self._server.stop(timeout)

    def after_fork_in_child(self) -> None:
        """Let go of the parent's port; listen again (if it is free by then) at the child's first call."""
        self.collector._muted = threading.local()
        if self._first_call:
            self._first_call.cancel()
            self._first_call = None
        if self._server and self._server.after_fork_in_child():
            self._first_call = FirstCall(self._store, self._server.start_in_thread)

    def expose(self, accept: str, names: list[str]) -> tuple[bytes, str]:
        """The body and content type of an answer: everything in the registry, ours included.

        Args:
            accept: the ``Accept`` header; chooses between the text format and OpenMetrics.
            names: sample names to restrict the answer to; empty for all.
        """
        encoder, content_type = choose_encoder(accept)
        if names:
            return encoder(self._registry.restricted_registry(names)), content_type
        openmetrics = content_type.startswith("application/openmetrics-text")
        if "escaping=dots" in content_type or "escaping=values" in content_type:
            return encoder(self._registry), content_type
        rest = b""
        try:
            if not self._alone:
                with self.collector.muted():
                    rest = encoder(self._registry)
        except Exception as error:  # noqa: BLE001 - somebody else's collector
            if not self._broken_told:
                self._broken_told = True
                logger.warning(
                    "Another collector in the Prometheus registry fails (%s); port %s shows the series of lz_otel only",
                    type(error).__name__,
                    self.port,
                )
        ours = self.collector.text(openmetrics).encode() if self._registered or self._alone else b""
        if openmetrics:
            return b"".join((rest.removesuffix(b"# EOF\n"), ours, b"# EOF\n")), content_type
        return rest + ours, content_type
