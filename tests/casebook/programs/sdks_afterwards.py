"""Instruments before any SDK is imported, then imports them and makes a call:
``sdks_afterwards.py ANSWER`` (JSON).
"""

from __future__ import annotations

import json
import logging
import sys

import httpx2

import lz_otel
from tests.casebook.bodies import ASK

NOT_YET = {"anthropic", "openai", "httpx"}

assert not NOT_YET & set(sys.modules)
logging.basicConfig(level=logging.INFO, stream=sys.stdout, format="%(name)s %(message)s")
lz_otel.instrument(exporters="none")
assert not NOT_YET & set(sys.modules), "imported for nothing"

import anthropic  # noqa: E402 - that is the case
import openai  # noqa: E402, F401

from lz_otel import _runtime  # noqa: E402
from lz_otel.testing import Capture  # noqa: E402

answer = json.loads(sys.argv[1])
double = httpx2.MockTransport(lambda _: httpx2.Response(200, json=answer))
anthropic.Anthropic(api_key="k", http_client=httpx2.Client(transport=double)).messages.create(**ASK)
runtime = _runtime.current()
assert runtime is not None
assert Capture(runtime.store).value("gen_ai.client.inference.duration") == 1
assert {"anthropic", "openai", "httpx2"} <= set(lz_otel.status().hooked), lz_otel.status()
