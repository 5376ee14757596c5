"""Remote write: bytes on the wire, and what a server refuses."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import pytest

from lz_otel.lab.history import _remote_write, history
from tests.bundle.prom import prometheus

if TYPE_CHECKING:
    from pathlib import Path


def test_push_says_what_the_server_said(tmp_path: Path) -> None:
    """A refused write is an OSError with the server's words, not silence."""
    with prometheus(tmp_path) as server:
        labels = _remote_write.encode_labels([("__name__", "a")])
        too_old = labels + _remote_write.encode_samples([1.0], [1000])
        now = labels + _remote_write.encode_samples([1.0], [history.Plan().times()[-1] * 1000])
        _remote_write.post(server.url, [now])
        with pytest.raises(OSError, match=r"status 400: .*"):
            _remote_write.post(server.url, [too_old])


def test_samples_on_the_wire() -> None:
    """The first gap after a number is a staleness marker; gaps before and after it are left out."""
    encoded = _remote_write.encode_samples([math.nan, 1.0, math.nan, math.nan], [1, 2, 3, 4])
    sample = bytes.fromhex("120b09000000000000f03f1002")
    stale = bytes.fromhex("120b09020000000000f07f1003")
    assert encoded == sample + stale
