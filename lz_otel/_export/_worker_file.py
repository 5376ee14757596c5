"""One file of a worker process in ``PROMETHEUS_MULTIPROC_DIR``, in the format of prometheus_client.

The whole file is kept in memory and written by ``pwrite``: with a map of the file, as prometheus_client has
it, a full disk or a file that was cut short ends the process by SIGBUS (C).

The format (prometheus_client, ``mmap_dict.py``, D): 4 bytes that say how much is used, 4 of padding, then
entries of a 4-byte length, a JSON key padded to 8 bytes, and two doubles: value and time. The padding of ours
says that the file is ours.

A file belongs to the process that holds its lock (``flock``), never to a process number: containers that
share a folder have equal ones. Sums are taken over from a process that is gone by the next that starts, so
that no total falls and files do not pile up; gauges of a process that is gone are removed.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import secrets
import stat
import struct
from itertools import count
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

_LENGTH = struct.Struct("i")
_DOUBLES = struct.Struct("dd")
_MARK = b"lz1\0"
_HEAD = 8
_ZEROS = bytes(16)
_GAP = 16_384  # bytes: writing so much more costs less than one more write (C)
_NO_LINKS = frozenset({errno.EPERM, errno.ENOTSUP, errno.EMLINK, errno.ENOSYS})
_NOT_OURS = frozenset({errno.EACCES, errno.ELOOP, errno.EISDIR, errno.ENXIO})


def entries(data: bytes) -> Iterator[tuple[bytes, float, float, int]]:
    """Yield key, value, time and the value's position of each whole entry; a damaged rest is left out."""
    if len(data) < _HEAD:
        return
    length_at, doubles_at = _LENGTH.unpack_from, _DOUBLES.unpack_from
    used = min(length_at(data)[0], len(data))
    at = _HEAD
    while at + 4 <= used:
        (length,) = length_at(data, at)
        start = at + 4
        at = start + length + 8 - (length + 4) % 8
        if length <= 0 or at + 16 > used:
            return
        value, when = doubles_at(data, at)
        yield data[start : start + length], value, when, at
        at += 16


def entries_around(heads: list[bytes], tails: list[bytes], length: int) -> tuple[list[bytes], list[int]]:
    """Return what lies before, between and behind the same text in entries at 0 whose keys have it.

    Keys of a histogram differ in their ends only: its entries are the text, joining what is between.

    Args:
        heads, tails: of the keys, before and behind the text.
        length: of the text in bytes.

    Returns:
        One piece more than there are keys, and the position of each key's value.
    """
    pieces, positions, at = [b""], [], 0
    for head, tail in zip(heads, tails, strict=True):
        size = len(head) + length + len(tail)
        padding = b" " * (8 - (size + 4) % 8)
        pieces[-1] += _LENGTH.pack(size) + head
        pieces.append(tail + padding + _ZEROS)
        at += 4 + size + len(padding)
        positions.append(at)
        at += len(_ZEROS)
    return pieces, positions


