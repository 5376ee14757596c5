"""The application of the demo: it makes the planned calls through the official SDKs.

It is an application as any other: it knows `lz_otel.operation` and `record_quality`, and nothing
of the simulator beyond its address.
"""

from __future__ import annotations

import asyncio
import importlib
import json
import logging
from collections import Counter
from contextlib import contextmanager, suppress
from time import monotonic
from typing import TYPE_CHECKING, Any

import lz_otel
from lz_otel.errors import MissingDependencyError
from lz_otel.lab.demo._loopback import without_proxy

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from lz_otel.lab.simulator.traffic import Planned

FAST_LIMIT = 0.3  # seconds; article 000 (A)
STANDARD_REGION = "us-west-2"  # only us-east-1 has the fast path (A)
IN_FLIGHT = 256


class Driver:
    """Makes calls at a steady rate.

    Args:
        url: base address of the API.
        rate: operations begun per second; 0 for as fast as ``in_flight`` allows.
        in_flight: most operations at a time.
        fast_limit: seconds that the fast attempt of a hedged pair may take.

    Attributes:
        counts: what the application itself knows: ``operations``, ``failed``, ``hedges``, ``rejected`` ...
        given_up: names of the calls that it cancelled.
        stood_in: names of the hedged attempts that were answered while the other was given up.
        rejected: names of the calls whose answer was not good enough.
        stopped: whether `stop` was called.
    """

    def __init__(
        self, url: str, rate: float, in_flight: int = IN_FLIGHT, fast_limit: float = FAST_LIMIT
    ) -> None:
        try:
            import anthropic
            import openai
        except ImportError as error:
            raise MissingDependencyError(error.name or "anthropic", "demo", "the demo") from None
        self._rate = rate
        self._gate = asyncio.Semaphore(in_flight)
        self._fast_limit = fast_limit
        # What breaks inside a stream is the transport's error, what breaks inside JSON a ValueError: no
        # SDK wraps those.
        vendors = (anthropic.AnthropicError, openai.OpenAIError)
        self._errors: tuple[type[BaseException], ...] = (
            *vendors,
            *_transport_errors(),
            TimeoutError,
            ValueError,
        )
        self.counts: Counter[str] = Counter()
        self.given_up: set[str] = set()
        self.stood_in: set[str] = set()
        self.rejected: set[str] = set()
        self._hedged: dict[str, str] = {}  # hedged call: name of the attempt that won
        self.stopped = False
        self._done: dict[int, asyncio.Event] = {}
        # The demo's answers are of a simulator: no key is sent anywhere.
        with without_proxy():
            self.anthropic = anthropic.AsyncAnthropic(api_key="demo", base_url=url)
            self.openai = openai.AsyncOpenAI(api_key="demo", base_url=f"{url}/v1")
        # Loaded now: the SDKs load these when first used, and calls in progress would wait for it
        _ = self.anthropic.messages, self.openai.chat.completions
        _ = self.openai.responses, self.openai.embeddings
        for name in ("httpx", "httpx2", "anthropic", "openai"):
            logging.getLogger(name).setLevel(logging.ERROR)

    def stop(self) -> None:
        """Begin no more calls; `run` returns when those in progress have ended."""
        self.stopped = True

    async def run(self, plan: Iterable[Planned], seconds: float | None = None) -> None:
        """Make the calls, for so many seconds or to the end of the plan, and wait for the last to end."""
        start = monotonic()
        before = self.counts["operations"]
        tasks: set[asyncio.Task[None]] = set()
        try:
            for planned in plan:
                if self.stopped or (seconds is not None and monotonic() - start >= seconds):
                    break
                if self._rate:
                    due = start + (self.counts["operations"] - before) / self._rate
                    await asyncio.sleep(max(0.0, due - monotonic()))
                await self._gate.acquire()
                self.counts["operations"] += 1
                self._done[planned.number] = asyncio.Event()
                task = asyncio.create_task(self._operation(planned))
                tasks.add(task)
                task.add_done_callback(tasks.discard)
            await asyncio.gather(*tasks)
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    async def close(self) -> None:
        """Close the clients' connections."""
        with suppress(Exception):
            await self.anthropic.close()
            await self.openai.close()

    async def _operation(self, planned: Planned) -> None:
        try:
            for number in planned.after:
                if number in self._done:
                    await self._done[number].wait()
            async with lz_otel.operation(
                planned.route, session=planned.session or None, group=planned.group or None
            ) as operation:
                await self._answer(planned, operation)
                if planned.quality is not None:
                    lz_otel.record_quality(planned.quality, metric=planned.quality_metric)
                    self.counts["scores"] += 1
        except self._errors:
            self.counts["failed"] += 1
        finally:
            self._hedged.pop(planned.call, None)
            self._done[planned.number].set()
            self._done.pop(planned.number - 10_000, None)
            self._gate.release()

    async def _answer(self, planned: Planned, operation: Any) -> None:
        if planned.count_kwargs is not None:
            await self.anthropic.messages.count_tokens(**planned.count_kwargs)
        if planned.api != "messages":
            await self._openai(planned)
            return
        if planned.hedge and not planned.stream:
            message = await self._hedge(planned)
        else:
            message = await self._message(planned.kwargs)
        if planned.schema and not _is_object(message):
            self.counts["rejected"] += 1
            self.rejected.add(self._hedged.pop(planned.call, planned.call))
            operation.reject("schema_invalid")
            await self._message(_named(planned.kwargs, "-again"))

    async def _message(self, kwargs: dict[str, Any]) -> str:
        """Make one call of the Messages API, read to its end, and return its text."""
        with self._noted(kwargs):
            answer = await self.anthropic.messages.create(**kwargs)
            if not kwargs.get("stream"):
                return "".join(block.text for block in answer.content if block.type == "text")
            async with answer as events:
                deltas = [event.delta async for event in events if event.type == "content_block_delta"]
            return "".join(getattr(delta, "text", "") for delta in deltas)

    @contextmanager
    def _noted(self, kwargs: dict[str, Any]) -> Iterator[None]:
        """Note the name of a call that is cancelled."""
        try:
            yield
        except asyncio.CancelledError:
            self.given_up.add(kwargs["extra_headers"]["x-sim-call"])
            raise

    async def _hedge(self, planned: Planned) -> str:
        """Make a fast attempt with a limit beside a standard one (article 000); the first answer counts."""
        self.counts["hedges"] += 1
        elsewhere = {"anthropic-region": STANDARD_REGION}
        fast_work = asyncio.wait_for(self._message(_named(planned.kwargs, "-fast")), self._fast_limit)
        standard_work = self._message(_named(planned.kwargs, "-standard", elsewhere))
        fast = asyncio.create_task(fast_work, name=f"{planned.call}-fast")
        standard = asyncio.create_task(standard_work, name=f"{planned.call}-standard")
        waiting: set[asyncio.Task[Any]] = {fast, standard}
        error: BaseException | None = None
        winner: asyncio.Task[Any] | None = None
        try:
            while waiting and winner is None:
                done, waiting = await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
                for task in done:
                    error = task.exception()
                    if error is None:
                        winner = task
        finally:
            for task in waiting:
                task.cancel()
            await asyncio.gather(fast, standard, return_exceptions=True)
        if winner is None:
            raise error or asyncio.CancelledError
        if not standard.cancelled() and standard.exception() is None:
            winner = standard  # where both have answered in the same moment, the standard answer is taken
        # One was given up, for the fast one's limit or because the other was there first; it may have failed
        # by itself, too
        loser = fast if winner is standard else standard
        if loser.cancelled() or isinstance(loser.exception(), TimeoutError):
            self.stood_in.add(winner.get_name())
        self._hedged[planned.call] = winner.get_name()
        text: str = winner.result()
        return text

    async def _openai(self, planned: Planned) -> None:
        """Make one call of the OpenAI API, read to its end."""
        sdk = self.openai
        resources = {"chat": sdk.chat.completions, "responses": sdk.responses, "embeddings": sdk.embeddings}
        resource: Any = resources[planned.api]
        with self._noted(planned.kwargs):
            answer = await resource.create(**planned.kwargs)
            if planned.stream:
                async with answer as events:
                    async for _ in events:
                        pass


def _transport_errors() -> list[type[BaseException]]:
    found = []
    for name in ("httpx", "httpx2"):
        with suppress(ImportError):
            found.append(importlib.import_module(name).HTTPError)
    return found


def _named(kwargs: dict[str, Any], suffix: str, more: dict[str, str] | None = None) -> dict[str, Any]:
    headers = {**(kwargs.get("extra_headers") or {}), **(more or {})}
    headers["x-sim-call"] = headers.get("x-sim-call", "") + suffix
    return {**kwargs, "extra_headers": headers}


def _is_object(text: str) -> bool:
    try:
        return isinstance(json.loads(text), dict)
    except ValueError:
        return False
