"""Roles of the casebook, read from a capture, and clients on doubles.

The casebook speaks of roles (CALLS, TOKENS, INPUT_PART …) so that its cases do not depend on names;
this file holds the one map from role to metric.
"""

from __future__ import annotations

import asyncio
import contextlib
from typing import TYPE_CHECKING, Any, NamedTuple

import anthropic
import httpx2
import openai

from lz_otel import testing
from tests.casebook.bodies import SSE
from tests.wire_doubles import A_JSON, O_JSON, a_full, o_full, transport

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from lz_otel._measure.store import HistogramValue

CALLS = "gen_ai.client.inference.duration"
FIRST_CHUNK = "gen_ai.client.inference.time_to_first_chunk"
FIRST_TOKEN = "lz.call.time_to_first_token"
INPUT = "gen_ai.client.inference.usage.input_tokens"
OUTPUT = "gen_ai.client.inference.usage.output_tokens"
READ = "gen_ai.client.inference.usage.cache_read.input_tokens"
WRITE = "gen_ai.client.inference.usage.cache_write.input_tokens"
SAMPLES = "gen_ai.client.token.usage"  # the older conventions' histogram: tells how many samples there were
USAGE_MISSING = "lz.call.usage_missing"
ATTEMPTS = "lz.attempts"
RETRIES = "lz.call.retries"
FALLBACKS = "lz.operation.fallbacks"
OPERATIONS = "lz.operation.duration"
COST = "lz.cost.usd"
UNPRICED = "lz.cost.unpriced"
FAST_PATH = "lz.fast_path.calls"
INFLIGHT = "lz.call.active"
SELF_ERRORS = "lz.internal.errors"
MALFORMED = "lz.malformed"
OVERFLOW = "lz.internal.overflow"


class Parts(NamedTuple):
    """INPUT_PART of the casebook."""

    uncached: float
    read: float
    write: float


class Numbers:
    """The roles, by the names of the casebook."""

    def __init__(self, seen: testing.Capture) -> None:
        self.seen = seen

    def calls(self, **labels: str) -> HistogramValue:
        """CALLS."""
        return self.seen.histogram(CALLS, **labels)

    def outcomes(self) -> dict[str, int]:
        """Samples of CALLS by OUTCOME."""
        return _counts(self.seen.points(CALLS), -1)

    def errors(self) -> dict[str, int]:
        """Samples of CALLS by error type, those without one left out."""
        return {k: v for k, v in _counts(self.seen.points(CALLS), 6).items() if k}

    def tokens(self, **labels: str) -> tuple[tuple[int, float], tuple[int, float]]:
        """TOKENS{input} and TOKENS{output}, each as (samples, sum); checks counters against the histogram."""
        pairs = []
        for kind, counter in (("input", INPUT), ("output", OUTPUT)):
            samples = self.seen.histogram(SAMPLES, gen_ai_token_type=kind, **labels)
            assert samples.sum == self.seen.value(counter, **labels)
            pairs.append((samples.count, samples.sum))
        return pairs[0], pairs[1]

    def parts(self, **labels: str) -> Parts:
        """INPUT_PART."""
        whole, read, write = (self.seen.value(name, **labels) for name in (INPUT, READ, WRITE))
        return Parts(whole - read - write, read, write)

    def by(self, metric: str, position: int = -1) -> dict[str, float]:
        """A counter by one of its labels, the last one by default."""
        out: dict[str, float] = {}
        for labels, value in self.seen.points(metric).items():
            out[labels[position]] = out.get(labels[position], 0) + value
        return out

    def samples(self, metric: str) -> int:
        """Samples of a histogram."""
        return self.seen.histogram(metric).count

    @property
    def inflight(self) -> float:
        """INFLIGHT."""
        return self.seen.value(INFLIGHT)


def _counts(points: dict[tuple[str, ...], Any], position: int) -> dict[str, int]:
    out: dict[str, int] = {}
    for labels, value in points.items():
        out[labels[position]] = out.get(labels[position], 0) + value.count
    return out


