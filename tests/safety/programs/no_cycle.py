"""Prints how many calls are open and what of ours only the garbage collector could free:
``no_cycle.py MODULE``.
"""

from __future__ import annotations

import gc
import importlib
import sys

import lz_otel
from lz_otel import _runtime
from tests.wire_doubles import A_JSON

BODY = {"model": "claude-haiku-4-5", "max_tokens": 9, "messages": [{"role": "user", "content": "Fox?"}]}

module = importlib.import_module(sys.argv[1])
lz_otel.instrument(exporters="none")
client = module.Client(transport=module.MockTransport(lambda _: module.Response(200, json=A_JSON)))
lz_otel.instrument_client(client)
runtime = _runtime.current()
assert runtime is not None
intake = runtime.intake


def calls(number: int) -> None:
    """Make calls, and read them."""
    for _ in range(number):
        client.post("https://api.anthropic.com/v1/messages", json=BODY).raise_for_status()
    intake.catch_up()


calls(2)
gc.collect()
gc.disable()
gc.set_debug(gc.DEBUG_SAVEALL)
calls(3)
gc.collect()
ours = {type(thing).__qualname__ for thing in gc.garbage if type(thing).__module__.startswith("lz_otel")}
print(len(intake._open), *sorted(ours))
