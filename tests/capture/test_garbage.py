"""What a call leaves behind: nothing that only the garbage collector could free."""

from __future__ import annotations

import pytest

from tests.safety.processes import run

# In a process of its own: here other tests' leftovers may die in the middle of it
PROGRAM = """
import gc
import {module} as module
import lz_otel
from lz_otel import _runtime
from tests.wire_doubles import A_JSON
BODY = {{"model": "claude-haiku-4-5", "max_tokens": 9, "messages": [{{"role": "user", "content": "Fox?"}}]}}
lz_otel.instrument(exporters="none")
client = module.Client(transport=module.MockTransport(lambda _: module.Response(200, json=A_JSON)))
lz_otel.instrument_client(client)
pipeline = _runtime.current().intake
def calls(number):
    for _ in range(number):
        client.post("https://api.anthropic.com/v1/messages", json=BODY).raise_for_status()
    pipeline.catch_up()
calls(2)
gc.collect()
gc.disable()
gc.set_debug(gc.DEBUG_SAVEALL)
calls(3)
gc.collect()
print(len(pipeline._open), *sorted({{type(one).__qualname__ for one in gc.garbage if type(one).__module__.startswith("lz_otel")}}))
"""


@pytest.mark.parametrize("module", ["httpx", "httpx2"])
def test_a_call_leaves_no_cycle(module: str) -> None:
    """Objects that held each other would wait for the collector, fifty for each call, and make it come more often."""
    assert ["0"] == run(PROGRAM.format(module=module)).split()
