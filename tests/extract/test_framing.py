"""Framings: the same events in any chunking, the standard's rules, bounded memory."""

from __future__ import annotations

import tracemalloc
from zlib import crc32

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from lz_otel._extract import framing
from lz_otel._extract.framing import AwsFrames, JsonLines, Sse


def frame(payload: bytes, **headers: str) -> bytes:
    """An AWS event-stream frame."""
    head = b""
    for name, value in headers.items():
        key = (":" + name.replace("_", "-")).encode()
        head += bytes([len(key)]) + key + b"\7" + len(value).to_bytes(2) + value.encode()
    prelude = (16 + len(head) + len(payload)).to_bytes(4) + len(head).to_bytes(4)
    prelude += crc32(prelude).to_bytes(4)
    return prelude + head + payload + crc32(prelude + head + payload).to_bytes(4)


def split(data: bytes, cuts: list[int]) -> list[bytes]:
    """``data`` in pieces that end at ``cuts``."""
    ends = [*sorted(cut % (len(data) + 1) for cut in cuts), len(data)]
    return [piece for start, end in zip([0, *ends], ends, strict=False) if (piece := data[start:end])]


def sse(*pieces: bytes) -> list[tuple[bytes, bytes]]:
    """The events of the pieces."""
    parser = Sse()
    return [event for piece in pieces for event in parser.feed(piece)]


@pytest.mark.parametrize(
    ("stream", "expected"),
    [
        (b"data: a\n\n", [(b"", b"a")]),
        (b"data: a\r\n\r\n", [(b"", b"a")]),
        (b"data: a\r\r", [(b"", b"a")]),
        (b"data: a\n\ndata: b\n\n", [(b"", b"a"), (b"", b"b")]),
        (b"event: x\ndata: a\n\n", [(b"x", b"a")]),
        (b"event:x\ndata:a\n\n", [(b"x", b"a")]),
        (b"data:  a\n\n", [(b"", b" a")]),
        (b"data: a\ndata: b\n\n", [(b"", b"a\nb")]),
        (b"data\n\n", [(b"", b"")]),
        (b": comment\n\ndata: a\n\n", [(b"", b"a")]),
        (b": comment\ndata: a\nid: 7\nretry: 5\n\n", [(b"", b"a")]),
        (b"event: x\n\ndata: a\n\n", [(b"", b"a")]),
        (b"\n\n\ndata: a\n\n", [(b"", b"a")]),
        (b"data: a\n", []),
        (b"data: a", []),
        (b"data: [DONE]\n\n", [(b"", b"[DONE]")]),
        (b"event: x\nevent: y\ndata: a\n\n", [(b"y", b"a")]),
        (b"datax: a\n\n", []),
    ],
)
def test_sse_rules(stream: bytes, expected: list[tuple[bytes, bytes]]) -> None:
    """The rules of the standard, whole and byte by byte."""
    assert expected == sse(stream)
    assert expected == sse(*(bytes([byte]) for byte in stream))


_SSE_TEXT = st.lists(
    st.sampled_from(
        [b"data: a", b"data:b", b"event: x", b": c", b"data", b"\n", b"\r", b"\r\n", b"\n\n", b"id", b"\xff"]
    )
).map(b"".join)


@settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(stream=_SSE_TEXT, cuts=st.lists(st.integers(0, 200), max_size=12))
def test_sse_chunking(stream: bytes, cuts: list[int]) -> None:
    """Any chunking gives the same events, and the same state of being between events."""
    one, many = Sse(), Sse()
    expected = one.feed(stream) if stream else []
    found = [event for piece in split(stream, cuts) for event in many.feed(piece)]
    assert expected == found
    assert one.idle == many.idle


def test_sse_of_one_byte_pieces_is_linear() -> None:
    """An event of 1 MB in pieces of one byte is joined once, not once per piece."""
    parser = Sse()
    for _ in range(1 << 20):
        assert [] == parser.feed(b"x")
    assert b"x" * (1 << 20) == parser._line


