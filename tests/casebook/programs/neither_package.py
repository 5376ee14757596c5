"""Instruments where there is nothing to hook."""

# ruff: noqa: E402 - what is missing must be so before anything is imported

from __future__ import annotations

import logging
import sys

from tests.casebook.programs.without import without

without("httpx", "httpx2", "urllib3", "aiohttp", "requests", "anthropic", "openai")

import lz_otel

logging.basicConfig(level=logging.INFO, stream=sys.stdout, format="%(levelname)s %(message)s")
lz_otel.instrument(exporters="none")
assert lz_otel.status().hooked == ()
