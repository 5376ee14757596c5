"""Lets the disk of the audit log be full for a while, and prints entries lost, faults and lines logged:
``full_disk.py PATH``.
"""

from __future__ import annotations

import json
import logging
import resource
import signal
import sys
from pathlib import Path

from lz_otel import _runtime
from lz_otel.testing import capture
from tests.export import test_audit

records: list[str] = []


class Keep(logging.Handler):
    """Keeps the text of each record."""

    def emit(self, record: logging.LogRecord) -> None:
        records.append(record.getMessage())


signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
logging.getLogger("lz_otel").addHandler(Keep())
path = Path(sys.argv[1])
with capture(audit_log=str(path)) as seen:
    runtime = _runtime.current()
    assert runtime is not None
    client = test_audit.client()

    def calls(number: int) -> None:
        """Make calls, and wait until the log has tried to write them."""
        for _ in range(number):
            assert client.post(test_audit.URL, json=test_audit.BODY).json() == test_audit.A_JSON
        seen.store.snapshot()
        runtime.audit._queue.join()

    calls(5)
    _, most = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (path.stat().st_size + 10, most))
    calls(20)
    resource.setrlimit(resource.RLIMIT_FSIZE, (most, most))
    calls(5)
    lost = [seen.value("lz.internal.lost", what="audit"), seen.value("lz.internal.errors", where="audit")]
    assert seen.value("gen_ai.client.inference.duration", lz_ending="ok") == 30
print(json.dumps([lost, records]))