@contextlib.contextmanager
def observed(**settings: Any) -> Iterator[Numbers]:
    """Observe; faults of ours are raised, unless ``strict=False``."""
    with testing.capture(**{"strict": True, "conventions": "both", **settings}) as seen:
        yield Numbers(seen)


# --- answers --------------------------------------------------------------------------------------


def good(request: Any) -> Any:
    """A_JSON, A_FULL, O_FULL or OpenAI JSON with V, as the request asks for."""
    streamed = b'"stream":true' in request.content.replace(b" ", b"")
    if "completions" in request.url.path:
        if streamed:
            return 200, SSE, o_full(usage=b"include_usage" in request.content)
        return module_response(request, 200, O_JSON)
    return (200, SSE, a_full()) if streamed else module_response(request, 200, A_JSON)


def module_response(request: Any, status: int, body: Any, **headers: str) -> Any:
    """A JSON response of the package that made the request."""
    import importlib

    module = importlib.import_module(type(request).__module__.partition(".")[0])
    named = {k.replace("_", "-"): v for k, v in headers.items()}
    return module.Response(status, headers=named, json=body)


def json_body(body: Any, status: int = 200, **headers: str) -> Callable[[Any], Any]:
    """Always this JSON body."""
    return lambda request: module_response(request, status, body, **headers)


def stream(pieces: list[Any]) -> Callable[[Any], Any]:
    """Always this stream: bytes, waits in seconds, exceptions."""
    return lambda request: (200, SSE, pieces)


def refusal(status: int, kind: str, wait_ms: int = 10) -> Callable[[Any], Any]:
    """An error of Anthropic that asks to be tried again soon."""
    body = {"type": "error", "error": {"type": kind, "message": "Overloaded"}}
    return json_body(body, status, retry_after_ms=str(wait_ms))


def in_turn(*answers: Any) -> Callable[[Any], Any]:
    """These answers one after the other, the last one for ever."""
    left = list(answers)

    def answer(request: Any) -> Any:
        found = left.pop(0) if len(left) > 1 else left[0]
        return found(request) if callable(found) else found

    return answer


# --- clients --------------------------------------------------------------------------------------


def claude(answer: Any, asynchronous: bool = False, **options: Any) -> Any:
    """The official client of Anthropic on a double."""
    double = transport(httpx2, answer)
    if asynchronous:
        return anthropic.AsyncAnthropic(
            **{"api_key": "k", "http_client": httpx2.AsyncClient(transport=double), **options}
        )
    return anthropic.Anthropic(**{"api_key": "k", "http_client": httpx2.Client(transport=double), **options})


def gpt(answer: Any, asynchronous: bool = False, **options: Any) -> Any:
    """The official client of OpenAI on a double."""
    double = transport(httpx2, answer)
    if asynchronous:
        return openai.AsyncOpenAI(
            **{"api_key": "k", "http_client": httpx2.AsyncClient(transport=double), **options}
        )
    return openai.OpenAI(**{"api_key": "k", "http_client": httpx2.Client(transport=double), **options})


def settle(result: Any) -> Any:
    """The result, waited for if it is a coroutine; of a stream all its events."""

    async def everything() -> Any:
        found = await result if asyncio.iscoroutine(result) else result
        return [item async for item in found] if hasattr(found, "__aiter__") else found

    if asyncio.iscoroutine(result):
        return asyncio.run(everything())
    return list(result) if hasattr(result, "__iter__") and not hasattr(result, "model_dump") else result


def helper_events(client: Any, **ask: Any) -> list[Any]:
    """All events of ``messages.stream(...)``, of either client."""

    async def run() -> list[Any]:
        async with client.messages.stream(**ask) as found:
            return [event async for event in found]

    if isinstance(client, anthropic.AsyncAnthropic):
        return asyncio.run(run())
    with client.messages.stream(**ask) as found:
        return list(found)
