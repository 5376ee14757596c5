"""An application under uvicorn that asks a model for each request.

uvicorn ends its workers by the signal itself, so nothing registered with atexit runs: the last push is made
right before that, or at the end of the application's lifespan.
"""

from __future__ import annotations

import contextlib
import os
from typing import TYPE_CHECKING

import anthropic
from starlette.applications import Starlette
from starlette.responses import PlainTextResponse
from starlette.routing import Route

import lz_otel

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from starlette.requests import Request

lz_otel.instrument()
client = anthropic.AsyncAnthropic(api_key="k", base_url=os.environ["UPSTREAM"], max_retries=0)


async def ask(request: Request) -> PlainTextResponse:
    """Make one call, streamed if it is asked so, and answer with this worker's process id."""
    message: anthropic.types.MessageParam = {"role": "user", "content": "x"}
    if request.query_params.get("stream"):
        async with client.messages.stream(model="m", max_tokens=9, messages=[message]) as events:
            await events.get_final_text()
    else:
        await client.messages.create(model="m", max_tokens=9, messages=[message])
    return PlainTextResponse(str(os.getpid()))


@contextlib.asynccontextmanager
async def taken_off(_: Starlette) -> AsyncIterator[None]:
    """Push as the application ends, by hand."""
    yield
    lz_otel.uninstrument()


LIFESPANS = {"none": None, "ours": lz_otel.lifespan, "by hand": taken_off}
app = Starlette(routes=[Route("/", ask)], lifespan=LIFESPANS[os.environ["LIFESPAN"]])
