"""Several worker processes, one set of series: the files of prometheus_client.

prometheus_client looks for ``PROMETHEUS_MULTIPROC_DIR`` once, when it is imported: set it in the
environment of the service, to an empty directory, before the service starts (D). Each process then
writes its numbers into files of its own there, and ``MultiProcessCollector`` adds them up: on our
port, and in any ``/metrics`` that the service builds with it.

Merging: counters and histograms are sums over all processes, dead ones included. ``lz.call.active``
is the sum over living processes, rate limits are what any living process was told last, and
``lz.build_info`` stays 1. Files of dead processes that hold such gauges are removed at the next
scrape of our port, or at once by `mark_process_dead` (gunicorn's ``child_exit``).

Fork: the child opens files of its own and starts from zero in them; prometheus_client does that at
the first write. No fork happens while one of our threads is inside it, so its lock is free in the child.
"""

from __future__ import annotations

import atexit
import contextlib
import logging
import os
import threading
import time
from bisect import bisect_left
from pathlib import Path
from typing import TYPE_CHECKING, Any

import prometheus_client.values
from prometheus_client import CollectorRegistry
from prometheus_client.exposition import choose_encoder
from prometheus_client.multiprocess import MultiProcessCollector
from prometheus_client.multiprocess import mark_process_dead as _mark_process_dead
from prometheus_client.utils import floatToGoString

from lz_otel._export._label_values import printable
from lz_otel._export._listeners import add_listener, remove_listener
from lz_otel._export._server import MetricsServer
from lz_otel._ground.guard import guarded
from lz_otel._measure.store import other
from lz_otel.catalogue import BUILD_INFO, COUNTER, GAUGE, HISTOGRAM, UP_DOWN

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from lz_otel._measure.store import Store
    from lz_otel.catalogue import Metric

_LOG = logging.getLogger("lz_otel")
VARIABLE = "PROMETHEUS_MULTIPROC_DIR"

# Held while one of our threads is inside prometheus_client, whose own lock is out of reach: a fork in
# between would leave that one locked in the child for ever.
_inside = threading.Lock()
_held = threading.local()


def _before_fork() -> None:
    _held.now = _inside.acquire(timeout=1.0)


def _after_fork() -> None:
    if getattr(_held, "now", False):
        _held.now = False
        _inside.release()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(before=_before_fork, after_in_parent=_after_fork, after_in_child=_after_fork)


def directory() -> str | None:
    """Return the directory that prometheus_client writes to, or ``None`` where it does not."""
    if not getattr(prometheus_client.values.ValueClass, "_multiprocess", False):
        return None
    return os.environ.get(VARIABLE)


def mark_process_dead(pid: int) -> None:
    """Remove the gauges of a process that is gone, for gunicorn's ``child_exit``. Never raises.

    Args:
        pid: the process that ended.
    """
    path = directory()
    if path:
        with contextlib.suppress(OSError):
            _mark_process_dead(pid, path)  # type: ignore[no-untyped-call]  # a function without hints


class _Cells:
    """The values in the files that one label set of one metric writes to."""

    __slots__ = ("bounds", "buckets", "value")

    def __init__(self, metric: Metric, labels: tuple[str, ...]) -> None:
        make: Any = prometheus_client.values.ValueClass
        name, doc = metric.prometheus, metric.doc
        labels = tuple(map(printable, labels))
        self.bounds = metric.buckets
        self.buckets: list[Any] = []
        if metric.kind == HISTOGRAM:
            self.value = make("histogram", name, f"{name}_sum", metric.labels, labels, doc)
            bounds = [str(floatToGoString(b)) for b in metric.buckets]  # type: ignore[no-untyped-call]  # as above
            self.buckets = [
                make("histogram", name, f"{name}_bucket", (*metric.labels, "le"), (*labels, bound), doc)
                for bound in (*bounds, "+Inf")
            ]
        elif metric.kind == COUNTER:
            self.value = make("counter", name.removesuffix("_total"), name, metric.labels, labels, doc)
        else:
            mode = _mode(metric)
            self.value = make("gauge", name, name, metric.labels, labels, doc, multiprocess_mode=mode)

    def observe(self, value: Any) -> None:
        if type(value) is tuple:
            counts, total, _ = value
            for bucket, n in zip(self.buckets, counts, strict=True):
                if n:
                    bucket.inc(n)
            self.value.inc(total)
        else:
            self.buckets[bisect_left(self.bounds, value)].inc(1)
            self.value.inc(value)


def _mode(metric: Metric) -> str:
    """Return how the gauges of several processes become one."""
    if metric.kind == UP_DOWN:
        return "livesum"
    return "livemax" if metric is BUILD_INFO else "livemostrecent"


