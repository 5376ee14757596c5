"""The audit log of pruned originals (article 001, A: ``log_type: layer_zero_audit``).

It holds the original messages of requests that asked for pruning, since what is pruned never appears
in an application's log. It goes to a file of its own, readable by its owner only, and nowhere else.
It is off by default. Several processes may write one file.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import json
import logging
import os
import queue
import stat
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from lz_otel._export._threads import start_thread
from lz_otel._ground.guard import guard, guarded
from lz_otel.errors import ConfigurationError

if TYPE_CHECKING:
    import threading
    from collections.abc import Iterator

    from lz_otel.model import EndedCall

_LOG = logging.getLogger("lz_otel")
_QUEUE = 1000
_MAX_ENTRY = 4 * 1024 * 1024
_TRIES = 1000  # to get hold of the file that is there now, while others rotate it
# Without O_NONBLOCK opening a pipe waits for its reader; the file may have been replaced by one.
_FLAGS = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC


def _check(found: os.stat_result) -> None:
    """Refuse what somebody else may read, or may have put there."""
    if not stat.S_ISREG(found.st_mode):
        raise OSError(errno.EINVAL, "it is a link, a pipe, a device or a folder")
    if found.st_nlink > 1:
        raise OSError(errno.EINVAL, "it has another name, a hard link")
    if found.st_uid != os.geteuid():
        raise OSError(errno.EPERM, "it belongs to another user")


def _open(path: str) -> int:
    """Open or make the file, which only its owner can read then; follow no link.

    Raises:
        OSError: it is no plain file of this user, or cannot be written.
    """
    with contextlib.suppress(FileNotFoundError):
        _check(os.lstat(path))  # opening a device may do something
    fd = os.open(path, _FLAGS, 0o600)
    try:
        found = os.fstat(fd)
        _check(found)
        if stat.S_IMODE(found.st_mode) != 0o600:  # it was there before
            os.fchmod(fd, 0o600)
    except BaseException:
        os.close(fd)
        raise
    return fd


@contextlib.contextmanager
def _locked(fd: int) -> Iterator[None]:
    """Hold the lock of a file, where its file system has locks."""
    with contextlib.suppress(OSError):
        fcntl.flock(fd, fcntl.LOCK_EX)
    try:
        yield
    finally:
        with contextlib.suppress(OSError):
            fcntl.flock(fd, fcntl.LOCK_UN)  # a child forked meanwhile may have the descriptor too


class _RotatedFile:
    """A file of lines, rotated at its size. Who holds the lock of the file at ``path`` writes and rotates."""

    def __init__(self, path: str, max_bytes: int, backups: int) -> None:
        self._path, self._max_bytes, self._backups = path, max_bytes, backups
        self._fd: int | None = _open(path)
        self._pid = os.getpid()

    def append(self, line: bytes) -> None:
        """Write a line, whole or not at all.

        Raises:
            OSError: it cannot be written.
        """
        for _ in range(_TRIES):
            fd = self._mine()
            with _locked(fd):
                found = os.fstat(fd)
                if self._is_there(found):
                    if not found.st_size or found.st_size + len(line) <= self._max_bytes:
                        _write(fd, line, found.st_size)
                        return
                    self._rotate()
            self.close()
        raise OSError(errno.EBUSY, "it is replaced all the time")

    def _mine(self) -> int:
        """Return a descriptor of this process: a lock on one that was there before a fork is shared."""
        if self._fd is not None and self._pid != os.getpid():
            self._pid = os.getpid()
            with contextlib.suppress(PermissionError):  # rights were given up since: go on with what is open
                fd = _open(self._path)
                self.close()
                self._fd = fd
        if self._fd is None:
            self._fd = _open(self._path)
        return self._fd

    def _is_there(self, found: os.stat_result) -> bool:
        try:
            return os.path.samestat(found, os.lstat(self._path))
        except FileNotFoundError:
            return False

    def _rotate(self) -> None:
        for number in range(self._backups - 1, 0, -1):
            with contextlib.suppress(FileNotFoundError):
                Path(f"{self._path}.{number}").replace(f"{self._path}.{number + 1}")
        Path(self._path).replace(f"{self._path}.1")

    def close(self) -> None:
        """Close the file; the next line opens it again."""
        fd, self._fd = self._fd, None
        if fd is not None:
            os.close(fd)


def _write(fd: int, line: bytes, size: int) -> None:
    """Write all of a line; where that fails, cut off what was written of it."""
    rest = memoryview(line)
    try:
        while rest:
            rest = rest[os.write(fd, rest) :]
    except OSError:
        with contextlib.suppress(OSError):
            os.ftruncate(fd, size)
        raise


class AuditLog:
    """The audit log: filled by the calls, written by a thread of its own, bounded in between.

    Raises:
        ConfigurationError: the file cannot be written, or is no plain file of this user.
    """

    def __init__(self, path: str, max_bytes: int, backups: int) -> None:
        self._path = path
        try:
            self._file = _RotatedFile(path, max_bytes, backups)
        except (OSError, ValueError) as error:
            allowed = f"a plain file of this user, that can be written ({_why(error)})"
            raise ConfigurationError("LZ_OTEL_AUDIT_LOG", path, allowed) from None
        self._reset()

    def _reset(self) -> None:
        self._queue: queue.Queue[dict[str, Any] | None] = queue.Queue(_QUEUE)
        self._thread: threading.Thread | None = None
        self._pid = os.getpid()
        self._told: set[str] = set()
        self._failed = 0  # entries since the file could be written

    def write(self, ended: EndedCall) -> None:
        """Keep the original of a call that asked for pruning."""
        if not any(r.verdict is not None and r.verdict.mechanism == "pruning" for r in ended.results):
            return
        if self._pid != os.getpid():
            self._reset()
        body = ended.request.body
        if body is None or len(body) > _MAX_ENTRY:
            self._lose("requests that were streamed, or have more than 4 MiB, are left out")
            return
        entry = {
            "log_type": "layer_zero_audit",
            "time": datetime.now(UTC).isoformat(timespec="milliseconds"),
            "model": ended.common[2],
            "route": ended.common[3],
            "group": ended.common[4],
            "response_id": ended.facts.response_id,
            "trace_id": ended.trace_id,
            "body": body,
        }
        try:
            self._queue.put_nowait(entry)
        except queue.Full:
            self._lose("its disk is slower than the calls; more than 1,000 entries waited")
            return
        if self._thread is None or not self._thread.is_alive():
            self._thread = start_thread("lz-otel-audit", self._run)

    def _run(self) -> None:
        while (entry := self._queue.get()) is not None:
            with guarded("audit"):
                self._write(entry)
            self._queue.task_done()

    def _write(self, entry: dict[str, Any]) -> None:
        try:
            body = msgspec.json.decode(entry.pop("body"))
            if isinstance(body, dict):
                entry |= {k: body[k] for k in ("system", "messages", "tools") if k in body}
            self._file.append(json.dumps(entry | {"event": "pruned"}).encode() + b"\n")
        except OSError as error:
            if not self._failed:
                guard.count("audit")
                _LOG.warning(
                    "lz_otel: the audit log %s cannot be written (%s); entries are lost. Make room, or let "
                    "this user write there",
                    self._path,
                    _why(error),
                )
            self._failed += 1
            guard.lost("audit")
        except Exception as error:  # noqa: BLE001 - the thread must live on
            guard.fault("audit", error)
            guard.lost("audit")
        else:
            if self._failed:
                text = "lz_otel: the audit log %s can be written again; %d entries were lost"
                _LOG.warning(text, self._path, self._failed)
                self._failed = 0

    def _lose(self, why: str, number: int = 1) -> None:
        guard.lost("audit", number)
        if why not in self._told:
            self._told.add(why)
            _LOG.warning("lz_otel: the audit log %s has lost entries: %s", self._path, why)

    def close(self, timeout: float = 3.0) -> None:
        """Write what is waiting, within ``timeout`` seconds, and close the file."""
        if self._pid != os.getpid():
            return
        thread, self._thread = self._thread, None
        if thread is not None and thread.is_alive():
            with contextlib.suppress(queue.Full):
                self._queue.put(None, timeout=timeout)
                thread.join(timeout)
        if number := self._queue.qsize():
            self._lose(f"{number} could not be written before the end; is its disk slow?", number)
        if thread is None or not thread.is_alive():  # else it hangs in the file
            self._file.close()


def _why(error: Exception) -> str:
    """Return the reason of an error of files, in the system's words."""
    return getattr(error, "strerror", None) or type(error).__name__
