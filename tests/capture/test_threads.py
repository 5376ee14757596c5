"""Operations in the threads of pools."""

from __future__ import annotations

import asyncio
import contextvars
import inspect
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

import httpx
import httpx2
import pytest

import lz_otel
from lz_otel.testing import Capture, capture
from tests.loopback import Reply, serving
from tests.wire_doubles import O_JSON

if TYPE_CHECKING:
    from collections.abc import Iterator

ASK = {"model": "gpt-5", "messages": [{"role": "user", "content": "x"}]}
SUBMIT = ThreadPoolExecutor.submit.__code__


@pytest.fixture
def seen() -> Iterator[Capture]:
    with capture(strict=True) as found:
        yield found


@pytest.fixture
def url() -> Iterator[str]:
    with serving(lambda _: Reply(O_JSON)) as address:
        yield address + "/v1/chat/completions"


def routes(seen: Capture) -> dict[str, int]:
    """Calls by route."""
    found: dict[str, int] = {}
    for labels, value in seen.points("gen_ai.client.inference.duration").items():
        found[labels[3]] = found.get(labels[3], 0) + value.count
    return found


def operations(seen: Capture) -> dict[tuple[str, str], float]:
    """Calls in operations, by route and outcome."""
    return {(labels[0], labels[2]): value.sum for labels, value in seen.points("lz.operation.calls").items()}


@pytest.mark.parametrize("module", [httpx, httpx2], ids=["httpx", "httpx2"])
def test_a_pools_calls_belong_to_the_operation(module: Any, seen: Capture, url: str) -> None:
    """By ``map``, by ``submit``, with a pool made before, and by ``run_in_executor``."""

    def ask(_: object = None) -> int:
        status: int = module.post(url, json=ASK, trust_env=False).status_code
        return status

    async def fan_out() -> None:
        with lz_otel.operation("async"):
            loop = asyncio.get_running_loop()
            await asyncio.gather(*(loop.run_in_executor(None, ask) for _ in range(3)))

    with ThreadPoolExecutor(4) as pool:
        with lz_otel.operation("map"):
            assert [200] * 6 == list(pool.map(ask, range(6)))
        with lz_otel.operation("submit"):
            assert 200 == pool.submit(ask).result()
        assert 200 == pool.submit(ask).result()
    asyncio.run(fan_out())
    assert {"map": 6, "submit": 1, "": 1, "async": 3} == routes(seen)
    wanted = {("map", "full"): 6, ("submit", "full"): 1, ("async", "full"): 3}
    assert wanted == operations(seen)


def test_other_threads_take_it_along_by_hand(seen: Capture, url: str) -> None:
    """``attach`` and ``copy_context`` do for pools of other kinds; without them the operation is empty."""
    from multiprocessing.pool import ThreadPool

    def ask(_: object = None) -> None:
        httpx2.post(url, json=ASK, trust_env=False)

    def attached(operation: Any) -> None:
        with operation.attach():
            ask()

    with ThreadPool(1) as pool:
        with lz_otel.operation("attach") as operation:
            pool.apply(attached, (operation,))
        with lz_otel.operation("copied"):
            pool.apply(contextvars.copy_context().run, (ask,))
        with lz_otel.operation("none"):
            pool.apply(ask)
    assert {("attach", "full"): 1, ("copied", "full"): 1, ("none", "empty"): 0} == operations(seen)


def test_what_is_submitted_stays_the_hosts(seen: Capture) -> None:
    """Arguments, results and exceptions go through, a thread is left as it was, and nothing stays hooked."""

    def fail(*args: object, **options: object) -> None:
        raise KeyError(args, options)

    with ThreadPoolExecutor(1) as pool:
        with lz_otel.operation("mine"):
            error = pool.submit(fail, 1, fn=2).exception()
            assert isinstance(error, KeyError)
            assert ((1,), {"fn": 2}) == error.args
        from lz_otel._capture.call import current_operation

        assert pool.submit(current_operation.get).result() is None
    assert ["self", "fn", "args", "kwargs"] == list(inspect.signature(ThreadPoolExecutor.submit).parameters)
    lz_otel.uninstrument()
    assert SUBMIT is ThreadPoolExecutor.submit.__code__


def test_a_stream_left_after_its_block_is_no_error(seen: Capture, url: str) -> None:
    """The application has read as much as it wanted, in its block or behind it."""
    with httpx2.Client(trust_env=False) as client:
        with lz_otel.operation("later"):
            request = client.build_request("POST", url, json=ASK)
            response = client.send(request, stream=True)
        response.close()
    assert {("later", "full"): 1} == operations(seen)
    assert {"abandoned"} == {labels[10] for labels in seen.points("gen_ai.client.inference.duration")}
