"""The merged series of a folder, beside prometheus_client's own collector."""

from __future__ import annotations

from typing import TYPE_CHECKING

from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.mmap_dict import MmapedDict, mmap_key
from prometheus_client.multiprocess import MultiProcessCollector

from lz_otel._export._worker_merge import WorkerFiles

if TYPE_CHECKING:
    from pathlib import Path


def fill(folder: Path) -> None:
    """Files of two processes, with each kind of metric and each mode of a gauge."""
    for process in (1, 2):
        for kind in ("counter", "histogram", "gauge_livesum", "gauge_max", "gauge_all", "gauge_mostrecent"):
            file = MmapedDict(str(folder / f"{kind}_{process}.db"))  # type: ignore[no-untyped-call]
            for label in "ab":
                tails = ("_sum", "_bucket") if kind == "histogram" else ("",)
                for tail in tails:
                    labels = {"label": label} | ({"le": "0.5"} if tail == "_bucket" else {})
                    key = mmap_key(kind, kind + tail, list(labels), list(labels.values()), "doc")
                    file.write_value(key, process + 0.5, 10.0 - process)  # type: ignore[no-untyped-call]
            file.close()  # type: ignore[no-untyped-call]


def test_merging_is_prometheus_clients(tmp_path: Path) -> None:
    """The same families, labels and values, whatever the kind and the mode."""
    fill(tmp_path)
    registry = CollectorRegistry()
    MultiProcessCollector(registry, str(tmp_path))  # type: ignore[no-untyped-call]
    theirs = sorted(generate_latest(registry).decode().splitlines())
    assert theirs == sorted(generate_latest(WorkerFiles(tmp_path)).decode().splitlines())
    assert 20 < len(theirs)


def test_names_restrict(tmp_path: Path) -> None:
    """Only samples of the names that were asked for."""
    fill(tmp_path)
    text = generate_latest(WorkerFiles(tmp_path, ["histogram_sum"])).decode()
    assert 2 == len([line for line in text.splitlines() if not line.startswith("#")])


def test_a_damaged_file_does_not_spoil_the_others(tmp_path: Path) -> None:
    """An empty file, as a full disk leaves behind, is as good as none."""
    fill(tmp_path)
    whole = generate_latest(WorkerFiles(tmp_path))
    (tmp_path / "counter_3.db").write_bytes(b"")
    assert whole == generate_latest(WorkerFiles(tmp_path))


def test_half_a_surrogate_pair(tmp_path: Path) -> None:
    """A label of the host that no encoding can show is read as prometheus_client reads it."""
    file = MmapedDict(str(tmp_path / "counter_1.db"))  # type: ignore[no-untyped-call]
    file.write_value(mmap_key("shop", "shop_total", ["name"], ["\ud83d"], "doc"), 1.0, 0.0)  # type: ignore[no-untyped-call]
    file.close()  # type: ignore[no-untyped-call]
    [family] = WorkerFiles(tmp_path).collect()
    assert [{"name": "\ud83d"}] == [sample.labels for sample in family.samples]
