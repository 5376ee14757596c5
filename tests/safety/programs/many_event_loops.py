"""Runs one event loop after the other and several at once, each with calls, and prints what was counted."""

from __future__ import annotations

import asyncio
import threading

import anthropic

import lz_otel
from tests.safety.programs.asking import BODY, client, value


async def main() -> None:
    """Make eight calls at once, every other one streamed."""
    async with client(anthropic.AsyncAnthropic) as shared:

        async def ask(n: int) -> None:
            if n % 2:
                await shared.messages.create(**BODY)
            else:
                async with shared.messages.stream(**BODY) as events:
                    await events.get_final_text()

        await asyncio.gather(*map(ask, range(8)))


lz_otel.instrument()
for _ in range(5):
    asyncio.run(main())
threads = [threading.Thread(target=lambda: asyncio.run(main())) for _ in range(4)]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
print(
    value("gen_ai.client.inference.duration", lz_ending="ok"),
    value("lz.call.active"),
    value("lz.internal.errors"),
)
