"""Exporters whose storage or network fails, at the start, at a fork and in the middle: the host goes on."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.processes import run

PROGRAMS = Path(__file__).parent / "programs"


@pytest.mark.parametrize(
    ("kind", "named"),
    [
        ("prometheus", "127.0.0.1|localhost"),
        ("otlp", "http://127.0.0.1:"),
        ("otlp down", "http://127.0.0.1:"),
        ("otlp hang", "http://127.0.0.1:"),
        ("otlp 503", "http://127.0.0.1:"),
        ("console none", "console exporter"),
        ("console closed", "console exporter"),
        ("console pipe", "console exporter"),
        ("audit", "audit.log"),
        ("provider get_meter", "MeterProvider"),
        ("provider create_histogram", "MeterProvider"),
        ("provider record", "fault in export"),
    ],
)
def test_an_exporter_that_fails(kind: str, named: str, tmp_path: Path) -> None:
    """Parent and child make their calls and end; the log names what fails at most once while it goes on and
    once at the end, and faults are counted by the outage, not by the try.
    """
    output = run(PROGRAMS / "failing_exporters.py", kind, str(tmp_path), seconds=30).stdout
    found = [json.loads(line) for line in output.splitlines()]
    assert len(found) == 2
    for errors, _, logged in found:
        assert sum(errors.values()) <= 2
        assert len(logged) <= 3
        assert len(set(logged)) == len(logged)
    assert any(word in line for *_, logged in found for line in logged for word in named.split("|"))
