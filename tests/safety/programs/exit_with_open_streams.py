"""Ends with streams half read: kept, held by a generator, and read by another thread."""

from __future__ import annotations

import sys
import threading
from typing import TYPE_CHECKING, Any

import lz_otel
from tests.safety.programs.asking import BODY, client

if TYPE_CHECKING:
    from collections.abc import Iterator

lz_otel.instrument()
shared = client()
shared.messages.create(**BODY)
kept = [shared.messages.create(**BODY, stream=True) for _ in range(3)]
for stream in kept:
    next(iter(stream))


def generator() -> Iterator[Any]:
    """Hold a stream open between two steps."""
    with shared.messages.stream(**BODY) as events:
        yield from events


if sys.version_info[:2] != (3, 13):  # which ends by a segmentation fault there, without lz_otel too
    held = generator()
    next(held)
threading.Thread(target=lambda: next(iter(kept[0])), daemon=True).start()
