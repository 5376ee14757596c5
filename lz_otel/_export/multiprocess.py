"""Several worker processes, one set of series: files in the format of prometheus_client.

Set ``PROMETHEUS_MULTIPROC_DIR`` in the environment of the service, to a directory of its own (D). Each
process keeps files there (`_worker_file`), written at the end of every turn of work from the store's sums: a
process that is killed right after a call has lost nothing. ``MultiProcessCollector`` adds them up: on our
port, and in any ``/metrics`` that the service builds with it.

Merging: counters and histograms are sums over all processes, those that are gone included. ``lz.call.active``
is the sum over living processes, rate limits are what any living process was told last, and ``lz.build_info``
stays 1. Gauges of a process that is gone are removed by the next scrape of our port, by the next worker that
starts, or at once by prometheus_client's ``mark_process_dead`` (gunicorn's ``child_exit``).

Fork: the child opens files of its own at its first call and starts from zero in them.
"""

from __future__ import annotations

import atexit
import json
import logging
import os
import threading
import time
from bisect import bisect_left
from math import isnan
from pathlib import Path
from typing import TYPE_CHECKING, Any

from prometheus_client.exposition import choose_encoder
from prometheus_client.utils import floatToGoString

from lz_otel._export._label_values import LabelValues
from lz_otel._export._listeners import OF_THE_PROCESS, add_listener, remove_listener
from lz_otel._export._server import MetricsServer
from lz_otel._export._worker_file import WorkerFile, entries_around, remove_dead_gauges
from lz_otel._export._worker_merge import WorkerFiles
from lz_otel._ground.guard import guard, guarded
from lz_otel._ground.lock import lock
from lz_otel._measure.store import other
from lz_otel.catalogue import BUILD_INFO, CALL_ACTIVE, COUNTER, GAUGE, HISTOGRAM, INTERNAL_OVERFLOW, UP_DOWN

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from lz_otel._measure.store import Store
    from lz_otel.catalogue import Metric

_LOG = logging.getLogger("lz_otel")
VARIABLE = "PROMETHEUS_MULTIPROC_DIR"
_LOOK_EVERY = 1.0  # seconds between two looks at whether the files are still there
_MISSING = 3.0  # seconds that a folder is missing before it is made again: whoever removed it may do so
_MAX_FRAMES = 256  # of a metric, each of a few KB
_ALL = object()
_UNTOLD = (INTERNAL_OVERFLOW, CALL_ACTIVE)  # no listener is told of these
_TEXTS = {
    "vanished": (
        "lz_otel: files in %s=%s have vanished; they are written anew, with all that this process has counted"
    ),
    "failing": (
        "lz_otel: %s=%s cannot be written (%s): expected a directory with room in it. The service goes on; "
        "the numbers of this process are kept in memory, and written when they can be"
    ),
    "written": "lz_otel: %s=%s is written again; nothing was lost",
    "lost": "lz_otel: %s=%s could not be written; the last numbers of this process are lost",
}

# Held while a thread writes: a fork in between would copy half of it.
_inside = lock()
_held = threading.local()


def _before_fork() -> None:
    _held.now = _inside.acquire(timeout=1.0)


def _after_fork_in_parent() -> None:
    if getattr(_held, "now", False):
        _held.now = False
        _inside.release()


def _after_fork_in_child() -> None:
    global _inside
    _held.now = False
    _inside = lock()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(
        before=_before_fork, after_in_parent=_after_fork_in_parent, after_in_child=_after_fork_in_child
    )


class _Rows:
    """A metric's values in the file of its kind."""

    def __init__(self, metric: Metric, points: Any) -> None:
        self.metric = metric
        self.points = points  # the store's own
        self.cells: dict[tuple[str, ...], tuple[int, ...]] = {}
        name, doc = metric.prometheus, json.dumps(metric.doc)
        if metric.kind == HISTOGRAM:
            self.kind = "histogram"
            family, names = name, [f"{name}_sum", *[f"{name}_bucket"] * (len(metric.buckets) + 1)]
            bounds = [*map(_bound, metric.buckets), "+Inf"]
            tails = ["", *((", " if metric.labels else "") + f'"le": "{bound}"' for bound in bounds)]
        else:
            self.kind = "counter" if metric.kind == COUNTER else f"gauge_{_mode(metric)}"
            family = name.removesuffix("_total") if metric.kind == COUNTER else name
            names, tails = [name], [""]
        self._heads = [f'["{family}", "{sample}", '.encode() for sample in names]
        self._tails = [f"{tail}}}, {doc}]".encode() for tail in tails]
        self._frames: dict[int, tuple[list[bytes], list[int]]] = {}

    def place(self, file: WorkerFile, labels: Iterable[str]) -> tuple[int, ...]:
        """Return the positions of a label set's values: of one, or of a histogram's sum and buckets."""
        text = json.dumps(dict(zip(self.metric.labels, labels, strict=True)))[:-1].encode()
        first = self._heads[0] + text + self._tails[0]
        if len(self._heads) == 1 or file.has(first):
            keys = [head + text + tail for head, tail in zip(self._heads, self._tails, strict=True)]
            return tuple(map(file.place, keys))
        frame = self._frames.get(len(text))
        if frame is None:
            frame = entries_around(self._heads, self._tails, len(text))
            if len(self._frames) < _MAX_FRAMES:
                self._frames[len(text)] = frame
        between, positions = frame
        start = file.extend(text.join(between))
        return tuple([start + position for position in positions])


