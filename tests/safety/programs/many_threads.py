"""Makes calls in 32 threads, plain and streamed, and prints what was counted."""

from __future__ import annotations

import threading

import lz_otel
from tests.safety.programs.asking import BODY, client, value

lz_otel.instrument()
shared = client()


def work(n: int) -> None:
    """Make fifteen calls, every other one streamed."""
    for turn in range(15):
        if (n + turn) % 2:
            shared.messages.create(**BODY)
        else:
            with shared.messages.stream(**BODY) as events:
                events.get_final_text()


threads = [threading.Thread(target=work, args=(n,)) for n in range(32)]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
print(
    value("gen_ai.client.inference.duration", lz_ending="ok"),
    value("gen_ai.client.inference.duration"),
    value("gen_ai.client.inference.usage.input_tokens"),
    value("lz.attempts"),
    value("lz.call.active"),
    value("lz.internal.errors"),
)
