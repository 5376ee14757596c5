"""A service for gunicorn: each request asks a model and gives the process number. For `test_gunicorn`."""

from __future__ import annotations

import os
from typing import Any

import httpx

import lz_otel

lz_otel.instrument()


def app(environ: Any, start_response: Any) -> list[bytes]:
    httpx.post(
        f"{os.environ['UPSTREAM']}/v1/messages",
        json={"model": "claude-sonnet-5", "max_tokens": 9, "messages": [{"role": "user", "content": "x"}]},
        headers={"x-api-key": "k", "anthropic-version": "2023-06-01"},
    )
    start_response("200 OK", [])
    return [str(os.getpid()).encode()]
