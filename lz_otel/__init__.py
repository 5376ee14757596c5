"""Observe every LLM call of a service: fast paths, latency, tokens, cost, fallbacks and why.

``lz_otel.instrument()`` once at start-up is all. See the README for what is documented by
vendors and what only by the source articles.
"""

from __future__ import annotations

from lz_otel._api import (
    flush,
    handler,
    instrument_client,
    lifespan,
    operation,
    record_quality,
    record_response_cache,
)
from lz_otel._runtime import Status, instrument, status, uninstrument
from lz_otel._version import __version__ as __version__
from lz_otel.errors import CatalogueError, ConfigurationError, LzOtelError, MissingDependencyError

__all__ = [
    "CatalogueError", "ConfigurationError", "LzOtelError", "MissingDependencyError", "Status",
    "flush", "handler", "instrument", "instrument_client", "lifespan", "operation", "record_quality",
    "record_response_cache", "status", "uninstrument",
]  # fmt: skip
