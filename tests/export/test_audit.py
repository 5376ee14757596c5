"""The audit log: a full disk, rotation, who may read it."""

from __future__ import annotations

import fcntl
import json
import os
import socket
import stat
import threading
from pathlib import Path
from typing import Any

import httpx2
import pytest

import lz_otel
from lz_otel._export import audit
from lz_otel.errors import ConfigurationError
from lz_otel.testing import capture
from tests.processes import run, start
from tests.wire_doubles import A_JSON, transport

PROGRAMS = Path(__file__).parent / "programs"
URL = "https://api.anthropic.com/v1/messages"
TAG = '<layer-zero enabled="true" prune_ratio="0.32"/>\nYou help.'
BODY: dict[str, Any] = {
    "model": "claude-opus-5",
    "max_tokens": 10,
    "system": TAG,
    "messages": [{"role": "user", "content": "canary " * 20}],
}


def client() -> httpx2.Client:
    made = httpx2.Client(transport=transport(httpx2, lambda r: httpx2.Response(200, json=A_JSON)))
    lz_otel.instrument_client(made)
    return made


def lines(*paths: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for path in paths for line in path.read_text().splitlines()]


def test_rotation_and_mode(tmp_path: Path) -> None:
    """The audit log is rotated at its size, keeps as many old files as it may,
    and only its owner can read any of them.
    """
    path = tmp_path / "audit.log"
    path.write_text("")
    path.chmod(0o644)  # it was there before, and open to all
    with capture(strict=True, audit_log=str(path), audit_max_bytes=4000, audit_backups=2) as seen:
        one = client()
        for _ in range(40):
            one.post(URL, json=BODY)
        seen.store.snapshot()
    files = sorted(tmp_path.iterdir())
    assert [f.name for f in files] == ["audit.log", "audit.log.1", "audit.log.2"]
    assert {stat.S_IMODE(f.stat().st_mode) for f in files} == {0o600}
    assert all(f.stat().st_size <= 4000 for f in files)
    assert {entry["log_type"] for entry in lines(*files)} == {"layer_zero_audit"}


def test_a_path_that_cannot_be_written_is_said_at_once(tmp_path: Path) -> None:
    """A path that is no file ends ``instrument`` with the setting's name, before anything is hooked."""
    for path in (tmp_path, tmp_path / "no" / "such" / "folder"):
        with pytest.raises(ConfigurationError, match="LZ_OTEL_AUDIT_LOG"):
            lz_otel.instrument(exporters="none", audit_log=str(path))
        assert not lz_otel.status().enabled


def test_a_full_disk(tmp_path: Path) -> None:
    """A full disk costs entries, not calls, and leaves whole lines:
    each is counted, one warning when it begins and one line when it ends.
    """
    path = tmp_path / "audit.log"
    counted, told = json.loads(run(PROGRAMS / "full_disk.py", str(path)).stdout)
    assert counted == [20, 1]
    assert [("cannot be written" in line, "20 entries were lost" in line) for line in told] == [
        (True, False),
        (False, True),
    ]
    assert len(lines(path)) == 10


