"""What a broken or hostile server can send:
the host gets the same as without us, in bounded memory, and no wrong number.
"""

from __future__ import annotations

import gzip
import hashlib
import json
import struct
import sys
import time
import zlib
from pathlib import Path
from typing import TYPE_CHECKING, Any

import httpx2
import pytest

import lz_otel
from lz_otel.testing import Capture, capture
from tests.processes import run
from tests.safety.hostile import Raw, peak
from tests.wire_doubles import A_JSON, a_full

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

PROGRAMS = Path(__file__).parent / "programs"
MIB = 1 << 20
SLACK = 48 * MIB
"""Beyond what the bare client takes:
what is held of one body (4 MiB, twice while it is joined), decoded slices, noise.
"""
BODY = {"model": "claude-opus-5", "max_tokens": 10, "messages": [{"role": "user", "content": "x"}]}
HEAD = b"HTTP/1.1 200 OK\r\ncontent-type: %s\r\nconnection: close\r\n%s\r\n"
INPUT, OUTPUT = "gen_ai.client.inference.usage.input_tokens", "gen_ai.client.inference.usage.output_tokens"
PRELUDE = struct.pack(">II", 16, 0)
PRELUDE += struct.pack(">I", zlib.crc32(PRELUDE))
EMPTY_FRAME = PRELUDE + struct.pack(">I", zlib.crc32(PRELUDE))
linux = pytest.mark.skipif(sys.platform != "linux", reason="resident memory is read from /proc")


def head(kind: str = "application/json", *more: bytes) -> bytes:
    return HEAD % (kind.encode(), b"".join(line + b"\r\n" for line in more))


def fetch(url: str, limit: int = sys.maxsize) -> Any:
    """Status, number of headers, digest and length of the raw body; or the exception."""
    digest, length = hashlib.sha256(), 0
    try:
        with (
            httpx2.Client(trust_env=False, timeout=60) as client,
            client.stream("POST", url, json=BODY) as response,
        ):
            for piece in response.iter_raw():
                digest.update(piece)
                length += len(piece)
                if length >= limit:
                    return response.status_code, len(response.headers.raw), length >= limit
            return response.status_code, len(response.headers.raw), digest.hexdigest(), length
    except Exception as error:
        return type(error).__name__, str(error)


def both(pieces: Callable[[], Any], limit: int = sys.maxsize) -> tuple[Any, Capture]:
    """The same exchange bare and observed:
    what the host saw must be equal, and memory bounded. Gives the numbers.
    """
    with Raw(pieces) as server:
        memory = peak() if sys.platform == "linux" else iter([0] * 9)
        fetch(server.url, 1)  # whatever is made at the first call
        next(memory)
        next(memory)
        bare = fetch(server.url, limit)
        without = next(memory)
        with capture() as seen:
            next(memory)
            assert fetch(server.url, limit) == bare
            seen.store.snapshot()
            with_us = next(memory)
    assert with_us < without + SLACK
    assert seen.value("lz.internal.errors") == 0
    assert seen.value("lz.call.active") == 0
    assert seen.value("gen_ai.client.inference.duration") == 1
    return bare, seen


def no_tokens(seen: Capture) -> bool:
    return seen.value(INPUT) == seen.value(OUTPUT) == 0


@linux
@pytest.mark.parametrize(
    ("kind", "size"),
    [
        ("application/json", 1024),
        ("text/event-stream", 1024),
        ("application/x-ndjson", 128),
        ("text/plain", 128),
    ],
)
def test_a_gigabyte(kind: str, size: int) -> None:
    """A body of 1 GiB (or 128 MiB) in one document,
    event or line costs no more memory than is held of any body.
    """
    block = b"x" * MIB

    def pieces() -> Iterator[bytes]:
        yield head(kind)
        yield b'data: {"a": "' if kind == "text/event-stream" else b'{"a": "'
        for _ in range(size):
            yield block

    bare, seen = both(pieces)
    assert bare[3] > size * MIB
    assert no_tokens(seen)


