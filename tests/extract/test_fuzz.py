"""Bodies that strangers break: nothing raised, nothing invented, the same facts in any chunking."""

from __future__ import annotations

import os
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from lz_otel._extract.values import MAX_COUNT
from lz_otel.catalogue import MALFORMED
from lz_otel.model import Facts
from tests.extract import corpus, samples
from tests.extract.test_framing import split

EXAMPLES = int(os.environ.get("LZ_FUZZ_EXAMPLES", "2000"))
TIMES = {
    "first_content_at",
    "last_content_at",
    "first_visible_at",
    "chunk_gaps",
    "text_sink",
    "mask_sink",
    "request_fields",
}
NAMES = [name for name in dir(Facts("", "", inference=True, llm_call=True)) if not name.startswith("_")]
COUNTS = [name for name in NAMES if name.endswith("_tokens")]
SIGNALS = next(attribute.values for attribute in MALFORMED.attributes if attribute.name == "signal")


def said(facts: Facts) -> dict[str, Any]:
    """What must not depend on the chunking."""
    return {name: getattr(facts, name) for name in Facts.__struct_fields__ if name not in TIMES}


def sane(facts: Facts) -> None:
    """What holds for any body."""
    for name in COUNTS:
        value = getattr(facts, name)
        assert value is None or (type(value) is int and 0 <= value <= 2 * MAX_COUNT), name
    for name in ("request_model", "response_model", "service_tier", "error_type", "cache_diagnosis", "speed"):
        value = getattr(facts, name)
        assert value is None or (0 < len(value) <= 128 and value.isprintable()), name
    assert len(facts.malformed) <= 16
    assert set(facts.malformed) <= set(SIGNALS)
    assert len(facts.finish_reasons) <= 128
    if facts.input_tokens is not None and facts.provider != "cohere":
        assert (facts.cache_read_tokens or 0) + (facts.cache_write_tokens or 0) <= facts.input_tokens
    if facts.output_final:
        assert facts.output_tokens is not None


NASTY = [
    b"null",
    b"-5",
    b"1e400",
    b"-1",
    b"true",
    b'"12"',
    b"[]",
    b"{}",
    b"12.5",
    b"9223372036854775808",
    b"NaN",
    b"Infinity",
    b'"\\ud800"',
    b"9" * 5000,
    b"[" * 2000,
    b"\r",
    b"\n\n",
    b"\r\n",
    b"\n",
    b'"',
    b"}",
    b"\xff",
    b"\x00",
    b"data: ",
    b"event: error\n",
    b"data: {}\n\n",
    b"[DONE]",
    b"\xef\xbb\xbf",
    b",",
    b":",
]


@cache
def recordings() -> list[corpus.Recorded]:
    """Bodies to break: the samples of the project, and the corpus where it is there."""
    shared = Path(os.environ.get("LZ_SHARED") or Path(__file__).parents[3] / "shared")
    found = [e for e in corpus.exchanges(shared) if corpus.reader_of(e.request)] if shared.is_dir() else []
    return [e for e in (*samples.exchanges(), *found) if 0 < len(e.body) < 20_000]


@st.composite
def broken(draw: st.DrawFn) -> tuple[corpus.Recorded, bytes]:
    """A recorded body with a few places overwritten, cut out or doubled."""
    number = draw(st.integers(0, 1 << 16))
    exchange = recordings()[number % len(recordings())]
    body = exchange.body
    for _ in range(draw(st.integers(0, 4))):
        at = draw(st.integers(0, len(body)))
        size = draw(st.sampled_from([0, 1, 2, 3, 5, 8, 40, 400]))
        what = draw(
            st.one_of(st.sampled_from(NASTY), st.binary(max_size=3), st.just(body[at : at + size] * 2))
        )
        body = body[:at] + what + body[at + size :]
    return exchange, body


@settings(max_examples=EXAMPLES, deadline=None, suppress_health_check=list(HealthCheck))
@given(
    case=broken(),
    cuts=st.lists(st.integers(0, 20_000), max_size=8),
    kind=st.sampled_from(
        [None, None, None, "", "application/json", "text/event-stream", "application/x-ndjson"]
    ),
    status=st.sampled_from([200, 200, 200, 200, 400, 500]),
    complete=st.booleans(),
)
def test_broken_bodies(
    case: tuple[corpus.Recorded, bytes], cuts: list[int], kind: str | None, status: int, complete: bool
) -> None:
    """A broken body raises nothing, gives sane facts, and the same ones in any chunking."""
    exchange, body = case
    headers = exchange.headers if kind is None else {**exchange.headers, "content-type": kind}
    found = []
    for pieces in ([body] if body else [], split(body, cuts), split(body, list(range(0, len(body), 13)))):
        reader = corpus.reader_of(exchange.request)
        assert reader is not None
        texts: list[str] = []
        reader.facts.text_sink = texts.append
        reader.facts.mask_sink = lambda mask: None
        reader.head(status, headers)
        for number, piece in enumerate(pieces):
            reader.feed(piece, number * 0.01)
        reader.finish(complete)
        before = said(reader.facts)
        reader.feed(body, 1.0)
        reader.finish(True)
        assert before == said(reader.facts)
        sane(reader.facts)
        found.append((said(reader.facts), "".join(texts)))
    assert found[0] == found[1]
    assert found[0] == found[2]


@settings(max_examples=300, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(body=st.binary(max_size=60), number=st.integers(0, 1 << 16))
def test_noise(body: bytes, number: int) -> None:
    """Noise raises nothing and states nothing."""
    exchange = recordings()[number % len(recordings())]
    reader = corpus.reader_of(exchange.request)
    assert reader is not None
    reader.head(200, {"content-type": "application/json"})
    reader.feed(body, 0.0)
    reader.finish(True)
    sane(reader.facts)
    assert reader.facts.input_tokens is None


@pytest.mark.parametrize("number", range(len(samples.exchanges())))
@pytest.mark.parametrize(
    "body",
    [
        pytest.param(b'{"usage":' + b"[" * 100_000 + b"]" * 100_000 + b"}", id="deep"),
        pytest.param(b'{"a":' + b"[" * 100_000, id="deep and cut"),
        pytest.param(b"[" * 100_000, id="deep list"),
        pytest.param(b'{"usage":{"input_tokens":' + b"9" * 10_000 + b"}}", id="long number"),
        pytest.param(b'{"model":"' + b"m" * 10_000 + b'"}', id="long name"),
        pytest.param(b"<html>" * 1000, id="html"),
        pytest.param(b"data: " + b"x" * (10 << 20) + b"\n\n", id="long line"),
        pytest.param(b"{" + b" " * (5 << 20) + b"}", id="long body"),
    ],
)
def test_hostile(number: int, body: bytes) -> None:
    """Bodies made to hurt: nothing raised, no number, and the memory is given back."""
    exchange = samples.exchanges()[number]
    for kind in ("application/json", "text/event-stream"):
        reader = corpus.reader_of(exchange.request)
        assert reader is not None
        reader.head(200, {"content-type": kind})
        for at in range(0, len(body), 1 << 16):
            reader.feed(body[at : at + (1 << 16)], 0.0)
        reader.finish(True)
        sane(reader.facts)
        assert (None, None) == (reader.facts.input_tokens, reader.facts.output_tokens)
        assert reader.facts.response_model in (None, "other")
