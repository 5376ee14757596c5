"""Uses lz_otel where neither httpx, nor httpx2, nor any extra is installed."""

from __future__ import annotations

import importlib.util

OPTIONAL = ("httpx", "httpx2", "anthropic", "typer", "rich", "brotli")
present = [name for name in OPTIONAL if importlib.util.find_spec(name)]
assert not present, present

import lz_otel  # noqa: E402 - what is not there is looked for beforehand

lz_otel.instrument()
lz_otel.instrument()
with lz_otel.operation("a"):
    pass
lz_otel.uninstrument()
print("fine", lz_otel.__version__)
