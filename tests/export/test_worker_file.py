"""The file of a worker process, read by prometheus_client's own reader."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from hypothesis import given
from hypothesis import strategies as st
from prometheus_client.mmap_dict import MmapedDict

from lz_otel._export._worker_file import WorkerFile, entries, entries_around, remove_dead_gauges

if TYPE_CHECKING:
    from pathlib import Path

    import pytest


def opened(folder: Path, kind: str = "counter") -> WorkerFile:
    file = WorkerFile(folder, kind)
    file.open()
    return file


def read(path: Path) -> dict[str, float]:
    """What prometheus_client reads from a file."""
    values = MmapedDict.read_all_values_from_file(path)  # type: ignore[no-untyped-call]
    return {key: value for key, value, _, _ in values}


@given(st.dictionaries(st.text(min_size=1, max_size=40), st.floats(allow_nan=False), max_size=40))
def test_prometheus_client_reads_what_is_written(
    tmp_path_factory: pytest.TempPathFactory, values: dict[str, float]
) -> None:
    """Keys of any length and any value, in two writes of which the second changes and adds."""
    folder = tmp_path_factory.mktemp("files")
    encodable = {key: value for key, value in values.items() if key.isprintable()}
    file = opened(folder)
    for key in list(encodable)[::2]:
        file.set(file.place(key.encode()), 1.0)
    file.write()
    for key, value in encodable.items():
        file.set(file.place(key.encode()), value)
    file.write()
    path = folder / "counter_lz0.db"
    assert encodable == read(path)
    assert encodable == {key.decode(): value for key, value, _, _ in entries(path.read_bytes())}
    file.release(keep=True)


KEYS = st.lists(st.binary(max_size=20), min_size=3, max_size=3)


@given(KEYS, KEYS, st.binary(min_size=1, max_size=20))
def test_several_entries_at_once(
    tmp_path_factory: pytest.TempPathFactory, heads: list[bytes], tails: list[bytes], text: bytes
) -> None:
    """Entries made around a text are those that `place` makes one by one."""
    one, other = (WorkerFile(tmp_path_factory.mktemp("files"), "histogram") for _ in "12")
    keys = [
        b"%d" % number + head + text + tail for number, head, tail in zip(range(3), heads, tails, strict=True)
    ]
    for file in (one, other):
        file.place(b"first")
    between, positions = entries_around([b"%d" % n + head for n, head in enumerate(heads)], tails, len(text))
    start = other.extend(text.join(between))
    assert [*map(one.place, keys)] == [start + at for at in positions]
    assert one._image[8:] == other._image[8:]


@given(st.binary(max_size=300))
def test_a_damaged_file_is_read_as_far_as_it_goes(data: bytes) -> None:
    """No bytes raise, and no entry reaches beyond the end."""
    assert all(at + 16 <= len(data) for _, _, _, at in entries(data))


def test_a_process_takes_over_from_one_that_is_gone(tmp_path: Path) -> None:
    """What it left is under what the next one counts; a file whose owner lives is left alone."""
    first, second = opened(tmp_path), opened(tmp_path)
    for file, value in ((first, 5.0), (second, 7.0)):
        file.set(file.place(b"key"), value)
        file.write()
    first.release(keep=True)
    third = opened(tmp_path)
    third.set(third.place(b"key"), 2.0)
    third.write()
    found = {path.name: read(path) for path in tmp_path.iterdir()}
    assert {"counter_lz0.db": {"key": 7.0}, "counter_lz1.db": {"key": 7.0}} == found


def test_nothing_is_followed_or_waited_for(tmp_path: Path) -> None:
    """A link, a pipe or a folder of the name that a file would have is passed over."""
    other = tmp_path / "other"
    other.write_bytes(b"theirs")
    (tmp_path / "counter_lz0.db").symlink_to(other)
    os.mkfifo(tmp_path / "counter_lz1.db")
    (tmp_path / "counter_lz2.db").mkdir()
    opened(tmp_path)
    assert b"theirs" == other.read_bytes()
    assert (tmp_path / "counter_lz3.db").is_file()


def test_gauges_go_only_with_their_process(tmp_path: Path) -> None:
    """Those of a living process, and files of prometheus_client, stay."""
    theirs = tmp_path / "gauge_livesum_1.db"
    theirs.write_bytes(bytes(64))
    dead, living = opened(tmp_path, "gauge_livesum"), opened(tmp_path, "gauge_livesum")
    dead.after_fork_in_child()  # closes it, as the end of a process does
    remove_dead_gauges(tmp_path)
    assert living.is_open
    names = sorted(path.name for path in tmp_path.iterdir())
    assert 2 == len(names)
    assert theirs.name in names


def test_without_links_a_file_is_renamed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Some file systems have no hard links."""

    def no_link(source: Path, target: Path) -> None:
        raise PermissionError(1, "Operation not permitted")

    monkeypatch.setattr(os, "link", no_link)
    opened(tmp_path)
    assert ["counter_lz0.db"] == [path.name for path in tmp_path.iterdir()]
