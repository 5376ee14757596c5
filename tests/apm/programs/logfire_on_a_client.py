"""Puts Logfire on one client each, before lz_otel, and makes calls with them: prints the numbers as JSON."""

from __future__ import annotations

import asyncio
import json

import anthropic
import httpx2
import logfire
import openai

import lz_otel
from tests.apm.programs import traffic
from tests.apm.programs.with_a_library import numbers

logfire.configure(send_to_logfire=False, console=False)


async def ask(clients: list[anthropic.AsyncAnthropic]) -> None:
    """Make one call of three attempts with each."""
    for client in clients:
        await client.messages.create(**traffic.BUSY_ASK)
        await client.close()


with traffic.serve() as url:
    own = httpx2.Client(transport=traffic.Own())
    two = [anthropic.Anthropic(api_key="k", base_url=url, http_client=http) for http in (None, own)]
    three = [openai.OpenAI(api_key="k", base_url=f"{url}/v1", http_client=http) for http in (None, own)]
    four = [
        anthropic.AsyncAnthropic(api_key="k", base_url=url, http_client=http)
        for http in (None, httpx2.AsyncClient(transport=traffic.OwnAsync()))
    ]
    for client in (*two, *three, *four):
        client.with_options(timeout=10)  # the SDK's own copies of a client are made before, too
        _ = client.models  # resources keep bound methods of the client
        (logfire.instrument_openai if client in three else logfire.instrument_anthropic)(client)
    for client in two:
        client.messages.create(**traffic.BUSY_ASK)  # unseen; what is made at the first call is made now
    lz_otel.instrument(exporters="none")
    for client in two:
        client.messages.create(**traffic.BUSY_ASK)
    for client in three:
        client.chat.completions.create(**traffic.BUSY_CHAT)
    asyncio.run(ask(four))
    print(json.dumps(numbers()))
