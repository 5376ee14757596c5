"""Operations: routes, outcomes, fallbacks between models, hedges, rejected answers."""

from __future__ import annotations

import asyncio
import contextlib
import contextvars
import inspect
import threading
from typing import TYPE_CHECKING, Any

import httpx2
import pytest

import lz_otel
from lz_otel._capture.call import current_operation
from lz_otel.testing import Capture, capture
from tests.wire_doubles import A_JSON, a_full, transport

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, AsyncIterator, Iterator

ASK: dict[str, Any] = {"max_tokens": 10, "messages": [{"role": "user", "content": "x"}]}
URL = "https://api.anthropic.com/v1/messages"
ZERO = {"x-anthropic-layer": "zero", "x-anthropic-zero-latency": "20"}


def answer(request: Any) -> Any:
    """opus is overloaded; haiku answers; a model named zero is served by the symbolic engine."""
    import json

    model = json.loads(request.content)["model"]
    if "opus" in model:
        body = {"type": "error", "error": {"type": "overloaded_error", "message": "no"}}
        return httpx2.Response(529, json=body)
    if "slow" in model:
        return 200, {"content-type": "application/json"}, [5.0, b"{}"]
    if "zero" in model:
        return httpx2.Response(200, headers=ZERO, json={**A_JSON, "model": model})
    return httpx2.Response(200, json={**A_JSON, "model": model})


def client() -> httpx2.Client:
    """A client on the double."""
    made = httpx2.Client(transport=transport(httpx2, answer))
    lz_otel.instrument_client(made)
    return made


def ask(http: Any, model: str) -> Any:
    """One call."""
    return http.post(URL, json={**ASK, "model": model})


def outcomes(seen: Capture) -> dict[tuple[str, str], int]:
    """Operations by route and outcome."""
    return {(k[0], k[2]): v.count for k, v in seen.points("lz.operation.duration").items()}


def test_route_and_group_are_labels() -> None:
    """Calls inside an operation carry its name and group, also in nested ones, and not after it."""
    with capture(strict=True) as seen:
        http = client()
        with lz_otel.operation("outer", group="B"):
            ask(http, "claude-haiku-5")
            with lz_otel.operation("inner"):
                ask(http, "claude-haiku-5")
        ask(http, "claude-haiku-5")
        found = {k[3:5]: v.count for k, v in seen.points("gen_ai.client.inference.duration").items()}
        assert found == {("outer", "B"): 1, ("inner", "B"): 1, ("", ""): 1}
        assert outcomes(seen) == {("outer", "full"): 1, ("inner", "full"): 1}
        assert seen.histogram("lz.operation.calls", lz_route="outer").sum == 2


def test_another_model_steps_in() -> None:
    """A call to another model after one failed is a fallback, counted once, with why."""
    with capture(strict=True) as seen:
        http = client()
        with lz_otel.operation("chain"):
            ask(http, "claude-opus-5")
            ask(http, "claude-haiku-5")
        assert seen.points("lz.operation.fallbacks") == {
            ("chain", "", "claude-opus-5", "claude-haiku-5", "overloaded"): 1.0
        }
        assert outcomes(seen) == {("chain", "fallback"): 1}
        ask(http, "claude-opus-5")
        ask(http, "claude-haiku-5")
        assert seen.value("lz.operation.fallbacks") == 1  # nothing is guessed outside an operation


def test_all_fail() -> None:
    """An operation none of whose calls answered is an error."""
    with capture(strict=True) as seen:
        http = client()
        with lz_otel.operation("chain"):
            ask(http, "claude-opus-5")
            ask(http, "claude-opus-4-8")
        assert outcomes(seen) == {("chain", "error"): 1}


def test_exception_is_an_error_and_passes() -> None:
    """The application's own exception ends the operation as an error and is not touched."""
    mine = RuntimeError("mine")
    with capture(strict=True) as seen:
        with pytest.raises(RuntimeError) as caught, lz_otel.operation("x"):
            raise mine
        assert caught.value is mine
        assert outcomes(seen) == {("x", "error"): 1}


def test_rejected_fast_answer_is_a_fallback() -> None:
    """A fast answer that the application rejects counts as a fallback of the mechanism that gave it."""
    with capture(strict=True) as seen:
        http = client()
        with lz_otel.operation("classify") as op:
            ask(http, "claude-zero")
            op.reject("schema_invalid")
            op.reject("schema_invalid")  # said twice, counted once
            ask(http, "claude-haiku-5")
        found = {k[5:]: v for k, v in seen.points("lz.fast_path.fallbacks").items()}
        assert found == {("symbolic", "schema_invalid"): 1.0}
        assert outcomes(seen) == {("classify", "fallback"): 1}
        with lz_otel.operation("classify"):
            ask(http, "claude-zero")
        assert outcomes(seen)["classify", "fast"] == 1


