"""Observes httpx that is imported afterwards, where httpx2 and the SDKs are not installed:
``only_httpx.py ADDRESS``.
"""

# ruff: noqa: E402 - what is missing must be so before anything is imported

from __future__ import annotations

import logging
import sys

from tests.casebook.bodies import ASK, CHAT
from tests.casebook.programs.without import without

without("httpx2", "anthropic", "openai")

import lz_otel

logging.basicConfig(level=logging.INFO, stream=sys.stdout, format="%(levelname)s %(message)s")
lz_otel.instrument(exporters="none")

import httpx

from lz_otel import _runtime
from lz_otel.testing import Capture

url = sys.argv[1]
httpx.post(url + "/v1/messages", json=ASK).read()
httpx.post(url + "/v1/chat/completions", json=CHAT).read()
runtime = _runtime.current()
assert runtime is not None
assert Capture(runtime.store).value("gen_ai.client.inference.duration") == 2
assert {"httpx"} <= set(lz_otel.status().hooked), lz_otel.status()
