"""`lz-otel truth --soak`: many distinct prompts through every mechanism, and how much memory they hold.

Calls go through httpx with a transport that answers at once, so that two hundred thousand take minutes.
Each prompt, session, entity and breakpoint is new: every bounded memory is filled many times over.
"""

from __future__ import annotations

import gc
import importlib
import json
import logging
import sys
import types
from time import perf_counter
from typing import Any

import lz_otel
from lz_otel import catalogue as c
from lz_otel.errors import MissingDependencyError
from lz_otel.lab.demo.run import instrumented
from lz_otel.testing import capture

PARTS = 10
ALLOWED = 1.02  # growth from the half of the run to its end that is no growth: dictionaries resize

_URL = "https://api.anthropic.com/v1/messages"
_CODE = (
    type, types.ModuleType, types.FunctionType, types.BuiltinFunctionType, types.CodeType, types.FrameType,
)  # fmt: skip
_FILLER = "The shop sells books, records and maps. " * 60


def _httpx() -> Any:
    for name in ("httpx2", "httpx"):
        try:
            return importlib.import_module(name)
        except ImportError:
            continue
    raise MissingDependencyError("httpx", "demo", "the soak")


def _held(*roots: object) -> int:
    """Return the bytes of everything that can be reached, each object once; code and types are left out."""
    seen: set[int] = set()
    waiting = list(roots)
    total = 0
    while waiting:
        item = waiting.pop()
        if id(item) in seen or isinstance(item, _CODE):
            continue
        seen.add(id(item))
        total += sys.getsizeof(item, 0)
        waiting += gc.get_referents(item)
    return total


_REPORT = "eyJ0b3RhbF9sYXllcnMiOjMyLCJ6ZXJvZWRfbGF5ZXJzIjoxNCwiZmFsbGJhY2tfdHJpZ2dlcmVkIjpmYWxzZX0="
_ANSWER_HEADERS = {
    "content-type": "application/json", "x-anthropic-layer": "zero", "x-anthropic-zero-latency": "21.5",
    "x-anthropic-layer-zero": "true", "x-anthropic-layer-zero-report": _REPORT,
    "x-anthropic-layer-served": "zero", "x-cache": "MISS",
}  # fmt: skip
_USAGE = {
    "input_tokens": 40, "cache_creation_input_tokens": 600, "cache_read_input_tokens": 0, "output_tokens": 0,
    "layer_zero": {"pruned_tokens": 12},
}  # fmt: skip
_HEADERS = {
    "content-type": "application/json", "x-api-key": "soak", "anthropic-sampling-intent": "deterministic",
    "anthropic-beta": "tools-2024-08-06", "anthropic-layer-zero": "enabled",
    "x-anthropic-layer-hint": "zero-latency",
}  # fmt: skip


def _answer(module: Any, number: int, path: str) -> Any:
    if path.endswith("count_tokens"):
        return module.Response(200, json={"input_tokens": 640})
    text = f"Answer {number}: order AB-{number:08d}, customer{number - 7}@example.com"
    head = {"id": f"msg_{number}", "type": "message", "role": "assistant", "model": "claude-sonnet-5-5"}
    body = {**head, "content": [{"type": "text", "text": text}], "stop_reason": "end_turn", "usage": _USAGE}
    return module.Response(200, headers=_ANSWER_HEADERS, content=json.dumps(body).encode())


def _request(number: int) -> bytes:
    tag = '<layer-zero enabled="true" prune_ratio="0.3"/>\n'
    text = f"{tag}Version {number}. {_FILLER}"
    body = {
        "model": "claude-sonnet-5-5",
        "max_tokens": 100,
        "system": [{"type": "text", "text": text, "cache_control": {"type": "ephemeral"}}],
        "metadata": {"user_id": f"user-{number}"},
        "messages": [{"role": "user", "content": f"Order AB-{number:08d} of customer{number}@example.com?"}],
    }
    return json.dumps(body).encode()


def memory_after(prompts: int, parts: int = PARTS) -> tuple[list[int], dict[str, float]]:
    """Make so many calls, all different, with every mechanism on.

    Returns:
        Bytes held by mechanisms, metrics and backlog after each part; verdicts by mechanism at the end.

    Raises:
        MissingDependencyError: neither httpx nor httpx2 is installed.
    """
    module = _httpx()
    sizes: list[int] = []
    number = 0

    def respond(request: Any) -> Any:
        return _answer(module, number, request.url.path)

    with (
        capture(mechanisms=c.MECHANISMS, overhead_sample=0.0) as seen,
        module.Client(transport=module.MockTransport(respond)) as client,
    ):
        lz_otel.instrument_client(client)
        runtime = instrumented()
        for number in range(prompts):
            body = _request(number)
            if number % 8 == 0:  # answers of token counting are remembered too
                client.post(f"{_URL}/count_tokens", headers=_HEADERS, content=body)
            with lz_otel.operation("soak", session=f"session-{number}"):
                client.post(_URL, headers=_HEADERS, content=body)
            if (number + 1) % max(1, prompts // parts) == 0:
                seen.store.snapshot()
                roots = (runtime.judges, runtime.store, runtime.labels, runtime.intake, runtime.later)
                sizes.append(_held(*roots))
        verdicts = {m: float(seen.store.value(c.FAST_PATH_CALLS, mechanism=m)) for m in c.MECHANISMS}
    return sizes, verdicts


def run(prompts: int) -> int:
    """Print what is held after each tenth of the run; 0 when the second half does not grow, else 1."""
    logging.basicConfig(level=logging.ERROR, format="%(message)s")
    started = perf_counter()
    sizes, verdicts = memory_after(prompts)
    out = sys.stdout.write
    step = prompts // PARTS
    for part, size in enumerate(sizes, 1):
        out(f"{part * step:>9,} distinct prompts: {size / 1e6:6.2f} MB held by lz_otel\n")
    half, end = sizes[len(sizes) // 2 - 1], sizes[-1]
    out(f"verdicts: {', '.join(f'{m} {n:,.0f}' for m, n in verdicts.items() if n)}\n")
    grown = end > half * ALLOWED
    spent = perf_counter() - started
    out(
        f"from {half / 1e6:.2f} MB at the half to {end / 1e6:.2f} MB at the end, in {spent:.0f} s: "
        f"{'it GROWS' if grown else 'bounded'}\n"
    )
    return int(grown)