@pytest.mark.parametrize("limit", [True, False])
def test_lost_hedge_is_no_error(limit: bool) -> None:
    """A fast attempt beside a standard one: the cancelled loser is no error, and has its own reason."""

    async def run() -> None:
        http = httpx2.AsyncClient(transport=transport(httpx2, answer))
        lz_otel.instrument_client(http)
        await ask(http, "claude-zero")  # wakes the mechanism
        async with lz_otel.operation("hedged"):
            fast = asyncio.create_task(http.post(URL, json={**ASK, "model": "slow"}))
            if limit:
                await asyncio.sleep(0.02)
                fast.cancel()
                await asyncio.gather(fast, return_exceptions=True)
            standard = asyncio.create_task(http.post(URL, json={**ASK, "model": "claude-haiku-5"}))
            await standard
            fast.cancel()
            await asyncio.gather(fast, return_exceptions=True)

    async def overlapping() -> None:
        http = httpx2.AsyncClient(transport=transport(httpx2, answer))
        lz_otel.instrument_client(http)
        await ask(http, "claude-zero")
        async with lz_otel.operation("hedged"):
            fast = asyncio.create_task(http.post(URL, json={**ASK, "model": "slow"}))
            await asyncio.sleep(0.01)
            await http.post(URL, json={**ASK, "model": "claude-haiku-5"})
            fast.cancel()
            await asyncio.gather(fast, return_exceptions=True)

    with capture(strict=True) as seen:
        asyncio.run(run() if limit else overlapping())
        endings = {k[-1]: v.count for k, v in seen.points("gen_ai.client.inference.duration").items()}
        assert endings["cancelled"] == 1
        assert "error" not in endings
        reasons = {k[6]: v for k, v in seen.points("lz.fast_path.fallbacks").items()}
        # One that was given up before the other began is no hedge
        assert reasons == ({} if limit else {"hedge_lost": 1.0})


def test_decorator_and_threads() -> None:
    """As a decorator each run is an operation; ``attach`` carries one into a thread."""
    with capture(strict=True) as seen:
        http = client()

        @lz_otel.operation("decorated")
        def work(model: str) -> int:
            return int(ask(http, model).status_code)

        @lz_otel.operation("decorated")
        async def work_async() -> str:
            return "done"

        assert [work("claude-haiku-5"), work("claude-haiku-5")] == [200, 200]
        assert asyncio.run(work_async()) == "done"
        assert outcomes(seen) == {("decorated", "full"): 2, ("decorated", "empty"): 1}

        with lz_otel.operation("threaded") as op:

            def elsewhere() -> None:
                with op.attach():
                    ask(http, "claude-haiku-5")

            thread = threading.Thread(target=elsewhere)
            thread.start()
            thread.join()
        assert seen.histogram("lz.operation.calls", lz_route="threaded").sum == 1


def test_an_object_entered_again_is_another_operation() -> None:
    """One object, entered one after the other and within itself:
    each ``with`` is an operation with its own calls.
    """
    with capture(strict=True) as seen:
        http = client()
        one = lz_otel.operation("again")
        for _ in range(3):
            with one:
                ask(http, "claude-haiku-5")
        with one, one:
            ask(http, "claude-opus-5")
        assert outcomes(seen) == {("again", "full"): 3, ("again", "error"): 2}
        assert seen.histogram("lz.operation.calls").sum == 5
        assert one._entered == []


def test_a_late_call_belongs_to_the_operation_it_began_in() -> None:
    """A stream that outlives its ``with`` ends that operation, not the next one of the same object."""
    stream = 200, {"content-type": "text/event-stream"}, a_full()
    double = transport(httpx2, lambda request: stream if b"stream" in request.content else answer(request))
    with capture(strict=True) as seen, httpx2.Client(transport=double) as http:
        lz_otel.instrument_client(http)
        one = lz_otel.operation("again")
        asked = http.build_request("POST", URL, json={**ASK, "model": "claude-haiku-5", "stream": True})
        with one:
            response = http.send(asked, stream=True)
        with one:
            ask(http, "claude-opus-5")
        assert outcomes(seen) == {("again", "error"): 1}
        response.read()
        assert outcomes(seen) == {("again", "error"): 1, ("again", "full"): 1}


