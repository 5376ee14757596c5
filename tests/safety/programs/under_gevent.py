"""Makes calls in greenlets of a patched process, each within an operation, and prints what was counted."""

# ruff: noqa: E402 - everything is patched before it is imported

from __future__ import annotations

from gevent import monkey

monkey.patch_all()

import gevent

import lz_otel
from tests.safety.programs.asking import BODY, client, value

lz_otel.instrument()
shared = client()


def work(number: int) -> None:
    """Make four calls within one operation, every other one streamed."""
    with lz_otel.operation(f"route-{number % 3}"):
        for turn in range(4):
            if turn % 2:
                with shared.messages.stream(**BODY) as events:
                    events.until_done()
            else:
                shared.messages.create(**BODY)


gevent.joinall([gevent.spawn(work, number) for number in range(30)], raise_error=True)
for number in range(3):
    print(value("gen_ai.client.inference.duration", lz_route=f"route-{number}", lz_ending="ok"))
print(value("lz.call.active"), value("lz.internal.errors"))
