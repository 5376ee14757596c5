"""The work: which client makes which calls. Each case returns a function that makes N calls."""

from __future__ import annotations

import asyncio
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable

IN_FLIGHT = 32
TIMEOUT = 600.0  # seconds, connecting included: counted by valgrind a client is slow
PROMPT: dict[str, Any] = {
    "model": "claude-haiku-4-5",
    "max_tokens": 500,
    "system": [{"type": "text", "text": "Be brief. " * 30, "cache_control": {"type": "ephemeral"}}],
    "messages": [{"role": "user", "content": "What does the fox do?"}],
}
# 40 turns of about 2.7 KB: what an agent sends after an hour.
LONG_PROMPT: dict[str, Any] = {
    **PROMPT,
    "messages": [
        {"role": ("user", "assistant")[i % 2], "content": f"Turn {i}. " + "The quick brown fox jumps. " * 100}
        for i in range(41)
    ],
}


class Case(NamedTuple):
    """One row of the benchmark.

    Attributes:
        title: what the row is called.
        calls: calls of one block in a full run.
        make: base address to a function that makes so many calls.
        variants: what is compared, besides bare.
        rounds: share of the rounds, where one takes long.
        observed: they are calls to an LLM API.
    """

    title: str
    calls: int
    make: Callable[[str], Callable[[int], None]]
    variants: tuple[str, ...]
    rounds: float = 1.0
    observed: bool = True


def _sdk(path: str, prompt: dict[str, Any]) -> Callable[[str], Callable[[int], None]]:
    def make(base: str) -> Callable[[int], None]:
        import anthropic

        client = anthropic.Anthropic(
            api_key="none", base_url=f"{base}/{path}", max_retries=0, timeout=TIMEOUT
        )

        def run(calls: int) -> None:
            for _ in range(calls):
                client.messages.create(**prompt)

        return run

    return make


def _sdk_traced(base: str) -> Callable[[int], None]:
    """As `_sdk`, where traces are exported and the SDK's own spans are off."""
    import os

    os.environ["ANTHROPIC_OPEN_TELEMETRY"] = "false"
    from opentelemetry import trace
    from opentelemetry.sdk.trace import TracerProvider
    from opentelemetry.sdk.trace.export import BatchSpanProcessor, SpanExporter, SpanExportResult

    class Nowhere(SpanExporter):
        def export(self, spans: Any) -> SpanExportResult:
            return SpanExportResult.SUCCESS

    provider = TracerProvider()
    provider.add_span_processor(BatchSpanProcessor(Nowhere()))
    trace.set_tracer_provider(provider)
    return _sdk("1k", PROMPT)(base)


def _sdk_stream(path: str) -> Callable[[str], Callable[[int], None]]:
    def make(base: str) -> Callable[[int], None]:
        import anthropic

        client = anthropic.Anthropic(
            api_key="none", base_url=f"{base}/{path}", max_retries=0, timeout=TIMEOUT
        )

        def run(calls: int) -> None:
            for _ in range(calls):
                for _event in client.messages.create(**PROMPT, stream=True):
                    pass

        return run

    return make


def _openai(base: str) -> Callable[[int], None]:
    import openai

    client = openai.OpenAI(api_key="none", base_url=f"{base}/chat/v1", max_retries=0, timeout=TIMEOUT)

    def run(calls: int) -> None:
        for _ in range(calls):
            client.chat.completions.create(model="gpt-5-mini", messages=[{"role": "user", "content": "Fox?"}])

    return run


def _together(one: Callable[[], Any]) -> Callable[[int], None]:
    """Calls with `IN_FLIGHT` of them under way at any time, on one loop that stays."""
    loop = asyncio.new_event_loop()

    async def several(calls: int) -> None:
        left = iter(range(calls))

        async def worker() -> None:
            for _ in left:
                await one()

        await asyncio.gather(*(worker() for _ in range(IN_FLIGHT)))

    return lambda calls: loop.run_until_complete(several(calls))


def _sdk_async(path: str) -> Callable[[str], Callable[[int], None]]:
    def make(base: str) -> Callable[[int], None]:
        import anthropic

        client = anthropic.AsyncAnthropic(
            api_key="none", base_url=f"{base}/{path}", max_retries=0, timeout=TIMEOUT
        )
        return _together(lambda: client.messages.create(**PROMPT))

    return make


