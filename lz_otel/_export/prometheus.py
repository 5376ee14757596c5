"""Prometheus: the store as metric families, in any registry, and on a port of our own.

The collector reads the store when it is asked, so recording costs nothing here. It fits into
every registry of prometheus_client (``generate_latest``, ``make_asgi_app``, OpenMetrics). Our own
server renders the same text directly, about ten times as fast as through sample objects.
Names, types and bounds come from the catalogue, as on OTLP (signal contract, D).
"""

from __future__ import annotations

import logging
import threading
from itertools import accumulate
from operator import itemgetter
from typing import TYPE_CHECKING, Any

from prometheus_client import REGISTRY
from prometheus_client.core import Metric as Family
from prometheus_client.core import Sample
from prometheus_client.exposition import choose_encoder
from prometheus_client.utils import floatToGoString

from lz_otel._export._label_values import LabelValues, printable
from lz_otel._export._server import MetricsServer
from lz_otel._export._totals import Totals, keep, totals_of
from lz_otel._ground.guard import guard
from lz_otel._ground.once import Once
from lz_otel.catalogue import COUNTER, HISTOGRAM

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from prometheus_client.core import CollectorRegistry

    from lz_otel._measure.store import HistogramValue, Series, Store
    from lz_otel.catalogue import Metric

_LOG = logging.getLogger("lz_otel")


def _float(value: float) -> str:
    """Return a number as Prometheus writes it: as Python does, unless it is large or not finite."""
    if -1e300 < value < 1_000_000:
        return repr(float(value))
    return str(floatToGoString(value))  # type: ignore[no-untyped-call]  # the one function without hints


class _EscapedValues(LabelValues):
    """Label values as they stand between the quotes of an exposition."""

    def __missing__(self, value: str) -> str:
        text = self[value] = printable(value).replace("\\", "\\\\").replace('"', '\\"')
        return text


class _Layout:
    """What stays the same of a metric between two scrapes: its names, and its lines without label values."""

    def __init__(self, metric: Metric, values: LabelValues, escaped: _EscapedValues) -> None:
        self.kind = metric.kind
        self.type = {COUNTER: "counter", HISTOGRAM: "histogram"}.get(metric.kind, "gauge")
        self.sample = metric.prometheus
        self.family = self.sample.removesuffix("_total") if metric.kind == COUNTER else self.sample
        self.doc = metric.doc
        self.labels = labels = metric.labels
        self.bounds = (*(_float(bound) for bound in metric.buckets), "+Inf")
        self._value, self._escaped = values.__getitem__, escaped.__getitem__
        # prometheus_client sorts labels; the same order here gives the same text.
        order = sorted(range(len(labels)), key=labels.__getitem__)
        self._sort: Callable[[tuple[str, ...]], Any] = itemgetter(*order) if len(order) > 1 else tuple
        pairs = [f'{labels[i]}="%s"' for i in order]
        self._braces = f"{{{','.join(pairs)}}} " if pairs else " "
        self._split = sum(label < "le" for label in labels)
        self._before_le = "".join(f"{pair}," for pair in pairs[: self._split])
        self._after_le = "".join(f",{pair}" for pair in pairs[self._split :])
        self._les = [f'le="{bound}"' for bound in self.bounds]

    def head(self, openmetrics: bool) -> str:
        name = self.family if openmetrics else self.sample
        doc = self.doc.replace("\\", "\\\\").replace("\n", "\\n")
        if openmetrics:
            doc = doc.replace('"', '\\"')
        return f"# HELP {name} {doc}\n# TYPE {name} {self.type}\n"

    def line(self, labels: tuple[str, ...], value: float) -> str:
        return f"{self.sample}{self._braces % tuple(map(self._escaped, self._sort(labels)))}{_float(value)}\n"

    def histogram(self, labels: tuple[str, ...], value: HistogramValue) -> str:
        values = tuple(map(self._escaped, self._sort(labels)))
        head = f"{self.sample}_bucket{{{self._before_le % values[: self._split]}"
        tail = f"{self._after_le % values[self._split :]}}} "
        lines = [
            f"{head}{le}{tail}{n}.0" if n < 1_000_000 else f"{head}{le}{tail}{_float(n)}"
            for le, n in zip(self._les, accumulate(value.counts), strict=True)
        ]
        braces = self._braces % values
        count, total = f"_count{braces}{_float(value.count)}", f"_sum{braces}{_float(value.sum)}"
        return "\n".join([*lines, f"{self.sample}{count}", f"{self.sample}{total}", ""])

    def empty_family(self) -> Family:
        return Family(self.family, self.doc, self.type)

    def family_of(self, series: Series) -> Family:
        family = self.empty_family()
        samples = family.samples
        name = self.sample
        for labels, value in series.points:
            pairs = dict(zip(self.labels, map(self._value, labels), strict=True))
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
    """A collector of prometheus_client over a store. No ``_created`` series, no exemplars.

    Args:
        store: what is shown.
        totals: what was counted before the store began.
    """

    def __init__(self, store: Store, totals: Totals | None = None) -> None:
        self._store = store
        self._totals = Totals() if totals is None else totals
        values, escaped = LabelValues(), _EscapedValues()
        self._layouts = {id(metric): _Layout(metric, values, escaped) for metric in store.metrics}
        self.muted = threading.local()  # where its `on` is true, `collect` gives nothing to this thread

    def after_fork_in_child(self, totals: Totals) -> None:
        """Show what the child counts."""
        self._totals, self.muted = totals, threading.local()

    def describe(self) -> list[Family]:
        """Return the families without samples: the registry finds clashes, and ``name[]=`` works."""
        return [layout.empty_family() for layout in self._layouts.values()]

    def collect(self) -> Iterator[Family]:
        """Yield all families that have points."""
        if getattr(self.muted, "on", False):
            return
        try:
            snapshot = self._store.snapshot()
            if self._totals.kept:
                snapshot = self._totals.added_to(snapshot)
        except Exception as fault:  # noqa: BLE001 - the page of the host must not fail for us
            guard.fault("export", fault)
            return
        for series in snapshot:
            try:
                family = self._layouts[id(series.metric)].family_of(series)
            except Exception as fault:  # noqa: BLE001 - nor must one metric for the others
                guard.fault("export", fault)
            else:
                yield family

    def text(self, openmetrics: bool = False) -> str:
        """Return what ``generate_latest`` gives for this collector, rendered directly."""
        parts: list[str] = []
        for series in self._totals.added_to(self._store.snapshot()):
            layout = self._layouts[id(series.metric)]
            parts.append(layout.head(openmetrics))
            render = layout.histogram if layout.kind == HISTOGRAM else layout.line
            parts.extend([render(labels, value) for labels, value in series.points])
        return "".join(parts)