def test_the_queue_is_bounded(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """What the thread cannot write in time is dropped, counted and told once; the host never waits."""
    path = tmp_path / "audit.log"
    with capture(audit_log=str(path)) as seen, path.open() as held:
        one = client()
        fcntl.flock(held, fcntl.LOCK_EX)  # the writer stands still
        for _ in range(1100):
            one.post(URL, json=BODY)
        seen.store.snapshot()
        lost = seen.value("lz.internal.lost", what="audit")
        fcntl.flock(held, fcntl.LOCK_UN)
        assert 90 <= lost <= 100
        assert seen.value("gen_ai.client.inference.duration", lz_ending="ok") == 1100
    assert ["slower than the calls" in r.getMessage() for r in caplog.records] == [True]
    assert len(lines(path)) == 1100 - lost


@pytest.mark.parametrize("kind", ["link", "dangling", "hard link", "pipe", "folder", "device", "socket"])
def test_only_a_plain_file(kind: str, tmp_path: Path) -> None:
    """Whatever else is at the path is refused at the start, at once, and keeps its content and mode."""
    path, victim = tmp_path / "audit.log", tmp_path / "victim"
    victim.write_text("keep")
    victim.chmod(0o644)
    with socket.socket(socket.AF_UNIX) as listener:
        if kind == "link":
            path.symlink_to(victim)
        elif kind == "dangling":
            path.symlink_to(tmp_path / "nothing")
        elif kind == "hard link":
            path.hardlink_to(victim)
        elif kind == "pipe":
            os.mkfifo(path)
        elif kind == "folder":
            path.mkdir()
        elif kind == "device":
            path = Path("/dev/null")
        else:
            listener.bind(str(path))
        mode = path.lstat().st_mode
        with pytest.raises(ConfigurationError, match=r"LZ_OTEL_AUDIT_LOG.*a plain file of this user"):
            lz_otel.instrument(exporters="none", audit_log=str(path))
        assert not lz_otel.status().enabled
        assert (mode, 0o644) == (path.lstat().st_mode, stat.S_IMODE(victim.stat().st_mode))
        assert victim.read_text() == "keep"
        assert not (tmp_path / "nothing").exists()


def test_a_file_of_somebody_else(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A file that belongs to another user is refused and keeps its mode."""
    path = tmp_path / "audit.log"
    path.write_text("")
    path.chmod(0o644)
    monkeypatch.setattr(os, "geteuid", lambda: path.stat().st_uid + 1)
    with pytest.raises(ConfigurationError, match="it belongs to another user"):
        lz_otel.instrument(exporters="none", audit_log=str(path))
    assert stat.S_IMODE(path.stat().st_mode) == 0o644


@pytest.mark.parametrize("planted", ["link", "pipe"])
def test_a_file_that_is_replaced(planted: str, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """A file that was moved away is written anew; what was put in its place is refused, and told once."""
    path, victim = tmp_path / "audit.log", tmp_path / "victim"
    victim.write_text("keep")
    with capture(audit_log=str(path)) as seen:
        runtime = lz_otel._runtime.current()
        assert runtime is not None

        def post(times: int) -> None:
            for _ in range(times):
                client().post(URL, json=BODY)
            seen.store.snapshot()
            runtime.audit._queue.join()

        post(1)
        path.rename(tmp_path / "moved")
        post(1)
        path.unlink()
        os.mkfifo(path) if planted == "pipe" else path.symlink_to(victim)
        post(2)
        assert 2 == seen.value("lz.internal.lost", what="audit")
        path.unlink()
        post(1)
    assert (1, 1) == (len(lines(tmp_path / "moved")), len(lines(path)))
    assert "keep" == victim.read_text()
    assert ["cannot be written" in r.getMessage() for r in caplog.records] == [True, False]


def test_several_workers_on_one_path(tmp_path: Path) -> None:
    """Processes that share a path, and their forked children, lose no entry as the file is rotated."""
    path = tmp_path / "audit.log"
    workers = [start(PROGRAMS / "auditing.py", str(path)) for _ in range(4)]
    for worker in workers:
        worker.stdin.write("\n")  # all at once
        worker.stdin.flush()
    for worker in workers:
        output, errors = worker.communicate(timeout=60)
        assert (worker.returncode, errors, output) == (0, "", "")
    files = sorted(tmp_path.iterdir())
    assert len(files) > 10
    assert all(f.stat().st_size <= 20_000 for f in files)
    names = [entry["messages"][0]["content"] for entry in lines(*files)]
    assert (4 * 3 * 100, 4 * 3 * 100) == (len(names), len(set(names)))


def test_what_is_left_out_is_counted(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """A request above the limit of an entry is counted as lost and told once."""
    body = BODY | {"messages": [{"role": "user", "content": "x" * audit._MAX_ENTRY}]}
    with capture(audit_log=str(tmp_path / "audit.log")) as seen:
        for _ in range(2):
            client().post(URL, json=body)
        assert 2 == seen.value("lz.internal.lost", what="audit")
    assert ["more than 4 MiB" in r.getMessage() for r in caplog.records] == [True]


def test_an_end_that_cannot_wait(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """What could not be written within the time of an end is told, with its number."""
    path = tmp_path / "audit.log"
    with path.open("w") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        log = audit.AuditLog(str(path), 1000, 1)
        for _ in range(3):
            log._queue.put({"body": b"{}"})
        log._thread = threading.Thread(target=log._run, daemon=True)
        log._thread.start()
        thread = log._thread
        log.close(0.05)
        fcntl.flock(held, fcntl.LOCK_UN)
        thread.join()
    assert ["3 could not be written" in r.getMessage() for r in caplog.records] == [True]
