"""The call log: one line per call, and what it never holds."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from lz_otel.testing import capture
from tests.export.test_audit import BODY, URL, client

if TYPE_CHECKING:
    import pytest


def test_the_call_log_has_no_content(caplog: pytest.LogCaptureFixture) -> None:
    """One line per call with its numbers; neither prompt, nor answer, nor key, nor query."""
    caplog.set_level("INFO", "lz_otel.calls")
    with capture(strict=True, call_log=True):
        client().post(f"{URL}?key=canary", json=BODY, headers={"x-api-key": "canary"})
    found = [r.getMessage() for r in caplog.records if r.name == "lz_otel.calls"]
    assert len(found) == 1
    assert json.loads(found[0])["input_tokens"] == 2104
    assert not any(word in found[0] for word in ("canary", "hello", "You help", "key"))
