"""Observes httpx2 and SDKs that are imported afterwards, where httpx is not installed:
``only_httpx2.py ADDRESS``.
"""

# ruff: noqa: E402 - what is missing must be so before anything is imported

from __future__ import annotations

import logging
import sys

from tests.casebook.bodies import ASK, CHAT
from tests.casebook.programs.without import without

without("httpx")

import lz_otel

logging.basicConfig(level=logging.INFO, stream=sys.stdout, format="%(levelname)s %(message)s")
lz_otel.instrument(exporters="none")

import anthropic
import httpx2
import openai

from lz_otel import _runtime
from lz_otel.testing import Capture

url = sys.argv[1]
httpx2.post(url + "/v1/messages", json=ASK).read()
list(anthropic.Anthropic(api_key="k", base_url=url).messages.create(**ASK, stream=True))
openai.OpenAI(api_key="k", base_url=url + "/v1").chat.completions.create(**CHAT)
runtime = _runtime.current()
assert runtime is not None
assert Capture(runtime.store).value("gen_ai.client.inference.duration") == 3
assert {"httpx2", "anthropic", "openai"} <= set(lz_otel.status().hooked), lz_otel.status()
assert "httpx" not in sys.modules
