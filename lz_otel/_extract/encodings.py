"""Content-encodings, decoded beside the host and without touching what it reads.

Supports what the client itself can accept: gzip, deflate, br and zstd (the last two when
the package that the client uses for them is installed). Output is handed on in slices, so a
compression bomb costs no more memory here than a few slices; and it is given up when it has become
so large that no answer compresses so well, so it costs no more time either.
"""

from __future__ import annotations

import zlib
from importlib import import_module
from itertools import chain
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

_SLICE = 262_144
# A stream of alike events compresses 50 times at most; what exceeds both of these is a bomb (C)
_MAX_RATIO = 200
_MAX_BOMB = 16 << 20
# Input that is decoded at once where a codec does not limit its output: 4 bytes of zstd give up to 128 KiB,
# about 10 of brotli up to 16 MiB
_ZSTD_STEP = 256
_BROTLI_STEP = 32


class BombError(ValueError):
    """A body grew so large that it is given up here, though a client may decode it."""


class Codec(Protocol):
    """Undoes one encoding."""

    def decode(self, data: bytes) -> Iterator[bytes]:
        """Decode one piece. Raises whatever the codec raises on a broken body."""


class IncompleteError(ValueError):
    """A body ended in the middle of what was encoded."""


class Decoder:
    """Turns pieces of an encoded body into slices of the decoded one; gives up what grows too large."""

    def __init__(self, codecs: list[Codec]) -> None:
        self._codecs = codecs
        self._read = 0
        self._made = 0

    def decode(self, data: bytes) -> Iterator[bytes]:
        """Decode one piece. Raises whatever a codec raises on a broken body."""
        self._read += len(data)
        pieces: Iterable[bytes] = (data,)
        for codec in self._codecs:
            pieces = chain.from_iterable(map(codec.decode, pieces))
        for piece in pieces:
            self._made += len(piece)
            if self._made > _MAX_BOMB and self._made > _MAX_RATIO * self._read:
                raise BombError
            yield piece

    def end(self) -> None:
        """Raise where a client does, when the body ends in the middle."""
        if any(getattr(codec, "open", False) for codec in self._codecs):
            raise IncompleteError


class _Zlib:
    """``gzip``, or ``deflate``: that is sent with and without the zlib wrapper, its first two bytes tell."""

    def __init__(self, *, gzip: bool) -> None:
        self._object = zlib.decompressobj(16 + zlib.MAX_WBITS) if gzip else None
        self._head = b""

    def decode(self, data: bytes) -> Iterator[bytes]:
        if self._object is None:
            data = self._head = self._head + data
            if len(data) < 2:
                return
            wrapped = data[0] & 0x0F == 8 and int.from_bytes(data[:2], "big") % 31 == 0
            self._object = zlib.decompressobj(zlib.MAX_WBITS if wrapped else -zlib.MAX_WBITS)
        while data:
            out = self._object.decompress(data, _SLICE)
            data = self._object.unconsumed_tail
            if not out and not data:
                return
            yield out


class _Brotli:
    def __init__(self, module: Any) -> None:
        self._object = module.Decompressor()
        self._step = getattr(self._object, "decompress", None) or self._object.process
        self._more = getattr(self._object, "can_accept_more_data", None)  # since brotli 1.2

    def decode(self, data: bytes) -> Iterator[bytes]:
        if self._more is not None:
            while True:
                out = self._step(data, output_buffer_limit=_SLICE)
                yield from _sliced(out)
                if len(out) < _SLICE and self._more():  # it may say so with more output to come
                    return
                data = b""
        for start in range(0, len(data), _BROTLI_STEP):
            yield from _sliced(self._step(data[start : start + _BROTLI_STEP]))


class _Zstd:
    open = False  # in the middle of a frame

    def __init__(self, module: Any) -> None:
        self._module = module
        self._object = module.ZstdDecompressor().decompressobj()

    def decode(self, data: bytes) -> Iterator[bytes]:
        while data:
            step, data = data[:_ZSTD_STEP], data[_ZSTD_STEP:]
            yield from _sliced(self._object.decompress(step))
            self.open = not self._object.eof
            if self._object.eof:
                data = self._object.unused_data + data
                self._object = self._module.ZstdDecompressor().decompressobj()


def _sliced(out: bytes) -> Iterator[bytes]:
    for start in range(0, len(out), _SLICE):
        yield out[start : start + _SLICE]


class _StandardZstd:
    """The interface of Python 3.14's ``compression.zstd`` and its backport."""

    open = False

    def __init__(self, module: Any) -> None:
        self._module = module
        self._object = module.ZstdDecompressor()

    def decode(self, data: bytes) -> Iterator[bytes]:
        while True:
            out = self._object.decompress(data, _SLICE)
            if out:
                yield out
            self.open = not self._object.eof
            if self._object.eof:
                data = self._object.unused_data
                self._object = self._module.ZstdDecompressor()
                if not data:
                    return
            elif self._object.needs_input:
                return
            else:
                data = b""


# The packages that decode what the standard library does not, the first that is installed
_PACKAGES: dict[str, tuple[tuple[str, Callable[[Any], Codec]], ...]] = {
    "br": (("brotli", _Brotli), ("brotlicffi", _Brotli)),
    "zstd": (("zstandard", _Zstd), ("compression.zstd", _StandardZstd), ("backports.zstd", _StandardZstd)),
}


def _codec(name: str) -> Codec | None:
    if name in ("gzip", "x-gzip", "deflate"):
        return _Zlib(gzip=name != "deflate")
    for package, made in _PACKAGES.get(name, ()):
        try:
            return made(import_module(package))
        except ImportError:
            continue
    return None


def decoder_for(content_encoding: str) -> Decoder | None:
    """Return a decoder for a ``content-encoding`` header.

    Returns:
        ``None`` when the body cannot be decoded here. For ``identity`` do not ask.
    """
    names = [name.strip().lower() for name in content_encoding.split(",")]
    codecs: list[Codec] = []
    for name in reversed([name for name in names if name and name != "identity"]):
        codec = _codec(name)
        if codec is None or len(codecs) >= 4:
            return None
        codecs.append(codec)
    return Decoder(codecs)
