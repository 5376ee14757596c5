"""The audit log: a full disk, rotation, who may read it."""

from __future__ import annotations

import json
import stat
from pathlib import Path
from typing import Any

import httpx2
import pytest

import lz_otel
from lz_otel.errors import ConfigurationError
from lz_otel.testing import capture
from tests.processes import run
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
    """A full disk costs entries, not calls:
    each is counted, one warning when it begins and one line when it ends.
    """
    path = tmp_path / "audit.log"
    lost, told = json.loads(run(PROGRAMS / "full_disk.py", str(path)).stdout)
    assert lost >= 19
    assert [("cannot be written" in line, "can be written again" in line) for line in told] == [
        (True, False),
        (False, True),
    ]
    whole = [line for line in path.read_text().splitlines() if line.startswith("{") and line.endswith("}")]
    assert (
        len(whole) >= 9
    )  # those before and those after; the one that was cut shares its line with its successor


def test_the_queue_is_bounded(tmp_path: Path) -> None:
    """What the thread cannot write in time is dropped and counted; the host never waits."""
    with capture(audit_log=str(tmp_path / "audit.log")) as seen:
        runtime = lz_otel._runtime.current()
        assert runtime is not None
        handler = runtime.audit._handler
        one = client()
        with handler.lock:  # the writer stands still
            for _ in range(1100):
                one.post(URL, json=BODY)
            seen.store.snapshot()
            lost = seen.value("lz.internal.errors", where="audit")
            assert 90 <= lost <= 100
            assert seen.value("gen_ai.client.inference.duration", lz_ending="ok") == 1100