@linux
@pytest.mark.parametrize("kind", ["text/event-stream", "application/json"])
def test_endless(kind: str) -> None:
    """A stream without an end, which the host leaves after 32 MiB, is one abandoned call."""
    events = b"".join(a_full()[:4]) * 200

    def pieces() -> Iterator[bytes]:
        yield head(kind)
        while True:
            yield events

    _, seen = both(pieces, 32 * MIB)
    assert seen.value("gen_ai.client.inference.duration", lz_ending="abandoned") == 1
    assert seen.value(OUTPUT) == 0


@pytest.mark.parametrize(("size", "number"), [(90_000, 1), (1 << 20, 1), (2, 10_000), (2, 900)])
def test_headers(size: int, number: int) -> None:
    """Large and many headers: whatever the client makes of them, it makes with us."""
    # Of a head above 100 KiB h11 makes an error or not, as TCP happened to cut it: only one is far above
    lines = [b"a%d:%s" % (n, b"y" * size) for n in range(number)]
    both(lambda: [head("application/json", *lines), json.dumps(A_JSON).encode()])


@pytest.mark.parametrize(
    "body",
    [
        b"\x00" * 5000,
        b'{"id": "\x00", "model": "\x00\x00", "usage": {"input_tokens": 1}}',
        b"\xff\xfe\xfd" * 3000,
        b'{"model": "\xff\xfe", "content": [{"type": "text", "text": "\xc3\x28"}]}',
        b"[" * 100_000,
        b'{"usage": ' + b'{"a":' * 100_000,
        b'{"usage": ' + b"[" * 100_000 + b"]" * 100_000 + b', "model": "m"}',
        b'{"usage": {"input_tokens": ' + b"9" * 10_000 + b', "output_tokens": -' + b"9" * 10_000 + b"}}",
        b'{"usage": {"input_tokens": 1e400, "output_tokens": -1e400}}',
        b'{"usage": {"input_tokens": NaN, "output_tokens": Infinity}}',
        b'{"usage": {"input_tokens": "12", "output_tokens": "many"}}',
        b'{"usage": {"input_tokens": -5, "output_tokens": -7, "cache_read_input_tokens": -1}}',
        b'{"usage": {"input_tokens": true, "output_tokens": [3]}}',
        b'{"usage": {"input_tokens": 1.5, "output_tokens": 0.1}}',
        b'{"usage": [1, 2, 3]}',
        b'{"usage": "none"}',
    ],
    ids=lambda b: b[:40].decode("latin-1"),
)
@pytest.mark.parametrize("streamed", [False, True])
def test_bodies(body: bytes, streamed: bool) -> None:
    """Bytes, depths and numbers that nobody sends in earnest:
    passed on as they are, and never counted as tokens.
    """
    wire = body
    if streamed:
        line = body.replace(
            b'{"usage"', b'{"type": "message_delta", "delta": {"stop_reason": "end_turn"}, "usage"', 1
        )
        wire = b"event: message_delta\ndata: " + line + b"\n\n"
    _, seen = both(lambda: [head("text/event-stream" if streamed else "application/json"), wire])
    assert no_tokens(seen)  # the one that is well formed lies in a document that is not
    assert all(v == v and v >= 0 for s in seen.store.snapshot() for _, v in s.points if isinstance(v, float))


def bomb(encoding: str, size: int) -> bytes:
    """A long string in a JSON document, compressed as well as can be."""
    start, block = b'{"usage": {"input_tokens": 7}, "a": "', bytes([32]) * MIB
    made: Any
    if encoding == "gzip":
        return gzip.compress(start + block * size, mtime=0)
    if encoding == "deflate":
        return zlib.compress(start + block * size)
    if encoding == "br":
        made = pytest.importorskip("brotli").Compressor(quality=5)
        return bytes(made.process(start) + b"".join(made.process(block) for _ in range(size)) + made.finish())
    made = pytest.importorskip("zstandard").ZstdCompressor().compressobj()
    return bytes(made.compress(start) + b"".join(made.compress(block) for _ in range(size)) + made.flush())