@pytest.mark.parametrize("size", [1, 1000, 1 << 16, 1 << 30])
def test_sse_skips_an_event_that_is_too_large(size: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """One event above the limit is lost and counted, in any chunking, and the stream goes on."""
    monkeypatch.setattr(framing, "MAX_EVENT", 5000)
    stream = b"data: a\n\nevent: big\ndata: " + b"x" * 6000 + b"\ndata: more\n\ndata: b\n\n"
    parser = Sse()
    found = [event for at in range(0, len(stream), size) for event in parser.feed(stream[at : at + size])]
    assert [(b"", b"a"), (b"", b""), (b"", b"b")] == found
    assert 1 == parser.lost
    assert parser.idle


def test_sse_holds_no_more_than_one_event() -> None:
    """A line without an end does not grow the memory beyond the limit."""
    parser = Sse()
    tracemalloc.start()
    for _ in range(320):  # 20 MiB
        parser.feed(bytes(1 << 16))
    held = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert held < 2 * framing.MAX_EVENT


def test_lines() -> None:
    """One document per line; blank lines do not count; the last line needs no end."""
    parser = JsonLines()
    assert [(b"", b"{1}")] == parser.feed(b'{1}\r\n\n  \n{"a"')
    assert [(b"", b'{"a":2}')] == parser.feed(b":2}\n{3}")
    assert [(b"", b"{3}")] == parser.rest()


@settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(
    lines=st.lists(st.sampled_from([b"{}", b"", b" ", b"[1]\r", b'{"a":1}'])),
    cuts=st.lists(st.integers(0, 60), max_size=8),
)
def test_lines_chunking(lines: list[bytes], cuts: list[int]) -> None:
    """Any chunking gives the same lines."""
    stream = b"\n".join(lines)
    one, many = JsonLines(), JsonLines()
    expected = one.feed(stream) + one.rest()
    found = [event for piece in split(stream, cuts) for event in many.feed(piece)]
    assert expected == found + many.rest()


def test_frames() -> None:
    """Names come from the event type; those of exceptions begin with an exclamation mark."""
    stream = frame(b"{}", event_type="chunk", content_type="application/json", message_type="event")
    stream += frame(b"no", exception_type="throttlingException", message_type="exception")
    stream += frame(b"", error_code="InternalError", error_message="x", message_type="error")
    expected = [(b"chunk", b"{}"), (b"!throttlingException", b"no"), (b"!InternalError", b"")]
    for size in (1, 7, len(stream)):
        parser = AwsFrames()
        found = [e for at in range(0, len(stream), size) for e in parser.feed(stream[at : at + size])]
        assert expected == found
        assert 0 == parser.lost


def test_frame_with_a_wrong_checksum_is_lost() -> None:
    """A frame whose message CRC is wrong is counted and skipped; the next one is read."""
    good, bad = frame(b"{}", event_type="a"), bytearray(frame(b"{}", event_type="b"))
    bad[-6] ^= 1
    parser = AwsFrames()
    assert [(b"a", b"{}"), (b"a", b"{}")] == parser.feed(good + bytes(bad) + good)
    assert 1 == parser.lost
    assert not parser.broken


def test_frames_end_at_a_wrong_prelude() -> None:
    """After a prelude whose CRC is wrong no length can be trusted: nothing more is read."""
    good, bad = frame(b"{}", event_type="a"), bytearray(frame(b"{}", event_type="b"))
    bad[9] ^= 1
    parser = AwsFrames()
    assert [(b"a", b"{}")] == parser.feed(good + bytes(bad) + good)
    assert parser.broken
    assert [] == parser.feed(good)


def test_frame_above_the_limit_is_skipped(monkeypatch: pytest.MonkeyPatch) -> None:
    """A frame above the limit is not held, and the next one is read."""
    monkeypatch.setattr(framing, "MAX_EVENT", 200)
    stream = frame(b"x" * 500, event_type="a") + frame(b"{}", event_type="b")
    for size in (1, 7, len(stream)):
        parser = AwsFrames()
        found = [e for at in range(0, len(stream), size) for e in parser.feed(stream[at : at + size])]
        assert [(b"b", b"{}")] == found
        assert 1 == parser.lost


@settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.binary(max_size=300), st.lists(st.integers(0, 300), max_size=6))
def test_frames_of_noise(noise: bytes, cuts: list[int]) -> None:
    """Noise gives no frame, and nothing is raised."""
    parser = AwsFrames()
    good = frame(b"{}", event_type="a")
    found = [e for piece in split(good + noise, cuts) for e in parser.feed(piece)]
    assert (b"a", b"{}") == found[0]


@pytest.mark.parametrize(
    ("parser", "unit"),
    [(Sse, b"\r"), (Sse, b"data: {}\n\n"), (JsonLines, b"{}\n"), (AwsFrames, frame(b"", event_type=""))],
)
def test_a_body_of_tiny_lines_is_given_up(
    parser: type[Sse], unit: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    """After many tiny lines nothing more is read, which is one loss; before, all of them are."""
    monkeypatch.setattr(framing, "_MANY", 1000)
    monkeypatch.setattr(framing, "_TINY", 100)
    one = parser()
    few = [event for _ in range(100) for event in one.feed(unit)]
    assert (0 if unit == b"\r" else 100, 0) == (len(few), one.lost)
    for _ in range(20_000):
        one.feed(unit)
    assert ([], 1, True) == (one.feed(unit * 100), one.lost, one.flooded)
    assert not one.idle


def test_a_long_stream_of_short_events_is_read() -> None:
    """200,000 events, as short as they are in earnest, are no flood."""
    event = (
        b'event: content_block_delta\ndata: {"type":"content_block_delta","index":0,'
        b'"delta":{"type":"text_delta","text":"x"}}\n\n'
    )
    parser = Sse()
    assert 200_000 == sum(len(parser.feed(event * 100)) for _ in range(2000))
    assert (0, True) == (parser.lost, parser.idle)


def test_an_event_of_very_many_lines() -> None:
    """Data lines by the thousand are joined in their order, with empty ones; the next event is its own."""
    lines = [b"%d" % number if number % 3 else b"" for number in range(5000)]
    stream = b"".join(b"data: %s\n" % line for line in lines) + b"\ndata: a\n\n"
    expected = [(b"", b"\n".join(lines)), (b"", b"a")]
    assert expected == sse(stream)
    assert expected == sse(*(stream[at : at + 100] for at in range(0, len(stream), 100)))