def _bound(bound: float) -> str:
    return str(floatToGoString(bound))  # type: ignore[no-untyped-call]  # a function without hints


def _mode(metric: Metric) -> str:
    """Return how the gauges of several processes become one."""
    if metric.kind == UP_DOWN:
        return "livesum"
    return "livemax" if metric is BUILD_INFO else "livemostrecent"


class MultiprocessExporter:
    """Keeps the process's files up to date; one of the processes serves the merged series.

    The first process that gets the port serves for all; the others try again every few seconds, and silently.

    Attributes:
        failing: the folder cannot be written.
    """

    def __init__(self, store: Store, host: str, port: int) -> None:
        self._store = store
        self._folder = Path(os.environ.get(VARIABLE) or ".").absolute()
        # By identity: the hash of a catalogue row takes microseconds.
        self._rows = {id(metric): _Rows(metric, store.points(metric)) for metric in store.metrics}
        self._files = {rows.kind: WorkerFile(self._folder, rows.kind) for rows in self._rows.values()}
        self._texts = LabelValues()
        self._server = MetricsServer(host, port, self.expose, quiet=True, tick=self.look)
        self._running = False
        self._forget()

    def _forget(self) -> None:
        self._process = os.getpid()
        self._asleep = False  # a forked child that has not made a call yet
        self._there = False  # whether the folder has been there
        self._look_at = 0.0
        self._missing_since: float | None = None
        self.failing = False
        self._untold: list[tuple[str, OSError | None]] = []

    @property
    def port(self) -> int | None:
        """Return the port this process serves on, or ``None``: another one does, or none."""
        return self._server.port

    # --- life --------------------------------------------------------------------------------

    def start(self) -> None:
        """Write from now on, and listen. Without a usable folder: one warning, and it is tried again."""
        if self._running:
            return
        self._running = True
        atexit.register(self._exit)
        self._there = self._folder.is_dir()
        self.look()
        add_listener(self._store, self.measured)
        self._store.touch_listeners.append(self.touched)
        self._server.start()

    def stop(self, timeout: float = 1.0) -> None:
        """Write no more and release the port. Sums stay, as those of a process that is gone do."""
        if not self._running:
            return
        atexit.unregister(self._exit)
        self._detach()
        self._server.stop(timeout)
        self._exit()
        self._running = False

    def _detach(self) -> None:
        remove_listener(self._store, self.measured)
        if self.touched in self._store.touch_listeners:
            self._store.touch_listeners.remove(self.touched)

    @guarded("export")
    def _exit(self) -> None:
        """Write what is left, and leave the files to others."""
        self._leave_to_parent()
        if self._running and not self._asleep:
            self._bring_in()
        if not self._running or not _inside.acquire(
            timeout=1.0
        ):  # a handler that stops us may stand in the way
            return
        try:
            if not self._asleep:
                self._write(())
            for file in self._files.values():
                file.release(keep=True)
            if self.failing:
                _LOG.warning(_TEXTS["lost"], VARIABLE, self._folder)
        finally:
            _inside.release()

    def after_fork_in_child(self) -> None:
        """Leave the files to the parent; write, and listen, from this process's first call on."""
        if self._running:
            self._leave_to_parent()
            self._server.after_fork_in_child(self._store)

    def _leave_to_parent(self) -> None:
        if self._process == os.getpid():
            return
        for file in self._files.values():
            file.after_fork_in_child()
        there = self._there
        self._forget()
        self._there, self._asleep = there, True

    # --- writing -----------------------------------------------------------------------------

    @guarded("export")
    def measured(self, measurements: Sequence[Any]) -> None:
        """Store listener: bring the files up to date."""
        self._leave_to_parent()  # something may be counted before we are told of a fork
        if self._asleep:
            if all(metric in OF_THE_PROCESS for metric, _, _ in measurements):
                return
            self._asleep = False
        with _inside:
            self._write(measurements)
        if self._untold:
            self._tell()

    def touched(self, metric: Metric, label_sets: Iterable[tuple[str, ...]]) -> None:
        """Store listener: label sets that begin at 0."""
        self.measured([(metric, labels, _ALL) for labels in label_sets])

    @guarded("export")
    def look(self) -> None:
        """Look whether all is there and written: from time to time, where nothing is measured."""
        self._leave_to_parent()
        if not self._running or self._asleep:
            return
        self._bring_in()
        with _inside:
            self._look_at = 0.0
            self._write(
                [(metric, labels, _ALL) for metric in _UNTOLD for labels in list(self._store.points(metric))]
            )
        if self._untold:
            self._tell()

    def _bring_in(self) -> None:
        for bring_in in self._store.before_snapshot:
            bring_in()

    def _write(self, measurements: Sequence[Any]) -> None:
        now = time.monotonic()
        if now >= self._look_at:
            self._look_at = now + _LOOK_EVERY
            self._open(now)
        rows, files = self._rows, self._files
        for metric, labels, value in measurements:
            known = rows.get(id(metric))
            if known is not None and files[known.kind].is_open:
                self._set(known, labels, value)
        try:
            written = {file.write() for file in files.values()}
        except OSError as error:
            self._fails(error)
        else:
            if False in written:
                self._open(now)

    def _open(self, now: float) -> None:
        """Open what is not open, and write all of it: at the start, and where a file has vanished."""
        files = self._files.items()
        gone = [kind for kind, file in files if file.vanished()]
        if gone and self._folder.is_dir():  # without a folder the next lines fail, and tell it once
            self._untold.append(("vanished", None))
        try:
            closed = {kind for kind, file in files if not file.is_open}
            if closed:
                self._make_folder(now)
                remove_dead_gauges(self._folder)
            for kind in closed:
                self._files[kind].open()
                for rows in self._rows.values():
                    if rows.kind == kind:
                        rows.cells.clear()
                        for labels in list(rows.points):
                            self._set(rows, labels, _ALL)
            for _, file in files:
                file.write()
        except OSError as error:
            self._fails(error)
            return
        self._there = True
        self._missing_since = None
        if self.failing:
            self.failing = False
            self._untold.append(("written", None))

    def _make_folder(self, now: float) -> None:
        """Make a folder again that was there and has been missing for a while."""
        if not self._there or self._folder.is_dir():
            return
        if self._missing_since is None:
            self._missing_since = now
        elif now - self._missing_since >= _MISSING:
            self._folder.mkdir()

    def _fails(self, error: OSError) -> None:
        if not self.failing:
            self.failing = True
            self._untold.append(("failing", error))

    def _set(self, rows: _Rows, labels: tuple[str, ...], value: Any) -> None:
        """Let the file of a metric hold what the store holds."""
        metric, file = rows.metric, self._files[rows.kind]
        point = rows.points.get(labels)
        if point is None and type(value) is float and isnan(value):  # it has ended: NaN, which no one serves
            if labels in rows.cells:
                file.set(rows.cells[labels][0], value, time.time())
            return
        if point is None:  # over the limit of label sets
            labels = other(metric, labels)
            point = rows.points.get(labels)
            if point is None:
                return
        cells = rows.cells.get(labels)
        if cells is None:
            cells = rows.cells[labels] = rows.place(file, map(self._texts.__getitem__, labels))
            value = _ALL
        if metric.kind == HISTOGRAM:
            file.set(cells[0], point.sum)
            if value is _ALL or type(value) is tuple:
                for cell, number in zip(cells[1:], point.counts, strict=True):
                    if number:
                        file.set(cell, number)
            else:
                bucket = bisect_left(metric.buckets, value)
                file.set(cells[bucket + 1], point.counts[bucket])
        elif metric.kind == GAUGE:
            file.set(cells[0], point, time.time())
        else:
            file.set(cells[0], point)

    def _tell(self) -> None:
        """Log and count what has happened: outside the lock, since counting comes back here."""
        while self._untold:
            what, error = self._untold.pop(0)
            values = (VARIABLE, self._folder, error.strerror) if error else (VARIABLE, self._folder)
            _LOG.warning(_TEXTS[what], *values)
            if what != "written" and guard.on_fault is not None:
                guard.on_fault("export")

    # --- reading -----------------------------------------------------------------------------

    def expose(self, accept: str, names: list[str]) -> tuple[bytes, str] | None:
        """Return body and content type of an answer: the series of all processes, the host's own included.

        ``None`` while there is no folder.
        """
        self.look()
        remove_dead_gauges(self._folder)
        if not self._folder.is_dir():  # the scrape fails: sums must not seem to fall
            return None
        encoder, content_type = choose_encoder(accept)
        return encoder(WorkerFiles(self._folder, names)), content_type