class MultiprocessExporter:
    """Writes every measurement to the process's files; one of the processes serves the merged series.

    The first process that gets the port serves for all; the others try again every few seconds, and silently.
    """

    def __init__(self, store: Store, host: str, port: int) -> None:
        self._store = store
        # By identity: the hash of a catalogue row takes microseconds.
        self._cells: dict[int, dict[tuple[str, ...], _Cells]] = {id(m): {} for m in store.metrics}
        self._server = MetricsServer(host, port, self.expose, quiet=True)
        self._running = False
        self._began = False

    @property
    def port(self) -> int | None:
        """Return the port this process serves on, or ``None``: another one does, or none."""
        return self._server.port

    def start(self) -> None:
        """Write from now on, and listen. Without a usable directory: one warning, and nothing else."""
        if self._running:
            return
        path = directory()
        if path is None or not Path(path).is_dir() or not os.access(path, os.W_OK):
            text = (
                "%s=%r cannot be used: expected a directory that can be written, set before "
                "prometheus_client is imported; the metrics of this process are not in Prometheus"
            )
            _LOG.warning(text, VARIABLE, os.environ.get(VARIABLE))
            return
        self._running = True
        atexit.register(self._exit)
        if not self._began:
            self._began = True
            for series in self._store.snapshot():  # what was counted before
                self.touched(series.metric, [labels for labels, _ in series.points])
                self.measured([(series.metric, labels, _measured(value)) for labels, value in series.points])
        add_listener(self._store, self.measured)
        self._store.touch_listeners.append(self.touched)
        self._server.start()

    def stop(self, timeout: float = 1.0) -> None:
        """Write no more and release the port. What was written stays, as counters of a dead process do."""
        if not self._running:
            return
        self._running = False
        atexit.unregister(self._exit)
        self._detach()
        self._server.stop(timeout)
        if not _inside.acquire(timeout=1.0):  # a signal's handler that stops us may itself stand in the way
            return
        try:
            for metric in self._store.metrics:
                if metric.kind == UP_DOWN:
                    for cell in self._cells[id(metric)].values():
                        cell.value.set(0.0)
        finally:
            _inside.release()

    def _detach(self) -> None:
        remove_listener(self._store, self.measured)
        if self.touched in self._store.touch_listeners:
            self._store.touch_listeners.remove(self.touched)

    def _exit(self) -> None:
        """Remove the gauges of this process, which ends."""
        if self._running:
            self._detach()
            mark_process_dead(os.getpid())

    def after_fork_in_child(self) -> None:
        """Forget the parent's label sets; listen at its first call, if no other process does by then."""
        if not self._running:
            return
        for cells in self._cells.values():
            cells.clear()
        self._server.after_fork_in_child(self._store)

    @guarded("export")  # a full disk, a directory that vanished
    def measured(self, measurements: Sequence[Any]) -> None:
        """Store listener: write a batch."""
        with _inside:
            for metric, labels, value in measurements:
                known = self._cells.get(id(metric))
                if known is None:
                    continue
                cell = known.get(labels) or self._new(metric, labels, known)
                kind = metric.kind
                if kind == HISTOGRAM:
                    cell.observe(value)
                elif kind == GAUGE:
                    cell.value.set(value, time.time())
                else:
                    cell.value.inc(value)

    @guarded("export")
    def touched(self, metric: Metric, label_sets: Iterable[tuple[str, ...]]) -> None:
        """Store listener: label sets that begin at 0."""
        known = self._cells.get(id(metric))
        if known is None:
            return
        with _inside:
            for labels in label_sets:
                if labels not in known:
                    self._new(metric, labels, known)

    def _new(self, metric: Metric, labels: tuple[str, ...], known: dict[tuple[str, ...], _Cells]) -> _Cells:
        if len(known) >= self._store.max_series:
            labels = other(metric, labels)
            if labels in known:
                return known[labels]
        cell = known[labels] = _Cells(metric, labels)
        return cell

    def expose(self, accept: str, names: list[str]) -> tuple[bytes, str]:
        """Return body and content type of an answer: the series of all processes, the host's own included."""
        path = directory()
        registry: Any = CollectorRegistry()
        if path:
            _remove_dead(Path(path))
            MultiProcessCollector(registry, path)  # type: ignore[no-untyped-call]  # a class without hints
        encoder, content_type = choose_encoder(accept)
        return encoder(_Restricted(registry, names) if names else registry), content_type


class _Restricted(CollectorRegistry):
    """Another registry, restricted to samples of some names (its collectors do not say their names)."""

    def __init__(self, whole: CollectorRegistry, names: Iterable[str]) -> None:
        super().__init__()
        self._whole = whole
        self._names = frozenset(names)

    def collect(self) -> Iterator[Any]:
        for family in self._whole.collect():
            family.samples = [sample for sample in family.samples if sample.name in self._names]
            if family.samples:
                yield family


def _measured(value: Any) -> Any:
    counts = getattr(value, "counts", None)
    return value if counts is None else (counts, value.sum, value.count)


def _remove_dead(path: Path) -> None:
    """Remove living-process gauges of processes that are gone, as `mark_process_dead` would have."""
    for file in path.glob("gauge_live*_*.db"):
        pid = file.stem.rpartition("_")[2]
        if not pid.isdigit():
            continue
        try:
            os.kill(int(pid), 0)
        except ProcessLookupError:
            file.unlink(missing_ok=True)
        except OSError:  # it lives, and is of another user
            continue