class WorkerFile:
    """A file that this process alone writes.

    Args:
        folder: where it lies.
        kind: ``counter``, ``histogram``, or a gauge with its mode (``gauge_livesum``).
    """

    def __init__(self, folder: Path, kind: str) -> None:
        self._folder = folder
        self._kind = kind
        self._path = folder
        self._identity = (0, 0)
        self._fd: int | None = None
        self._base: dict[bytes, float] = {}  # what processes that are gone have left behind
        self._reset(b"")

    @property
    def is_open(self) -> bool:
        """Return whether there is a file to write to."""
        return self._fd is not None

    def _reset(self, data: bytes) -> None:
        """Begin with what a file holds: all positions are new."""
        self._positions: dict[bytes, int] = {}
        self._added: dict[int, float] = {}  # position -> what was left behind
        self._changed: set[int] = set()
        used = 0
        for key, value, _, at in entries(data):
            self._positions[key] = at
            self._base[key] = self._base.get(key, 0.0) + value
            used = at + 16
        self._image = bytearray(data[:used]) if used else bytearray(_HEAD)
        self._written = used  # bytes that the file is known to hold
        for key, value in self._base.items():
            at = self.place(key)
            self._added[at] = value
            self.set(at, 0.0)

    def open(self) -> None:
        """Take over the first file whose process is gone, or make one; positions from before are void.

        Raises:
            OSError: the folder cannot be written.
        """
        gauges = self._kind.startswith("gauge")
        if gauges:
            names = iter((f"{os.getpid()}", f"{os.getpid()}-{secrets.token_hex(4)}"))
        else:
            names = (f"lz{number}" for number in count())
        for name in names:
            path = self._folder / f"{self._kind}_{name}.db"
            fd = None if gauges else _open_unlocked(path)
            if fd is not None:
                self._reset(os.pread(fd, os.fstat(fd).st_size, 0))
            else:
                self._reset(b"")
                fd = self._make(path)
            if fd is not None:
                self._fd, self._path, self._identity = fd, path, _identity(os.fstat(fd))
                return
        raise FileExistsError(errno.EEXIST, "taken", str(self._folder))

    def place(self, key: bytes) -> int:
        """Return the position of a key's value; a new one begins at 0."""
        at = self._positions.get(key)
        if at is None:
            between, positions = entries_around([key], [b""], 0)
            at = self._positions[key] = self.extend(b"".join(between)) + positions[0]
        return at

    def has(self, key: bytes) -> bool:
        """Return whether `place` has made this key, or a process that is gone."""
        return key in self._positions

    def extend(self, entries: bytes) -> int:
        """Add whole entries (`entries_around`); returns where they begin."""
        start = len(self._image)
        self._image += entries
        return start

    def set(self, at: int, value: float, when: float = 0.0) -> None:
        """Let a position hold this process's value on top of what was left behind."""
        if self._added:
            value += self._added.get(at, 0.0)
        _DOUBLES.pack_into(self._image, at, value, when)
        self._changed.add(at)

    def write(self) -> bool:
        """Bring the file up to date. Returns whether it could: one that the host shares is closed instead.

        Raises:
            OSError: it cannot be; nothing is lost, and the next time tries again.
        """
        fd, image, used = self._fd, self._image, len(self._image)
        if fd is None or (not self._changed and used == self._written):
            return True
        if self._changed:
            start = end = 0
            for at in sorted(at for at in self._changed if at < self._written):
                if at - end > _GAP or not end:
                    _write(fd, image[start:end], start)
                    start = at
                end = at + 16
            _write(fd, image[start:end], start)
        if used > self._written:
            if self._written and self._kind.startswith("gauge") and self._shared(fd):
                self.release(keep=False)
                return False
            image[:_HEAD] = _LENGTH.pack(used) + _MARK
            _write(fd, image[self._written : used], self._written)
            _write(fd, image[:_HEAD], 0)  # at the end: nobody reads half an entry
            self._written = used
        self._changed.clear()
        return True

    def _shared(self, fd: int) -> bool:
        """Return whether prometheus_client writes to the file too, for gauges of the host."""
        head = os.pread(fd, 4, 0)
        return len(head) == 4 and _LENGTH.unpack(head)[0] != self._written

    def _make(self, path: Path) -> int | None:
        """Make a file that is whole and locked before it has a name that others look for."""
        if path.exists():
            return None
        draft = self._folder / f"lz-{secrets.token_hex(8)}.tmp"
        fd = os.open(draft, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o666)
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
            self._image[:_HEAD] = _LENGTH.pack(len(self._image)) + _MARK
            _write(fd, self._image, 0)
            self._written = len(self._image)
            try:
                os.link(draft, path)
            except FileExistsError:
                os.close(fd)
                return None
            except OSError as error:
                if error.errno not in _NO_LINKS:
                    raise
                draft.rename(path)
        except BaseException:
            os.close(fd)
            raise
        finally:
            with contextlib.suppress(OSError):
                draft.unlink()
        return fd

    def vanished(self) -> bool:
        """Return whether the file was removed, replaced or cut short; the first two close it."""
        if self._fd is None:
            return False
        try:
            found = self._path.stat()
        except OSError:
            found = None
        if found is None or _identity(found) != self._identity:
            self.release(keep=False)
            return True
        if found.st_size >= self._written and os.pread(self._fd, 4, 4) == _MARK:
            return False
        self._written = 0
        return True

    def release(self, *, keep: bool) -> None:
        """Close the file, so that another process may take it over.

        Args:
            keep: whether what was counted stays in it. If not, this process counts it in another file.
        """
        fd, self._fd = self._fd, None
        if fd is None:
            return
        if self._kind.startswith("gauge"):
            with contextlib.suppress(OSError):
                for at in self._positions.values():
                    _write(fd, _ZEROS, at)
                _write(fd, bytes(4), 4)  # where the host shares it, it is the host's now
                if keep:
                    self._path.unlink()
        os.close(fd)
        if keep:
            self._base.clear()

    def after_fork_in_child(self) -> None:
        """Leave the file to the parent."""
        fd, self._fd = self._fd, None
        self._base.clear()
        if fd is not None:
            with contextlib.suppress(OSError):
                os.close(fd)  # not unlocked: the lock is the parent's as well


def remove_dead_gauges(folder: Path) -> None:
    """Remove the gauges of processes that are gone. Files that are not ours stay."""
    for path in folder.glob("gauge_live*_*.db"):
        fd = _open_unlocked(path)
        if fd is None:
            continue
        try:
            if os.pread(fd, 4, 4) == _MARK:
                path.unlink(missing_ok=True)
        finally:
            os.close(fd)


def _open_unlocked(path: Path) -> int | None:
    """Open and lock a file of which no process holds the lock; ``None`` where one does, or there is none."""
    try:
        fd = os.open(path, os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK)
    except OSError as error:
        if isinstance(error, FileNotFoundError) or error.errno in _NOT_OURS:
            return None
        raise
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        found = os.fstat(fd)
        if stat.S_ISREG(found.st_mode) and _identity(path.stat()) == _identity(found):
            return fd
    except (FileNotFoundError, BlockingIOError):
        pass
    except BaseException:
        os.close(fd)
        raise
    os.close(fd)
    return None


def _identity(found: os.stat_result) -> tuple[int, int]:
    return found.st_dev, found.st_ino


def _write(fd: int, data: bytes | bytearray, at: int) -> None:
    """Write all of it; a file system that has no room says so at the second piece at the latest."""
    while data:
        done = os.pwrite(fd, data, at)
        data, at = data[done:], at + done
