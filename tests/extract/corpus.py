"""Recorded exchanges as requests, decoded bodies and facts (used by several tests)."""

from __future__ import annotations

import base64
import json
import zlib
from typing import TYPE_CHECKING, Any, NamedTuple
from urllib.parse import urlsplit

from lz_otel._extract import candidate, identify
from lz_otel._ground.headers import head_of
from lz_otel.model import Request

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from lz_otel._extract.reader import Reader


class Recorded(NamedTuple):
    """One exchange of a case."""

    key: str
    api: str
    request: Request
    status: int
    headers: dict[str, str]
    body: bytes
    truth: dict[str, Any]


def raw(body: str | dict[str, str] | None) -> bytes:
    """The bytes of a stored body."""
    if isinstance(body, dict):
        return base64.b64decode(body["base64"])
    return (body or "").encode()


def decoded(body: bytes, encoding: str) -> bytes:
    """The body without its content-encoding."""
    if not body or not encoding:
        return body
    if encoding == "br":
        import brotli

        return brotli.decompress(body)
    if encoding == "zstd":
        import zstandard

        return zstandard.ZstdDecompressor().decompressobj().decompress(body)
    if encoding == "gzip":
        return zlib.decompress(body, 47)
    try:
        return zlib.decompress(body)
    except zlib.error:
        return zlib.decompress(body, -15)


def exchanges(shared: Path) -> Iterator[Recorded]:
    """Every exchange of the corpus."""
    for file in sorted((shared / "corpus").glob("*/*.json")):
        case = json.loads(file.read_text())
        for number, exchange in enumerate(case["exchanges"]):
            asked, answer = exchange["request"], exchange["response"]
            url = urlsplit(asked["url"])
            request = Request(
                asked["method"],
                url.hostname or "",
                url.path,
                url.query,
                head_of({name: values[0] for name, values in asked["headers"].items()}),
                raw(asked["body"]),
            )
            headers = {name: values[0] for name, values in answer["headers"].items()}
            body = decoded(raw(answer["body"]), headers.get("content-encoding", ""))
            yield Recorded(
                f"{case['id']}[{number}]",
                case["api"],
                request,
                answer["status"],
                headers,
                body,
                exchange["truth"],
            )


def reader_of(request: Request) -> Reader | None:
    """The reader for a request, as the pipeline gets it."""
    candidates = candidate(request.method, request.path)
    return None if candidates is None else identify(candidates, request)


def read(exchange: Recorded, split: Callable[[bytes], list[bytes]]) -> Reader | None:
    """The reader after the whole exchange, its body split by ``split``."""
    reader = reader_of(exchange.request)
    if reader is not None:
        reader.head(exchange.status, exchange.headers)
        for number, piece in enumerate(split(exchange.body)):
            reader.feed(piece, number * 0.001)
        reader.finish(True)
    return reader


def whole(body: bytes) -> list[bytes]:
    """One piece."""
    return [body] if body else []


def pieces(size: int) -> Callable[[bytes], list[bytes]]:
    """Pieces of a size."""
    return lambda body: [body[at : at + size] for at in range(0, len(body), size)]


def events(body: bytes) -> list[bytes]:
    """Pieces that end where an event ends (a blank line, a line of JSON, a frame)."""
    if body.startswith(b"\0"):
        frames = []
        while body:
            size = int.from_bytes(body[:4])
            frames.append(body[:size])
            body = body[size:]
        return frames
    text = body.replace(b"\r\n\r\n", b"\r\n\r\n\xff").replace(b"\n\n", b"\n\n\xff")
    if b"\xff" not in text:
        text = text.replace(b"\n", b"\n\xff")
    return [piece for piece in text.split(b"\xff") if piece]