@linux
@pytest.mark.parametrize("encoding", ["gzip", "deflate", "br", "zstd"])
@pytest.mark.parametrize("kind", ["application/json", "text/event-stream"])
def test_bomb(encoding: str, kind: str) -> None:
    """A body that becomes 512 MiB, which the host passes on undecoded,
    costs us neither that memory nor that time.
    """
    wire = bomb(encoding, 512)
    lines = (b"content-encoding: " + encoding.encode(), b"content-length: %d" % len(wire))
    _, seen = both(lambda: [head(kind, *lines), wire])
    assert seen.value("lz.malformed", signal="encoding") == 1


@pytest.mark.parametrize("encoding", ["gzip", "deflate", "br", "zstd"])
def test_an_honest_body_in_an_encoding_is_read(encoding: str) -> None:
    """The bound on bombs takes no number from an answer of 8 MiB of alike events."""
    made: Any
    events = a_full()
    plain = b"".join([*events[:3], *events[2:3] * 60_000, *events[3:]])
    if encoding == "br":
        wire = pytest.importorskip("brotli").compress(plain, quality=5)
    elif encoding == "zstd":
        made = pytest.importorskip("zstandard").ZstdCompressor()
        wire = made.compress(plain)
    else:
        wire = (gzip.compress if encoding == "gzip" else zlib.compress)(plain)
    _, seen = both(lambda: [head("text/event-stream", b"content-encoding: " + encoding.encode()), wire])
    assert (seen.value(INPUT), seen.value(OUTPUT)) == (2104, 20)


@pytest.mark.parametrize(
    ("kind", "start", "unit"),
    [
        ("text/event-stream", b"", b"\r"),
        ("text/event-stream", b"", b"\r\n"),
        ("text/event-stream", b"", b":\n"),
        ("text/event-stream", b"", b"data: x\n"),
        ("text/event-stream", b"", b"data: {}\n\n"),
        ("application/x-ndjson", b"{}", b"\n"),
        ("application/x-ndjson", b"", b"{}\n"),
        ("application/x-ndjson", b"", b'{"a":1}\n'),
        ("application/json", b"", b'{"a":1}\n'),
        ("application/vnd.amazon.eventstream", b"", EMPTY_FRAME),
    ],
)
def test_tiny_lines(kind: str, start: bytes, unit: bytes) -> None:
    """100 MB of lines of a few bytes each cost the host at most a second of CPU; the loss is told."""
    block = unit * (65536 // len(unit))

    def pieces() -> Iterator[bytes]:
        yield head(kind)
        yield start
        for _ in range(100_000_000 // len(block)):
            yield block

    with Raw(pieces) as server, capture() as seen:
        began = time.thread_time()
        fetch(server.url)
        with_us = time.thread_time() - began
        told = seen.value("lz.malformed") or seen.value("lz.call.usage_missing", reason="too_large")
        assert told == 1
        lz_otel.uninstrument()
        began = time.thread_time()
        fetch(server.url)
        assert with_us - (time.thread_time() - began) < 1


@linux
@pytest.mark.parametrize(
    ("kind", "start", "unit", "more"),
    [
        ("application/json", '{"', "x", ["sync"]),
        ("application/json", '{"', "x", ["async"]),
        ("application/json", '{"', "", ["sync", "gzip"]),
        ("text/event-stream", 'data: {"', "x", ["async"]),
        ("text/event-stream", "", "data: 123456\\n", ["sync"]),
        ("text/event-stream", 'data: {"', "", ["sync", "gzip"]),
        ("application/x-ndjson", '{"', "x", ["sync"]),
    ],
)
def test_pieces_of_two_bytes(kind: str, start: str, unit: str, more: list[str]) -> None:
    """A body of 4 MiB in pieces of two bytes is held as bytes: in no more than 8 MiB."""
    run(PROGRAMS / "dribbled.py", kind, start, unit, *more)