class PrometheusExporter:
    """The store in a registry (that of prometheus_client if not given), and on ``http://host:port/metrics``.

    Port 0 picks a free one.
    """

    def __init__(self, store: Store, host: str, port: int, registry: CollectorRegistry | None = None) -> None:
        self._store = store
        self._registry = REGISTRY if registry is None else registry
        self._totals = totals_of(self._registry)
        self.collector = StoreCollector(store, self._totals)
        self._running = False
        self._server = MetricsServer(host, port, self.expose)
        self._registered = False
        self._alone = False  # the registry would not have us: our port shows our series only
        self._others_failed = Once()

    @property
    def port(self) -> int | None:
        """Return the port in use, or ``None`` while nothing listens."""
        return self._server.port

    def start(self) -> None:
        """Register and listen. A clash or a taken port is one warning; the host goes on."""
        self._running = True
        self._register()
        self._server.start()

    def _register(self) -> None:
        if self._registered:
            return
        try:
            self._registry.register(self.collector)
        except ValueError as error:  # DuplicateTimeseries
            self._alone = True
            clashes = sorted(getattr(error, "duplicates", ()))
            named = ", ".join(clashes[:3]) or error
            more = f" and {len(clashes) - 3} more" if len(clashes) > 3 else ""
            _LOG.warning(
                "The Prometheus registry already has series of these names, "
                "so those of lz_otel are left out of it: %s%s",
                named,
                more,
            )
        else:
            self._registered = True

    def stop(self, timeout: float = 1.0) -> None:
        """Unregister and release the port, within about ``timeout`` seconds."""
        if self._running:
            self._running = False
            keep(self._registry, self._totals.added_to(self._store.snapshot()))
        if self._registered:
            self._registered = False
            self._registry.unregister(self.collector)
        self._server.stop(timeout)

    def release(self) -> None:
        """Leave the port to another process."""
        self._server.stop(0.5)

    def after_fork_in_child(self) -> None:
        """Let go of the parent's port; listen again (if it is free by then) at the child's first call."""
        self._totals = Totals()
        self.collector.after_fork_in_child(self._totals)
        self._server.after_fork_in_child(self._store)

    def expose(self, accept: str, names: list[str]) -> tuple[bytes, str]:
        """Return the body and content type of an answer: everything in the registry, ours included.

        ``accept`` is the header, which chooses between the text format and OpenMetrics; ``names`` are sample
        names to restrict the answer to, empty for all.
        """
        encoder, content_type = choose_encoder(accept)
        if names:
            return encoder(self._registry.restricted_registry(names)), content_type
        if "escaping=dots" in content_type or "escaping=values" in content_type:
            return encoder(self._registry), content_type
        openmetrics = content_type.startswith("application/openmetrics-text")
        others = b"" if self._alone else self._others(encoder)
        ours = self.collector.text(openmetrics).encode() if self._registered or self._alone else b""
        if openmetrics:
            return b"".join((others.removesuffix(b"# EOF\n"), ours, b"# EOF\n")), content_type
        return others + ours, content_type

    def _others(self, encoder: Callable[[CollectorRegistry], bytes]) -> bytes:
        """Return the text of everything else in the registry; nothing where that fails."""
        self.collector.muted.on = True
        try:
            return encoder(self._registry)
        except Exception as error:  # noqa: BLE001 - a collector of the host or of a library
            if next(self._others_failed, False):
                text = (
                    "Another collector in the Prometheus registry fails (%s); "
                    "port %s shows the series of lz_otel only"
                )
                _LOG.warning(text, type(error).__name__, self.port)
            return b""
        finally:
            self.collector.muted.on = False
