"""Case 21: instrumenting again changes nothing, and taking it off leaves nothing."""

from __future__ import annotations

import importlib
import inspect
import json
import logging
import threading
from pathlib import Path
from typing import Any

import anthropic
import httpx
import httpx2
import openai
import pytest
from opentelemetry import metrics

import lz_otel
from lz_otel import testing
from tests.casebook.bodies import ASK, MESSAGES_URL, SSE
from tests.casebook.helpers import CALLS, claude, good, observed
from tests.processes import run
from tests.wire_doubles import A_JSON, a_full, transport

PROGRAMS = Path(__file__).parent / "programs"


def points() -> list[Any]:
    """Everything that the library hooks, and its code."""
    out: list[Any] = []
    for module in (httpx, httpx2):
        out += [
            module.HTTPTransport.__dict__["handle_request"],
            module.AsyncHTTPTransport.__dict__["handle_async_request"],
            module.Client.__dict__["send"],
            module.AsyncClient.__dict__["send"],
        ]
    for sdk in (anthropic, openai):
        base = sdk._base_client
        out += [
            base.SyncAPIClient.__dict__["request"],
            base.AsyncAPIClient.__dict__["request"],
            base.SyncAPIClient.__dict__.get("_request"),
            base.AsyncAPIClient.__dict__.get("_request"),
        ]
    return out + [getattr(point, "__code__", None) for point in out]


def same(a: list[Any], b: list[Any]) -> bool:
    return all(x is y for x, y in zip(a, b, strict=True))


@pytest.mark.parametrize("threads", [1, 10])
def test_21_again_is_quiet_and_counts_once(threads: int, caplog: pytest.LogCaptureFixture) -> None:
    """(a), (b): a second instrument(), or nine more at once:
    one sample per call, and at most a debug line each.
    """
    caplog.set_level(logging.DEBUG, logger="lz_otel")
    with observed() as found:
        caplog.clear()
        barrier = threading.Barrier(threads, timeout=10)

        def again() -> None:
            barrier.wait()
            lz_otel.instrument()

        workers = [threading.Thread(target=again) for _ in range(threads)]
        for worker in workers:
            worker.start()
        for worker in workers:
            worker.join()
        assert [logging.DEBUG] * threads == [r.levelno for r in caplog.records if r.name == "lz_otel"]
        claude(good).messages.create(**ASK)
        assert 1 == found.calls().count


def test_21_many_at_once_from_nothing() -> None:
    """Ten threads that instrument a bare process put in one set of hooks."""
    lz_otel.uninstrument()
    workers = [threading.Thread(target=lz_otel.instrument, kwargs={"exporters": "none"}) for _ in range(10)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    claude(good).messages.create(**ASK)
    runtime = lz_otel._runtime.current()
    assert runtime is not None
    assert 1 == testing.Capture(runtime.store).value(CALLS)


def test_21_clients_made_before_count_too() -> None:
    """(c): a client made before and one made after: two samples."""
    before = claude(good)
    with observed() as found:
        before.messages.create(**ASK)
        claude(good).messages.create(**ASK)
        assert 2 == found.calls().count


def test_21_off_and_on_again() -> None:
    """(d): a call while it is off is not seen; what was hooked is the original object again."""
    bare = points()
    client = claude(good)
    with observed():
        client.messages.create(**ASK)
        assert not same(bare, points())
    assert same(bare, points())
    assert "handle_request" not in vars(client._client._transport)
    client.messages.create(**ASK)
    with observed() as found:
        client.messages.create(**ASK)
        assert 1 == found.calls().count
    assert same(bare, points())


def test_21_a_reload_of_the_package() -> None:
    """(e): importlib.reload and instrument() again: one sample per call."""
    with observed() as found:
        importlib.reload(lz_otel)
        lz_otel.instrument()
        claude(good).messages.create(**ASK)
        assert 1 == found.calls().count


def test_21_overrides_and_hooks_still_run() -> None:
    """(f): a subclass that overrides ``send``, a transport of one's own and event hooks:
    once each, in order.
    """

    def run() -> list[str]:
        order: list[str] = []

        class Mine(httpx2.Client):
            def send(self, request: Any, **options: Any) -> Any:
                order.append("send")
                return super().send(request, **options)

        class Custom(httpx2.BaseTransport):
            def handle_request(self, request: Any) -> Any:
                order.append("transport")
                return httpx2.Response(200, json=A_JSON)

        hooks = {
            "request": [lambda r: order.append("request")],
            "response": [lambda r: order.append("response")],
        }
        http = Mine(transport=Custom(), event_hooks=hooks)
        claude(None, http_client=http).messages.create(**ASK)
        assert type(http._transport) is Custom
        return order

    bare = run()
    with observed() as found:
        assert bare == run()
        assert 1 == found.calls().count


def test_21_the_hundredth_call_is_as_deep_as_the_first() -> None:
    """(g): 100 calls of one client are 100 samples, at the same depth of the stack."""
    depths = []

    def answer(request: Any) -> Any:
        depths.append(len(inspect.stack(0)))
        return 200, SSE, a_full()

    with observed() as found:
        client = claude(answer)
        for _ in range(100):
            lz_otel.instrument()
            lz_otel.instrument_client(client)
            list(client.messages.create(**ASK, stream=True))
        assert 100 == found.calls().count
    assert 1 == len(set(depths))


def test_21_before_the_sdks_are_imported() -> None:
    """(h): instrument() first, then the SDKs: observed; nothing is imported that the host does not import."""
    done = run(PROGRAMS / "sdks_afterwards.py", json.dumps(A_JSON), silent=True)
    assert ["lz_otel lz_otel: observing httpx2 (and others when they are imported); metrics to nowhere"] == [
        line for line in done.stdout.splitlines() if line.startswith("lz_otel")
    ]


def test_21_with_neither_sdk_installed() -> None:
    """(h): instrument() returns normally and says in one line what it hooked."""
    done = run(PROGRAMS / "neither_sdk.py", silent=True)
    assert 1 == len([line for line in done.stdout.splitlines() if line.startswith("lz_otel")])


def test_21_the_hosts_meter_provider_stays() -> None:
    """No MeterProvider is set, and one of the host's is not replaced."""
    before = metrics.get_meter_provider()
    with observed():
        assert metrics.get_meter_provider() is before
        lz_otel.instrument()
    assert metrics.get_meter_provider() is before


def test_21_a_plain_client_counts_once_however_often_it_is_told() -> None:
    """instrument_client() twice is once."""
    with observed() as found:
        http = httpx2.Client(transport=transport(httpx2, good))
        assert [1, 0] == [lz_otel.instrument_client(http) for _ in range(2)]
        http.post(MESSAGES_URL, json=ASK)
        assert 1 == found.calls().count
