"""A service for uvicorn that asks a model at each request, for `test_traces`."""

from __future__ import annotations

import contextlib
import os
from typing import TYPE_CHECKING

import httpx2
from starlette.applications import Starlette
from starlette.responses import PlainTextResponse
from starlette.routing import Route

import lz_otel

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from starlette.requests import Request

lz_otel.instrument()
client = httpx2.AsyncClient()


async def ask(request: Request) -> PlainTextResponse:
    body = {"model": "claude-opus-5", "max_tokens": 1, "messages": [{"role": "user", "content": "SECRET"}]}
    headers = {"anthropic-version": "2023-06-01"}
    await client.post(f"{os.environ['UPSTREAM']}/v1/messages", json=body, headers=headers)
    return PlainTextResponse("")


@contextlib.asynccontextmanager
async def lifespan(_: Starlette) -> AsyncIterator[None]:
    yield
    lz_otel.uninstrument()


app = Starlette(routes=[Route("/", ask)], lifespan=lifespan)
