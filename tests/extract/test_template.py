"""Events that differ in their text only are not decoded: that must not show in the facts."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lz_otel import _extract
from lz_otel.model import Request

if TYPE_CHECKING:
    from lz_otel._extract.reader import Reader

TIMES = ("first_content_at", "last_content_at", "chunk_gaps", "request_fields", "text_sink", "mask_sink")


def anthropic(text: bytes) -> bytes:
    """An event whose text stands in JSON as given."""
    return (
        b"event: content_block_delta\n"
        b'data: {"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"'
        + text
        + b'"}}\n\n'
    )


def openai(text: bytes) -> bytes:
    """A chunk whose text stands in JSON as given."""
    return (
        b'data: {"id":"c-1","model":"gpt-5","choices":[{"index":0,"delta":{"content":"' + text + b'"},'
        b'"finish_reason":null}]}\n\n'
    )


MAKERS = {"/v1/messages": anthropic, "/v1/chat/completions": openai}


def reader(path: str) -> Reader:
    """A reader at the begin of a stream."""
    body = {"model": "some-model", "stream": True, "messages": [{"role": "user", "content": "?"}]}
    request = Request("POST", "api.example.com", path, body=json.dumps(body).encode())
    candidates = _extract.candidate("POST", path)
    assert candidates is not None
    found = _extract.identify(candidates, request)
    assert found is not None
    found.head(200, {"content-type": "text/event-stream"})
    return found


def said(path: str, pieces: list[bytes]) -> dict[str, object]:
    """The facts after these pieces, without times."""
    found = reader(path)
    for number, piece in enumerate(pieces):
        found.feed(piece, float(number))
    found.finish(True)
    facts = found.facts
    return {name: getattr(facts, name) for name in facts.__struct_fields__ if name not in TIMES}


ODD = (
    b"",
    b"\\",
    b"\\\\",
    b'\\"',
    b'"',
    b'","text":"',
    b"a\nb",
    b"a\rb",
    b"\x00",
    b"\xff",
    b"\xc3",
    b"\xc3\xa9",
    b"\xed\xa0\x80",
    "速い".encode(),
    "🦊".encode(),
    b"\xf4\x90\x80\x80",
    b"\\u0041",
    b"\\ud83e",
    b"\\n",
    b"\\x",
    b"\x7f",
    b"\t",
    b"\xc0\x80",
    b'"}}\n\n',
    b"a\n\ndata: {}",
    b'"},"finish_reason":"stop","x":{"y":"',
)


@pytest.mark.parametrize("path", MAKERS)
@pytest.mark.parametrize("odd", ODD)
def test_an_odd_event_among_like_ones_reads_as_it_does_in_one_piece(path: str, odd: bytes) -> None:
    """Whatever stands where earlier events had text, the facts are those of the stream in one piece."""
    make = MAKERS[path]
    stream = [
        make(b"one"),
        make(b" two"),
        make(b"three"),
        make(odd),
        make(b"four"),
        make(odd + b"x"),
        make(b"five"),
    ]
    assert said(path, [b"".join(stream)]) == said(path, stream)


@pytest.mark.parametrize("path", MAKERS)
@given(
    texts=st.lists(
        st.one_of(st.binary(max_size=6), st.text(max_size=6).map(lambda t: json.dumps(t)[1:-1].encode())),
        max_size=12,
    )
)
def test_events_of_any_text_read_as_they_do_in_one_piece(path: str, texts: list[bytes]) -> None:
    """Event by event or all at once: the same facts, whatever the texts hold."""
    make = MAKERS[path]
    stream = [make(b"first"), make(b"second"), *map(make, texts)]
    assert said(path, [b"".join(stream)]) == said(path, stream)


@pytest.mark.parametrize("path", MAKERS)
def test_every_piece_of_text_is_counted_and_timed(path: str) -> None:
    """Events that are not decoded count as content, and the gaps between them are kept."""
    make = MAKERS[path]
    found = reader(path)
    for number in range(10):
        found.feed(make(b"word %d" % number), number * 0.5)
    found.finish(True)
    facts = found.facts
    assert (10, 10, 0.0, 4.5) == (
        facts.sse_events,
        facts.content_events,
        facts.first_content_at,
        facts.last_content_at,
    )
    assert [4.5, 9] == facts.chunk_gaps[1:]


@pytest.mark.parametrize("path", MAKERS)
def test_text_goes_to_a_sink_piece_by_piece(path: str) -> None:
    """Who asked for the text gets all of it, alike events or not."""
    make = MAKERS[path]
    found = reader(path)
    got: list[str] = []
    found.facts.text_sink = got.append
    for number in range(5):
        found.feed(make(b"w%d" % number), float(number))
    assert ["w0", "w1", "w2", "w3", "w4"] == got


def test_like_events_are_not_decoded(monkeypatch: pytest.MonkeyPatch) -> None:
    """From the second of several like events on, none is decoded: that is why a long stream is cheap."""
    found = reader("/v1/messages")
    found.feed(anthropic(b"first"), 0.0)
    monkeypatch.setattr(type(found), "_event", lambda *_: pytest.fail("decoded"))
    found.feed(anthropic(b"second"), 1.0)
    found.feed(anthropic(b"third"), 2.0)
    found.finish(True)
    assert 3 == found.facts.content_events
