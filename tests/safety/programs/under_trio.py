"""Makes calls under trio, the last one in a scope that is cancelled, and prints how they ended."""

from __future__ import annotations

import httpx2
import trio

import lz_otel
from tests.safety.programs.asking import BODY, URL, value

MESSAGES = URL + "/v1/messages"


async def main() -> None:
    """Make a plain call, a streamed one, and one that is cancelled."""
    async with httpx2.AsyncClient(trust_env=False) as client:
        await client.post(MESSAGES, json=BODY)
        async with client.stream("POST", MESSAGES, json={**BODY, "stream": True}) as response:
            async for _ in response.aiter_raw():
                pass
        with trio.move_on_after(0.05):
            await client.post(MESSAGES, json={**BODY, "model": "slow"})


lz_otel.instrument()
trio.run(main)
ended = [value("gen_ai.client.inference.duration", lz_ending=ending) for ending in ("ok", "cancelled")]
print(*ended, value("lz.call.active"))
