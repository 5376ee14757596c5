"""All files of ``PROMETHEUS_MULTIPROC_DIR`` as one set of series: those of our workers and the host's own.

Sums of equal keys are added up before any key is read: `MultiProcessCollector`, which makes the families,
then sees each series once, not once for each process (C).
"""

from __future__ import annotations

import json
from math import isnan
from typing import TYPE_CHECKING, Any

from msgspec import DecodeError
from msgspec.json import decode
from prometheus_client import CollectorRegistry
from prometheus_client.metrics_core import Metric
from prometheus_client.multiprocess import MultiProcessCollector

from lz_otel._export._worker_file import entries

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from pathlib import Path


class WorkerFiles(CollectorRegistry):
    """The merged series of a folder, or those of some names.

    Args:
        folder: where the files lie.
        names: names of samples; none: all.
    """

    def __init__(self, folder: Path, names: Iterable[str] = ()) -> None:
        super().__init__()
        self._folder = folder
        self._names = frozenset(names)

    def collect(self) -> Iterator[Any]:
        """Read all files and yield the families."""
        found = _families(self._folder)
        # The rules by which several processes become one are prometheus_client's, modes of gauges included
        for family in MultiProcessCollector._accumulate_metrics(found, True):  # type: ignore[no-untyped-call]
            if self._names:
                family.samples = [sample for sample in family.samples if sample.name in self._names]
            if family.samples:
                yield family


def _families(folder: Path) -> dict[str, Metric]:
    families: dict[str, Metric] = {}
    sums: dict[str, dict[bytes, float]] = {}
    for path in folder.glob("*.db"):
        kind, _, rest = path.stem.partition("_")
        try:
            data = path.read_bytes()
        except OSError:  # gauges of a process that has just ended
            continue
        if kind == "gauge":
            mode, _, process = rest.partition("_")
            for key, value, when, _ in entries(data):
                if isnan(value):  # a gauge that has ended
                    continue
                family, name, labels = _read(families, kind, key)
                family._multiprocess_mode = mode  # type: ignore[attr-defined]  # where it looks for it
                family.add_sample(name, (*labels, ("pid", process)), value, when)  # type: ignore[arg-type]
            continue
        totals = sums.setdefault(kind, {})
        for key, value, _, _ in entries(data):
            totals[key] = totals.get(key, 0.0) + value
    for kind, totals in sums.items():
        for key, value in totals.items():
            family, name, labels = _read(families, kind, key)
            family.add_sample(name, labels, value)  # type: ignore[arg-type]  # pairs, as prometheus_client does
    return families


def _read(families: dict[str, Metric], kind: str, key: bytes) -> tuple[Metric, str, tuple[Any, ...]]:
    """Return family, sample name and label pairs of a key."""
    try:
        family_name, name, labels, doc = decode(key)
    except DecodeError:  # half a surrogate pair, in a label of the host
        family_name, name, labels, doc = json.loads(key)
    family = families.get(family_name)
    if family is None:
        family = families[family_name] = Metric(family_name, doc, kind)
    return family, name, tuple(sorted(labels.items()))