def test_one_object_in_many_tasks() -> None:
    """One object, open in ten tasks at once: ten operations with a call each, left in any order."""
    one = lz_otel.operation("shared")

    async def use(http: Any, number: int) -> None:
        async with one as mine:
            assert one.reject() is None  # nothing to reject, in nobody's operation
            await asyncio.sleep(0.001 * (number % 3))
            await http.post(URL, json={**ASK, "model": "claude-zero" if number else "claude-opus-5"})
            if number == 1:
                one.reject("schema_invalid")
            assert mine._calls == 1

    async def run() -> None:
        http = httpx2.AsyncClient(transport=transport(httpx2, answer))
        lz_otel.instrument_client(http)
        await http.post(URL, json={**ASK, "model": "claude-zero"})  # wakes the mechanism
        await asyncio.gather(*(use(http, number) for number in range(10)))

    with capture(strict=True) as seen:
        asyncio.run(run())
        assert outcomes(seen) == {("shared", "fast"): 8, ("shared", "error"): 2}
        assert seen.value("lz.fast_path.fallbacks") == 1
    assert one._entered == []


def test_attach_is_the_operation_entered_last() -> None:
    """In a thread the object stands for its latest operation, rejections included."""
    with capture(strict=True) as seen:
        http = client()
        one = lz_otel.operation("threaded")
        with one:
            ask(http, "claude-haiku-5")
        with one as mine:

            def elsewhere() -> None:
                with one.attach() as attached:
                    assert attached is mine
                    ask(http, "claude-haiku-5")
                one.reject()

            thread = threading.Thread(target=elsewhere)
            thread.start()
            thread.join()
        assert outcomes(seen) == {("threaded", "full"): 1, ("threaded", "error"): 1}


def test_left_without_being_entered() -> None:
    """``__exit__`` alone reports nothing and raises nothing."""
    with capture(strict=True) as seen:
        lz_otel.operation("x").__exit__(None, None, None)
        assert outcomes(seen) == {}


@pytest.mark.parametrize("how", ["with", "attach"])
def test_left_in_another_context(how: str) -> None:
    """An async generator that is closed in another context than it began in raises nothing of ours."""

    async def run() -> None:
        one = lz_otel.operation("generated")

        async def pieces() -> AsyncIterator[int]:
            with one if how == "with" else one.attach():
                yield 1

        begun = pieces()
        loop = asyncio.get_running_loop()
        await loop.create_task(begun.__anext__(), context=contextvars.copy_context())  # type: ignore[arg-type]  # an awaitable
        await begun.aclose()

    with capture(strict=True) as seen:
        asyncio.run(run())
        assert sum(outcomes(seen).values()) == (how == "with")


def test_a_decorated_generator_is_an_operation() -> None:
    """Its steps belong to the operation, and what its consumer does in between does not."""

    def post(http: Any) -> None:
        http.post(URL, json={**ASK, "model": "claude-haiku-5"})

    with capture(strict=True) as seen:
        http = httpx2.Client(transport=transport(httpx2, answer))
        lz_otel.instrument_client(http)

        @lz_otel.operation("steps")
        def steps() -> Iterator[str]:
            for name in ("a", "b"):
                post(http)
                yield name
            return "end"

        consumed = steps()
        assert "a" == next(consumed)
        post(http)  # the consumer's own
        assert "b" == next(consumed)
        with pytest.raises(StopIteration) as end:
            next(consumed)
        assert "end" == end.value.value
        assert outcomes(seen) == {("steps", "full"): 1}
        assert 2 == seen.value("lz.attempts", lz_route="steps")
        assert 1 == seen.value("lz.attempts", lz_route="")


def test_a_decorated_generator_gets_what_is_sent_and_thrown() -> None:
    """``send``, ``throw`` and ``close`` reach the function that was decorated;
    closing is no error, raising is.
    """
    got: list[Any] = []

    @lz_otel.operation("pipe")
    def pipe() -> Any:
        try:
            got.append((yield 1))
            yield 2
        except KeyError as error:
            got.append(type(error))
            yield 3
        finally:
            got.append("closed")

    with capture(strict=True) as seen:
        steps = pipe()
        assert [1, 2] == [next(steps), steps.send("sent")]
        assert 3 == steps.throw(KeyError())
        steps.close()
        assert ["sent", KeyError, "closed"] == got
        failing = pipe()
        next(failing)
        with pytest.raises(ZeroDivisionError):
            failing.throw(ZeroDivisionError())
        assert outcomes(seen) == {("pipe", "empty"): 1, ("pipe", "error"): 1}


