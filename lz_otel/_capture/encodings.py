"""Content-encodings, decoded beside the host and without touching what it reads.

Supports what the client itself can accept: gzip, deflate, br and zstd (the last two when
the package that the client uses for them is installed). Output is handed on in slices, so a
compression bomb costs no more memory here than one slice.
"""

from __future__ import annotations

import zlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["Decoder", "decoder_for"]

_SLICE = 262_144


class Decoder:
    """Turns pieces of an encoded body into slices of the decoded one."""

    def decode(self, data: bytes) -> Iterator[bytes]:
        """Decode one piece. Raises whatever the codec raises on a broken body."""
        raise NotImplementedError


class _Zlib(Decoder):
    def __init__(self, wbits: int) -> None:
        self._object = zlib.decompressobj(wbits)

    def decode(self, data: bytes) -> Iterator[bytes]:
        while data:
            out = self._object.decompress(data, _SLICE)
            data = self._object.unconsumed_tail
            if not out and not data:
                return
            yield out


class _Deflate(Decoder):
    """``deflate`` is sent with and without the zlib wrapper; its first two bytes tell."""

    def __init__(self) -> None:
        self._head = b""
        self._inner: _Zlib | None = None

    def decode(self, data: bytes) -> Iterator[bytes]:
        if self._inner is None:
            data = self._head = self._head + data
            if len(data) < 2:
                return
            wrapped = data[0] & 0x0F == 8 and int.from_bytes(data[:2], "big") % 31 == 0
            self._inner = _Zlib(zlib.MAX_WBITS if wrapped else -zlib.MAX_WBITS)
        yield from self._inner.decode(data)


class _Brotli(Decoder):
    def __init__(self, module: Any) -> None:
        self._object = module.Decompressor()
        self._step = getattr(self._object, "decompress", None) or self._object.process

    def decode(self, data: bytes) -> Iterator[bytes]:
        out = self._step(data)
        for start in range(0, len(out), _SLICE):
            yield out[start : start + _SLICE]


class _Zstd(Decoder):
    def __init__(self, module: Any) -> None:
        self._module = module
        self._object = module.ZstdDecompressor().decompressobj()

    def decode(self, data: bytes) -> Iterator[bytes]:
        while data:
            out = self._object.decompress(data)
            for start in range(0, len(out), _SLICE):
                yield out[start : start + _SLICE]
            data = b""
            if self._object.eof:
                data = self._object.unused_data
                self._object = self._module.ZstdDecompressor().decompressobj()


class _StandardZstd(Decoder):
    """The interface of Python 3.14's ``compression.zstd`` and its backport."""

    def __init__(self, module: Any) -> None:
        self._module = module
        self._object = module.ZstdDecompressor()

    def decode(self, data: bytes) -> Iterator[bytes]:
        while True:
            out = self._object.decompress(data, _SLICE)
            if out:
                yield out
            if self._object.eof:
                data = self._object.unused_data
                self._object = self._module.ZstdDecompressor()
                if not data:
                    return
            elif self._object.needs_input:
                return
            else:
                data = b""


class _Chain(Decoder):
    def __init__(self, decoders: list[Decoder]) -> None:
        self._decoders = decoders

    def decode(self, data: bytes) -> Iterator[bytes]:
        pieces: Iterator[bytes] = iter((data,))
        for decoder in self._decoders:
            pieces = _through(decoder, pieces)
        return pieces


def _through(decoder: Decoder, pieces: Iterator[bytes]) -> Iterator[bytes]:
    for piece in pieces:
        yield from decoder.decode(piece)


def _one(name: str) -> Decoder | None:
    if name in ("gzip", "x-gzip"):
        return _Zlib(16 + zlib.MAX_WBITS)
    if name == "deflate":
        return _Deflate()
    if name == "br":
        for package in ("brotli", "brotlicffi"):
            module = _installed(package)
            if module is not None:
                return _Brotli(module)
    if name == "zstd":
        module = _installed("zstandard")
        if module is not None:
            return _Zstd(module)
        for package in ("compression.zstd", "backports.zstd"):
            module = _installed(package)
            if module is not None:
                return _StandardZstd(module)
    return None


def _installed(package: str) -> Any:
    import importlib

    try:
        return importlib.import_module(package)
    except ImportError:
        return None


def decoder_for(content_encoding: str) -> Decoder | None:
    """A decoder for a ``content-encoding`` header.

    Returns:
        ``None`` when the body cannot be decoded here. For ``identity`` do not ask.
    """
    names = [n.strip().lower() for n in content_encoding.split(",") if n.strip()]
    decoders: list[Decoder] = []
    for name in reversed([n for n in names if n != "identity"]):
        decoder = _one(name)
        if decoder is None or len(decoders) >= 4:
            return None
        decoders.append(decoder)
    return decoders[0] if len(decoders) == 1 else _Chain(decoders)
