"""Series with a past: accumulate as a process does, sample as a scrape does.

The names and labels come from the catalogue; a label or a value that the catalogue does not know is refused.
"""

from __future__ import annotations

import math
from array import array
from functools import lru_cache
from typing import TYPE_CHECKING, NamedTuple

from lz_otel.catalogue import COUNTER, HISTOGRAM, UP_DOWN, Metric
from lz_otel.errors import CatalogueError
from lz_otel.lab.history._figures import spread_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

Labels = tuple[tuple[str, str], ...]
Row = tuple[Metric, tuple[str, ...], float, float]
"""Metric, label values, how often, and the value: what is added, set or observed."""


class Sampled(NamedTuple):
    """One series: its labels (``__name__`` first, empty ones left out) and its samples.

    Attributes:
        labels: sorted pairs of name and value.
        start: index of the first sample in the list of sample times.
        values: one value per sample time from ``start`` on; ``nan`` marks an absent sample.
    """

    labels: Labels
    start: int
    values: array[float]


def key_of(metric: Metric, labels: Mapping[str, str]) -> tuple[str, ...]:
    """Return the label values of a metric in the catalogue's order; what is not given is empty.

    Raises:
        CatalogueError: a label that the metric does not have, or a value outside its closed list.
    """
    unknown = labels.keys() - set(metric.labels)
    if unknown:
        raise CatalogueError(
            f"{metric.name} has no label {sorted(unknown)[0]!r}, only {', '.join(metric.labels)}"
        )
    for attribute in metric.attributes:
        value = labels.get(attribute.label, "")
        if attribute.values and value and value not in attribute.values:
            raise CatalogueError(f"{metric.name}: {attribute.label}={value!r} is not in its closed list")
    return tuple(labels.get(name, "") for name in metric.labels)


@lru_cache(maxsize=4096)
def _shares(buckets: tuple[float, ...], median: float, spread: float, most: float) -> tuple[float, ...]:
    """Cumulative shares of a log-normal at each bound (the last one, +Inf, is 1)."""
    if spread <= 0:
        return (*(1.0 if b >= median else 0.0 for b in buckets), 1.0)
    width = spread * math.sqrt(2)
    inner = (b for b in buckets if 0 < b < most)
    shares = [0.5 * (1 + math.erf(math.log(b / median) / width)) for b in inner]
    return (*(0.0 for b in buckets if b <= 0), *shares, *(1.0 for b in buckets if b >= most), 1.0)


class _Cell:
    """Accumulated values of one metric and label set: one number, or cumulative buckets and the sum."""

    __slots__ = ("samples", "start", "sum", "total", "values", "whole")

    def __init__(self, size: int, start: int, whole: bool) -> None:
        self.values = [0.0] * size
        self.total = self.sum = 0.0  # sum of a histogram: exact, and as last sampled
        self.start = start
        self.whole = whole
        self.samples = [array("d") for _ in range(size + 1 if size > 1 else 1)]

    def observe(self, metric: Metric, count: float, median: float) -> None:
        """Add observations of a log-normal distribution round a median."""
        spread, most = spread_of(metric, median)
        shares = _shares(metric.buckets, median, spread, most)
        self.values = [a + count * share for a, share in zip(self.values, shares, strict=True)]
        self.total += count * min(median * math.exp(spread * spread / 2), most)

    def sample(self) -> None:
        """Note the values of now."""
        values = [float(math.floor(v)) for v in self.values] if self.whole else self.values
        if len(values) > 1:
            # The sum belongs to the whole samples, else means of few samples are off; it never shrinks, since
            # a counter that does has restarted.
            share = values[-1] / self.values[-1] if self.values[-1] else 0.0
            self.sum = max(self.sum, self.total * share)
            self.samples[-1].append(self.sum)
        for store, value in zip(self.samples, values, strict=False):
            store.append(value)


class Process:
    """All series of one process.

    Args:
        target: labels that the scrape adds, such as ``job`` and ``instance``.
    """

    def __init__(self, target: Mapping[str, str]) -> None:
        self.target = dict(target)
        self._cells: dict[tuple[Metric, tuple[str, ...]], _Cell] = {}
        self._now = 0

    def add(self, metric: Metric, amount: float, /, **labels: str) -> None:
        """Count; amounts may be fractions (they are expectations), counts are sampled rounded down."""
        self._cell(metric, key_of(metric, labels)).values[0] += amount

    def set(self, metric: Metric, value: float, /, **labels: str) -> None:
        """Set a gauge."""
        self._cell(metric, key_of(metric, labels)).values[0] = value

    def record(self, rows: Iterable[Row], times: float = 1.0) -> None:
        """Take rows so many times: add to counters, set gauges, observe for histograms.

        Observations are spread round the value, log-normally. What goes up and down is a level that rises
        with the calls.
        """
        for metric, key, share, value in rows:
            cell = self._cell(metric, key)
            if metric.kind == COUNTER:
                cell.values[0] += times * share * value
            elif metric.kind == HISTOGRAM:
                cell.observe(metric, times * share, value)
            elif metric.kind == UP_DOWN:
                cell.values[0] = round(times * share * value)
            else:
                cell.values[0] = value

    def touch(self, metric: Metric, keys: Iterable[tuple[str, ...]]) -> None:
        """Start counters at 0."""
        for key in keys:
            self._cell(metric, key)

    def restart(self) -> None:
        """Start counters anew, as after the start of a new process."""
        for (metric, _), cell in self._cells.items():
            if metric.kind in (COUNTER, HISTOGRAM):
                cell.values = [0.0] * len(cell.values)
                cell.total = cell.sum = 0.0

    def sample(self, up: bool = True) -> None:
        """Take a sample of everything; ``up=False``: the scrape failed, there is none."""
        for cell in self._cells.values():
            if up:
                cell.sample()
            else:
                for store in cell.samples:
                    store.append(math.nan)
        self._now += 1

    def series(self) -> Iterator[Sampled]:
        """Yield all series with their samples."""
        for (metric, key), cell in self._cells.items():
            base = metric.prometheus
            own = {**self.target, **dict(zip(metric.labels, key, strict=True))}
            if metric.kind != HISTOGRAM:
                yield Sampled(_labels(base, own), cell.start, cell.samples[0])
                continue
            for bound, store in zip((*metric.buckets, math.inf), cell.samples, strict=False):
                yield Sampled(_labels(f"{base}_bucket", {**own, "le": _bound(bound)}), cell.start, store)
            yield Sampled(_labels(f"{base}_count", own), cell.start, cell.samples[-2])
            yield Sampled(_labels(f"{base}_sum", own), cell.start, cell.samples[-1])

    def _cell(self, metric: Metric, key: tuple[str, ...]) -> _Cell:
        cell = self._cells.get((metric, key))
        if cell is None:
            key_of(metric, dict(zip(metric.labels, key, strict=True)))
            size = len(metric.buckets) + 1 if metric.kind == HISTOGRAM else 1
            whole = metric.kind == HISTOGRAM or (metric.kind == COUNTER and metric.unit != "{USD}")
            cell = self._cells[metric, key] = _Cell(size, self._now, whole)
        return cell


def _labels(name: str, labels: Mapping[str, str]) -> Labels:
    return tuple(sorted({"__name__": name, **{k: v for k, v in labels.items() if v}}.items()))


def _bound(value: float) -> str:
    return "+Inf" if math.isinf(value) else repr(float(value))