def _sdk_async_stream(path: str) -> Callable[[str], Callable[[int], None]]:
    def make(base: str) -> Callable[[int], None]:
        import anthropic

        client = anthropic.AsyncAnthropic(
            api_key="none", base_url=f"{base}/{path}", max_retries=0, timeout=TIMEOUT
        )

        async def one() -> None:
            async for _event in await client.messages.create(**PROMPT, stream=True):
                pass

        return _together(one)

    return make


def _sdk_threads(number: int) -> Callable[[str], Callable[[int], None]]:
    """As `_sdk`, from so many threads of the application that share a client, and stay."""

    def make(base: str) -> Callable[[int], None]:
        import anthropic

        client = anthropic.Anthropic(api_key="none", base_url=f"{base}/1k", max_retries=0, timeout=TIMEOUT)
        pool = ThreadPoolExecutor(number)

        def run(calls: int) -> None:
            left = iter(range(calls))

            def work() -> None:
                for _ in left:
                    client.messages.create(**PROMPT)

            for done in [pool.submit(work) for _ in range(number)]:
                done.result()

        return run

    return make


def _plain(module: str) -> Callable[[str], Callable[[int], None]]:
    def make(base: str) -> Callable[[int], None]:
        client = __import__(module).Client(headers={"x-api-key": "none", "anthropic-version": "2023-06-01"})

        def run(calls: int) -> None:
            for _ in range(calls):
                client.post(f"{base}/1k/v1/messages", json=PROMPT)

        return run

    return make


def _plain_async(base: str) -> Callable[[int], None]:
    import httpx2

    client = httpx2.AsyncClient(headers={"x-api-key": "none", "anthropic-version": "2023-06-01"})
    return _together(lambda: client.post(f"{base}/1k/v1/messages", json=PROMPT))


def _other(base: str) -> Callable[[int], None]:
    import httpx2

    client = httpx2.Client()

    def run(calls: int) -> None:
        for _ in range(calls):
            client.post(f"{base}/1k/api/orders", json={"order": 1})

    return run


_MAIN = ("otel", "prometheus", "otlp", "both")
_TOGETHER = f"{IN_FLIGHT} in flight"
CASES: dict[str, Case] = {
    "sdk_1k": Case(
        "SDK, 1 KB answer",
        80,
        _sdk("1k", PROMPT),
        (
            "otel",
            "prometheus",
            "shared_folder",
            "otlp",
            "host_provider",
            "both",
            "beside_otel",
            "no_mechanism",
            "every_mechanism",
        ),
    ),
    "sdk_50k": Case("SDK, 50 KB answer", 60, _sdk("50k", PROMPT), _MAIN),
    "sdk_110k_request": Case(
        "SDK, 110 KB request",
        40,
        _sdk("1k", LONG_PROMPT),
        ("otel", "no_reasons", "prometheus", "otlp", "both"),
    ),
    "sdk_s50": Case("SDK, stream of 50 events", 25, _sdk_stream("s50"), _MAIN),
    "sdk_s2000": Case("SDK, stream of 2,000 events", 2, _sdk_stream("s2000"), _MAIN),
    "sdk_async_1k": Case(f"SDK, {_TOGETHER}, 1 KB answer", 128, _sdk_async("1k"), _MAIN),
    "sdk_async_50k": Case(f"SDK, {_TOGETHER}, 50 KB answer", 96, _sdk_async("50k"), _MAIN),
    "sdk_async_s50": Case(f"SDK, {_TOGETHER}, stream of 50 events", 64, _sdk_async_stream("s50"), _MAIN),
    "sdk_async_s2000": Case(
        f"SDK, {_TOGETHER}, stream of 2,000 events", 32, _sdk_async_stream("s2000"), _MAIN, 0.25
    ),
    "sdk_8_threads": Case("SDK, 8 threads, 1 KB answer", 128, _sdk_threads(8), _MAIN),
    "sdk_32_threads": Case("SDK, 32 threads, 1 KB answer", 128, _sdk_threads(32), _MAIN),
    "sdk_1k_spans": Case("SDK, 1 KB answer, traces exported", 80, _sdk_traced, ("prometheus",)),
    "openai_1k": Case("SDK of OpenAI, 1 KB", 60, _openai, _MAIN),
    "httpx2_1k": Case("plain httpx2, 1 KB", 200, _plain("httpx2"), _MAIN),
    "httpx_1k": Case("plain httpx, 1 KB", 200, _plain("httpx"), _MAIN),
    "httpx2_async_1k": Case(f"plain httpx2, {_TOGETHER}, 1 KB", 256, _plain_async, _MAIN),
    "httpx2_other": Case("plain httpx2, not an LLM API", 200, _other, _MAIN, observed=False),
}
