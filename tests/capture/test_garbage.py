"""What a call leaves behind: nothing that only the garbage collector could free."""

from __future__ import annotations

import gc
from typing import Any

import httpx
import httpx2
import pytest

import lz_otel
from lz_otel import _runtime

BODY = {"model": "claude-haiku-4-5", "max_tokens": 9, "messages": [{"role": "user", "content": "Fox?"}]}
ANSWER = {
    "type": "message",
    "model": "claude-haiku-4-5",
    "content": [{"type": "text", "text": "It jumps."}],
    "usage": {"input_tokens": 9, "output_tokens": 4, "cache_read_input_tokens": 0, "cache_creation_input_tokens": 0},
}


def ours(found: list[Any]) -> list[str]:
    """Names of what is of lz_otel."""
    return sorted({type(one).__qualname__ for one in found if type(one).__module__.startswith("lz_otel")})


@pytest.mark.parametrize("module", [httpx, httpx2])
def test_a_call_leaves_no_cycle(module: Any) -> None:
    """Objects that held each other would wait for the collector, fifty for each call, and make it come more often."""
    lz_otel.instrument(exporters="none")
    transport = module.MockTransport(lambda _: module.Response(200, json=ANSWER))
    with module.Client(transport=transport) as client:
        lz_otel.instrument_client(client)

        def call() -> None:
            client.post("https://api.anthropic.com/v1/messages", json=BODY).raise_for_status()

        call()
        runtime = _runtime.current()
        assert runtime is not None
        runtime.pipeline.catch_up()
        gc.collect()
        gc.disable()
        gc.set_debug(gc.DEBUG_SAVEALL)
        try:
            for _ in range(3):
                call()
            runtime.pipeline.catch_up()
            gc.collect()
            left = ours(gc.garbage)
        finally:
            gc.set_debug(0)
            gc.garbage.clear()
            gc.enable()
    assert left == []
