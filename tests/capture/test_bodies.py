"""Properties of the boundary to the host: same bytes, same exceptions, one ending, any chunking."""

from __future__ import annotations

import asyncio
import gzip
import zlib
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import lz_otel
from lz_otel.testing import capture
from tests.wire_doubles import A_JSON, a_full, module_of, o_full, transport

QUIET = settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])
BODY = {
    "model": "claude-opus-5",
    "max_tokens": 10,
    "stream": True,
    "messages": [{"role": "user", "content": "x"}],
}
URLS = {
    "anthropic": "https://api.anthropic.com/v1/messages",
    "openai": "https://api.openai.com/v1/chat/completions",
}
STREAMS = {"anthropic": b"".join(a_full()), "openai": b"".join(o_full())}
NOT_TIMED = ("_seconds", "_per_second", "lz_build_info", "lz_internal_overhead")
ENCODERS: dict[str, Any] = {
    "identity": lambda b: b,
    "gzip": gzip.compress,
    "deflate": zlib.compress,
    "raw deflate": lambda b: zlib.compress(b, wbits=-15),
}


def cut(data: bytes, at: list[int]) -> list[bytes]:
    """Cut bytes at these places (any numbers)."""
    places = sorted({p % (len(data) + 1) for p in at})
    return [data[a:b] for a, b in zip([0, *places], [*places, len(data)], strict=True) if a < b]


def figures(seen: Any) -> dict[str, Any]:
    """Everything but times."""
    out: dict[str, Any] = {}
    for series in seen.store.snapshot():
        name = series.metric.prometheus
        if name.endswith(NOT_TIMED):
            out[name] = {k: v.count for k, v in series.points if hasattr(v, "count")}
        else:
            out[name] = {k: getattr(v, "sum", v) for k, v in series.points if v != 0}
    out.pop("gen_ai_client_inference_time_per_output_chunk_seconds", None)  # pieces are what it counts
    out.pop("lz_call_output_rate_per_second", None)  # there if the call took long enough
    return out


def one_call(module: Any, api: str, pieces: list[Any], headers: dict[str, str], asynchronous: bool) -> Any:
    """One streamed call read to its end; the raw pieces, or the exception."""
    url = URLS[api]

    def answer(request: Any) -> Any:
        return 200, headers, list(pieces)

    async def run_async() -> Any:
        async with module.AsyncClient(transport=transport(module, answer)) as client:
            lz_otel.instrument_client(client)
            async with client.stream("POST", url, json=BODY) as response:
                return [piece async for piece in response.aiter_raw()]

    try:
        if asynchronous:
            return asyncio.run(run_async())
        with module.Client(transport=transport(module, answer)) as client:
            lz_otel.instrument_client(client)
            with client.stream("POST", url, json=BODY) as response:
                return list(response.iter_raw())
    except Exception as error:
        return repr(error)


@QUIET
@given(
    st.sampled_from(sorted(URLS)),
    st.lists(st.integers(0, 10_000), max_size=40),
    st.sampled_from(["httpx", "httpx2"]),
    st.booleans(),
    st.sampled_from(sorted(ENCODERS)),
)
def test_any_chunking_gives_the_same_numbers(
    api: str, places: list[int], name: str, asynchronous: bool, encoding: str
) -> None:
    """Chunking, world, module and encoding change neither what the host gets nor what is counted."""
    module = module_of(name)
    wire = ENCODERS[encoding](STREAMS[api])
    headers = {"content-type": "text/event-stream", "content-encoding": encoding.rpartition(" ")[2]}
    pieces = cut(wire, places)
    with capture(strict=True, overhead_sample=0.0) as seen:
        assert one_call(module, api, pieces, headers, asynchronous) == pieces
        found = figures(seen)
    with capture(strict=True, overhead_sample=0.0) as seen:
        one_call(module_of("httpx2"), api, [STREAMS[api]], {"content-type": "text/event-stream"}, False)
        assert found == figures(seen)


@QUIET
@given(
    st.sampled_from(sorted(URLS)),
    st.binary(max_size=300),
    st.integers(0, 2000),
    st.sampled_from(["text/event-stream", "application/json", "application/x-ndjson", "text/html", ""]),
    st.sampled_from(["", "gzip", "br", "zstd", "deflate", "nonsense"]),
    st.booleans(),
    st.sampled_from([None, "ReadTimeout", "RemoteProtocolError"]),
)
def test_whatever_arrives_reaches_the_host(
    api: str, junk: bytes, at: int, kind: str, encoding: str, asynchronous: bool, error: str | None
) -> None:
    """Junk in bodies and headers: same bytes, same exception, exactly one call, nothing left active."""
    module = module_of("httpx2")
    stream = STREAMS[api]
    at %= len(stream)
    pieces: list[Any] = [stream[:at], junk, stream[at:]]
    if error:
        pieces.append(getattr(module, error)("mine"))
    headers = {k: v for k, v in (("content-type", kind), ("content-encoding", encoding)) if v}
    bare = one_call(module, api, pieces, headers, asynchronous)
    with capture(strict=True) as seen:
        assert one_call(module, api, pieces, headers, asynchronous) == bare
        assert seen.value("gen_ai.client.inference.duration") == 1
        assert seen.value("lz.call.active") == 0
        assert seen.value("lz.internal.errors") == 0


@QUIET
@given(st.lists(st.integers(0, 600), max_size=20), st.booleans())
def test_plain_bodies_in_any_pieces(places: list[int], asynchronous: bool) -> None:
    """A plain body that comes in pieces is one whole."""
    import json

    module = module_of("httpx2")
    wire = json.dumps(A_JSON).encode()
    with capture(strict=True) as seen:
        pieces = cut(wire, places)
        assert (
            one_call(module, "anthropic", pieces, {"content-type": "application/json"}, asynchronous)
            == pieces
        )
        assert seen.value("gen_ai.client.inference.usage.input_tokens") == 2104
        assert seen.value("gen_ai.client.inference.duration", lz_ending="ok") == 1


@pytest.mark.parametrize("fault", [RuntimeError, MemoryError, RecursionError])
def test_faults_of_ours_stay_ours(fault: type[Exception], monkeypatch: pytest.MonkeyPatch) -> None:
    """Each entry point of the pipeline fails in turn: the host gets the same, and the fault is counted."""
    from lz_otel import _intake, _later
    from lz_otel._capture import attempt
    from lz_otel._measure import rules

    def broken(*_: Any, **__: Any) -> Any:
        raise fault("ours")

    points = [
        (_intake.Intake, "begin"),
        (_intake.Intake, "attempt_ended"),
        (attempt.Attempt, "head"),
        (attempt.Attempt, "_along"),
        (attempt.Attempt, "end"),
        (attempt.Attempt, "close"),
        (_later.Later, "_open"),
        (_later.Later, "attempt"),
        (_later.Later, "call"),
        (rules, "call"),
    ]
    module = module_of("httpx2")
    headers = {"content-type": "text/event-stream"}
    for owner, name in points:
        with monkeypatch.context() as patch:
            patch.setattr(owner, name, broken)
            with capture() as seen:
                for asynchronous in (False, True):
                    got = one_call(module, "anthropic", a_full(), headers, asynchronous)
                    assert got == a_full(), name
                seen.store.snapshot()
            assert seen.value("lz.internal.errors") > 0, name
