"""What users write, for type checkers; it is never run. `test_typing` says what mypy makes of it."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any, assert_type

import lz_otel
import lz_otel.testing
from lz_otel import Status
from lz_otel._operation import Operation

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Coroutine, Iterator


def settings_by_keyword(port: int | None) -> None:
    """Every setting has a keyword with a type of its own; ``None`` means not given."""
    assert_type(lz_otel.instrument(), Status)
    lz_otel.instrument(
        exporters=["prometheus", "otlp"],
        trace_exporters="console",
        disabled=False,
        prometheus_host="0.0.0.0",
        prometheus_port=port,
        export_interval=60_000,
        export_timeout=500.5,
        mechanisms=("prompt_cache", "response_cache"),
        conventions="both",
        providers={"gateway.internal": "vllm"},
        response_cache_header="x-my-cache: HIT",
        signals=Path("signals.toml"),
        prices="prices.toml",
        miss_reasons=True,
        spans="off",
        http_spans="auto",
        call_log=True,
        audit_log=Path("audit.log"),
        audit_max_bytes=1_000_000,
        audit_backups=3,
        overhead_sample=0.5,
        max_series=100,
    )
    lz_otel.instrument(exporters="none", mechanisms="auto", registry=None)
    lz_otel.uninstrument(timeout=1.0)


def state() -> None:
    """What is in place has types too."""
    assert_type(lz_otel.status().prometheus_port, int | None)
    assert_type(lz_otel.instrument_client(object()), int)


def in_tests() -> None:
    """A capture takes the same settings."""
    with lz_otel.testing.capture(strict=True, mechanisms="none", max_series=5) as seen:
        assert_type(seen.value("lz.attempts", status="200"), float)


def in_a_block() -> None:
    """An operation binds itself, and what the block says is an operation's."""
    with lz_otel.operation("route", session="s", group="B") as op:
        assert_type(op, Operation)
        op.reject("schema_invalid")
        with op.attach() as attached:
            assert_type(attached, Operation)
    lz_otel.record_quality(0.9, metric="f1", group="B")
    lz_otel.record_response_cache(hit=True, model="m")


async def in_an_async_block() -> None:
    """The same with ``async with``."""
    async with lz_otel.operation("route") as op:
        assert_type(op, Operation)


@lz_otel.operation("sync")
def plain(text: str, *, limit: int = 3) -> list[str]:
    """A function keeps its signature."""
    return [text] * limit


@lz_otel.operation("async")
async def asynchronous(text: str) -> int:
    """So does a coroutine function."""
    return len(text)


class Service:
    """A service whose methods are operations."""

    @lz_otel.operation("method")
    def answer(self, question: str) -> str:
        """A method is bound as ever."""
        return question


@lz_otel.operation("generator")
def generator(n: int) -> Iterator[int]:
    """A generator function gives its values as ever."""
    yield from range(n)


@lz_otel.operation("asynchronous generator")
async def async_generator(n: int) -> AsyncIterator[int]:
    """So does an asynchronous one."""
    for i in range(n):
        yield i


async def decorated() -> None:
    """What a decorated function gives is what it gave before."""
    assert_type(plain("x", limit=1), list[str])
    assert_type(await asynchronous("x"), int)
    assert_type(Service().answer("?"), str)
    call: Callable[[str], Coroutine[Any, Any, int]] = asynchronous
    assert_type(await call("x"), int)
    assert_type(next(generator(1)), int)
    async for i in async_generator(1):
        assert_type(i, int)
