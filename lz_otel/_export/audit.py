"""The audit log of pruned originals (article 001, A: ``log_type: layer_zero_audit``).

It holds the original messages of requests that asked for pruning, since what is pruned never appears
in an application's log. It goes to a file of its own, readable by its owner only, and nowhere else.
It is off by default.
"""

from __future__ import annotations

import logging
import logging.handlers
import os
import queue
import threading
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from lz_otel._export.call_log import json_lines
from lz_otel._ground.guard import guard, guarded
from lz_otel.errors import ConfigurationError

if TYPE_CHECKING:
    from lz_otel.model import EndedCall

_LOG = logging.getLogger("lz_otel")
_QUEUE = 1000
_MAX_ENTRY = 4 * 1024 * 1024


class _Handler(logging.handlers.RotatingFileHandler):
    """A rotating file that only its owner can read; a full disk is counted, and logged once."""

    def __init__(self, path: str, max_bytes: int, backups: int) -> None:
        self._failing = False
        super().__init__(path, maxBytes=max_bytes, backupCount=backups, encoding="utf-8")

    def _open(self) -> Any:
        def private(name: str, flags: int) -> int:
            return os.open(name, flags, 0o600)

        stream = open(self.baseFilename, self.mode, encoding=self.encoding, opener=private)  # noqa: SIM115
        Path(self.baseFilename).chmod(0o600)  # it may have been there before
        return stream

    def handleError(self, record: logging.LogRecord) -> None:  # noqa: N802 - the name logging calls
        """Called by logging when a line could not be written."""
        _count_fault()
        if not self._failing:
            self._failing = True
            _LOG.warning("lz_otel: the audit log %s cannot be written; entries are lost", self.baseFilename)

    def emit(self, record: logging.LogRecord) -> None:
        """Write one line; log when writing works again."""
        try:
            before = self._size()  # writes what a full disk kept back, and so may fail as a line does
            super().emit(record)
            written = self._failing and self._size() > before
        except OSError:
            self.handleError(record)
            return
        if written:
            self._failing = False
            _LOG.warning("lz_otel: the audit log %s can be written again", self.baseFilename)

    def _size(self) -> int:
        return 0 if self.stream is None else int(self.stream.tell())


def _count_fault() -> None:
    """Count a fault of the audit log without a log line of the guard's own."""
    if guard.on_fault is not None:
        guard.on_fault("audit")


class AuditLog:
    """The audit log: filled by the calls, written by a thread of its own, bounded in between.

    Raises:
        ConfigurationError: the file cannot be written.
    """

    def __init__(self, path: str, max_bytes: int, backups: int) -> None:
        try:
            self._handler = _Handler(path, max_bytes, backups)
        except OSError as error:
            allowed = f"a file that can be written ({error.strerror or type(error).__name__})"
            raise ConfigurationError("LZ_OTEL_AUDIT_LOG", path, allowed) from None
        logger = logging.Logger("lz_otel.audit")  # noqa: LOG001 - not in the tree: nothing propagates
        logger.addHandler(self._handler)
        self._log = json_lines(logger)
        self._reset()

    def _reset(self) -> None:
        self._queue: queue.Queue[dict[str, Any] | None] = queue.Queue(_QUEUE)
        self._thread: threading.Thread | None = None
        self._pid = os.getpid()

    def write(self, ended: EndedCall) -> None:
        """Keep the original of a call that asked for pruning."""
        if not any(r.verdict is not None and r.verdict.mechanism == "pruning" for r in ended.results):
            return
        body = ended.request.body
        if body is None or len(body) > _MAX_ENTRY:
            _count_fault()
            return
        if self._pid != os.getpid():
            self._reset()
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
            _count_fault()
            return
        if self._thread is None or not self._thread.is_alive():
            self._thread = threading.Thread(target=self._run, name="lz-otel-audit", daemon=True)
            self._thread.start()

    def _run(self) -> None:
        while (entry := self._queue.get()) is not None:
            self._write(entry)
            self._queue.task_done()

    @guarded("audit")  # the thread must live on
    def _write(self, entry: dict[str, Any]) -> None:
        body = msgspec.json.decode(entry.pop("body"))
        if isinstance(body, dict):
            entry |= {k: body[k] for k in ("system", "messages", "tools") if k in body}
        self._log.info("pruned", **entry)

    def close(self, timeout: float = 3.0) -> None:
        """Write what is waiting, within ``timeout`` seconds, and close the file."""
        thread = self._thread
        if thread is not None and thread.is_alive() and self._pid == os.getpid():
            try:
                self._queue.put(None, timeout=timeout)
            except queue.Full:
                return
            thread.join(timeout)
        self._handler.close()
