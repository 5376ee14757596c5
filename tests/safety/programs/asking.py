"""What the programs of this folder share: a body, a client, and a look at the numbers."""

from __future__ import annotations

import os
from typing import Any

import anthropic

from lz_otel import _runtime, catalogue

URL = os.environ["UPSTREAM"]
BODY: dict[str, Any] = {
    "model": "claude-opus-5",
    "max_tokens": 9,
    "messages": [{"role": "user", "content": "x"}],
}


def client(kind: Any = anthropic.Anthropic) -> Any:
    """Return an official client of the upstream that never tries again."""
    return kind(api_key="k", base_url=URL, max_retries=0)


def value(name: str, **labels: str) -> float:
    """Return a metric's sum over its points, of a histogram the number of samples."""
    runtime = _runtime.current()
    assert runtime is not None
    runtime.store.snapshot()
    point = runtime.store.value(catalogue.by_name(name), **labels)
    return float(getattr(point, "count", point))
