"""Prometheus remote write 1.0 with the standard library only: for generated history, not for a service.

The body is the protobuf ``WriteRequest``, packed by hand; snappy allows a block to hold plain literals, so
nothing is compressed and nothing has to be installed.
"""

from __future__ import annotations

import math
import struct
import urllib.error
import urllib.request
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

_HEADERS = {
    "Content-Encoding": "snappy", "Content-Type": "application/x-protobuf",
    "X-Prometheus-Remote-Write-Version": "0.1.0",
}  # fmt: skip
_DOUBLE = struct.Struct("<d")
# Prometheus' marker of a series that ended: a NaN with this payload.
_STALE = struct.pack("<Q", 0x7FF0000000000002)


def _varint(value: int) -> bytes:
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def encode_labels(labels: Iterable[tuple[str, str]]) -> bytes:
    """Encode the labels of a ``TimeSeries``; they must be sorted by name."""
    out = bytearray()
    for name, value in labels:
        n, v = name.encode(), value.encode()
        body = b"\x0a" + _varint(len(n)) + n + b"\x12" + _varint(len(v)) + v
        out += b"\x0a" + _varint(len(body)) + body
    return bytes(out)


def encode_samples(values: Sequence[float], times: Sequence[int]) -> bytes:
    """Encode the samples of a ``TimeSeries``; times in milliseconds.

    The first ``nan`` after a number becomes a staleness marker, further ones are left out.
    """
    out = []
    alive = False
    pack = _DOUBLE.pack
    for value, when in zip(values, times, strict=True):
        if math.isnan(value):
            if not alive:
                continue
            alive, bits = False, _STALE
        else:
            alive, bits = True, pack(value)
        stamp = _varint(when)
        out.append(b"\x12" + bytes((10 + len(stamp),)) + b"\x09" + bits + b"\x10" + stamp)
    return b"".join(out)


def post(url: str, series: Iterable[bytes], timeout: float = 60.0) -> None:
    """Send encoded series (the body of each ``TimeSeries``) to ``url``/api/v1/write; timeout in seconds.

    Raises:
        OSError: the server cannot be reached, or refuses; the text holds its answer.
    """
    body = b"".join(b"\x0a" + _varint(len(one)) + one for one in series)
    if not body:
        return
    # One snappy literal with a length of four bytes.
    block = _varint(len(body)) + b"\xfc" + struct.pack("<I", len(body) - 1) + body
    request = urllib.request.Request(  # the address is the operator's own
        url.rstrip("/") + "/api/v1/write",
        data=block,
        headers=_HEADERS,
    )
    try:
        with urllib.request.urlopen(request, timeout=timeout) as answer:  # as above
            answer.read()
    except urllib.error.HTTPError as error:
        text = error.read(500).decode(errors="replace").strip()
        raise OSError(f"remote write to {url} refused with status {error.code}: {text}") from error