def test_a_decorated_asynchronous_generator_is_an_operation() -> None:
    """As of a generator, with ``asend``, ``athrow`` and ``aclose``."""
    got: list[Any] = []

    @lz_otel.operation("apipe")
    async def apipe() -> AsyncIterator[int]:
        try:
            yield 1
            yield 2
        finally:
            got.append(current_operation.get())

    async def run() -> None:
        assert [1, 2] == [value async for value in apipe()]
        begun = apipe()
        assert 1 == await anext(begun)
        assert current_operation.get() is None
        await begun.aclose()  # type: ignore[attr-defined]
        failing = apipe()
        await anext(failing)
        with pytest.raises(ZeroDivisionError):
            await failing.athrow(ZeroDivisionError())  # type: ignore[attr-defined]

    with capture(strict=True) as seen:
        asyncio.run(run())
        assert {"apipe"} == {operation.name for operation in got[:2]}
        assert 2 <= sum(outcomes(seen).values())


def test_a_decorated_asynchronous_generator_gets_what_is_sent_and_thrown() -> None:
    """``asend``, ``athrow`` and ``aclose`` reach the function that was decorated."""
    got: list[Any] = []

    @lz_otel.operation("apipe")
    async def apipe() -> AsyncGenerator[int, str]:
        try:
            got.append((yield 1))
            yield 2
        except KeyError as error:
            got.append(type(error))
            yield 3
        finally:
            await asyncio.sleep(0)
            got.append("closed")

    async def run() -> None:
        steps = apipe()
        assert [1, 2, 3] == [await anext(steps), await steps.asend("sent"), await steps.athrow(KeyError())]
        await steps.aclose()
        assert ["sent", KeyError, "closed"] == got
        with pytest.raises(ZeroDivisionError):
            async with contextlib.asynccontextmanager(apipe)():
                raise ZeroDivisionError
        assert "closed" == got[-1]
        assert current_operation.get() is None

    assert inspect.isasyncgenfunction(apipe)
    with capture(strict=True) as seen:
        asyncio.run(run())
        assert outcomes(seen) == {("apipe", "empty"): 1, ("apipe", "error"): 1}


def test_many_at_once_are_not_mixed_up() -> None:
    """Ten operations in one loop, each falling back once."""

    async def one(http: Any) -> None:
        async with lz_otel.operation("many"):
            await http.post(URL, json={**ASK, "model": "claude-opus-5"})
            await asyncio.sleep(0)
            await http.post(URL, json={**ASK, "model": "claude-haiku-5"})

    async def run() -> None:
        http = httpx2.AsyncClient(transport=transport(httpx2, answer))
        lz_otel.instrument_client(http)
        await asyncio.gather(*(one(http) for _ in range(10)))

    with capture(strict=True) as seen:
        asyncio.run(run())
        assert seen.value("lz.operation.fallbacks") == 10
        assert outcomes(seen) == {("many", "fallback"): 10}


def test_quality_and_own_cache() -> None:
    """Scores go to the current route and group; bad ones are dropped; a cache hit is no call."""
    with capture(strict=True) as seen:
        with lz_otel.operation("r", group="pruned"):
            lz_otel.record_quality(0.97)
            lz_otel.record_quality(1.5)
            lz_otel.record_quality(float("nan"))
            lz_otel.record_response_cache(hit=True, model="claude-haiku-5", provider="anthropic")
        lz_otel.record_quality(0.5, metric="summary_f1", group="control", route="r")
        assert {k: v.count for k, v in seen.points("lz.quality").items()} == {
            ("r", "pruned", "quality"): 1,
            ("r", "control", "summary_f1"): 1,
        }
        assert outcomes(seen) == {("r", "fast"): 1}
        assert seen.value("lz.fast_path.calls", mechanism="response_cache", verdict="hit") == 1
        assert seen.value("gen_ai.client.inference.duration") == 0


def test_without_instrument_nothing_happens() -> None:
    """All functions for applications are no-ops before instrument()."""
    lz_otel.uninstrument()
    with lz_otel.operation("x", session="s", group="g") as op:
        op.reject("whatever")
        lz_otel.record_quality(0.5)
        lz_otel.record_response_cache(hit=True)
    assert lz_otel.instrument_client(object()) == 0
    assert lz_otel.status().enabled is False


def test_an_operation_whose_generator_is_closed_is_no_error() -> None:
    """A consumer that has read enough closes the generator: nothing has failed."""

    def answers() -> Iterator[int]:
        with lz_otel.operation("stream"):
            yield 1
            yield 2

    with capture(strict=True) as seen:
        generator = answers()
        next(generator)
        generator.close()
        assert {("stream", "empty"): 1} == outcomes(seen)
