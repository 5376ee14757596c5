"""What every HTTP library's exchange is made of, in the shape in which capture takes that of httpx.

A request is one object with the few fields that `Intake.begin` asks for; a response is noted by its `Attempt`
directly: head, pieces, end.
"""

from __future__ import annotations

from io import BytesIO
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterable

    from lz_otel._ground.headers import Raw


class RawHeaders:
    """Headers as pairs of bytes, in the order and with the names in which they came."""

    __slots__ = ("raw",)

    def __init__(self, items: Iterable[tuple[Any, Any]]) -> None:
        self.raw: Raw = [(_bytes(name), _bytes(value)) for name, value in items]


class ForeignRequest:
    """A request of a library other than httpx; its URL and its headers are itself.

    Attributes:
        method: in upper case.
        host: name of the server; raw_host: the same in bytes.
        raw_path: path with the query.
        content: the body, empty where there is none. Raises `ValueError` where it is not known yet.
        headers: its head.
    """

    __slots__ = ("_body", "headers", "host", "method", "raw_host", "raw_path")

    def __init__(self, method: str, host: str, target: str, headers: RawHeaders, body: Any) -> None:
        self.method = method
        self.host = host
        self.raw_host = _bytes(host)
        self.raw_path = _bytes(target)
        self.headers = headers
        self._body = body

    @property
    def url(self) -> ForeignRequest:
        """Return itself: it has the parts of its URL."""
        return self

    @property
    def content(self) -> bytes:
        """Return the body as it is sent."""
        body = self._body
        if isinstance(body, bytes):
            return body
        if body is None:
            return b""
        if isinstance(body, str):
            return body.encode()
        if isinstance(body, (bytearray, memoryview)):
            return bytes(body)
        if isinstance(body, BytesIO):
            return bytes(body.getbuffer()[body.tell() :])
        raise ValueError("read while it is sent")


_classes: dict[tuple[type, type], type] = {}


def observed(steps: type, cls: type, **more: Any) -> type:
    """Return a class like this one with steps around some of its methods; it says that it is the one given.

    An object gets it for the time in which its body comes, and the class that it had, ``_lz_otel_class``,
    back at the end. So other objects of that class cost nothing.
    """
    made = _classes.get((steps, cls))
    if made is None:
        names = {name: getattr(cls, name) for name in ("__module__", "__qualname__", "__doc__")}
        made = type(cls.__name__, (steps, cls), {**names, **more, "_lz_otel_class": cls})
        _classes[steps, cls] = made
    return made


def _bytes(text: Any) -> bytes:
    return text if isinstance(text, bytes) else str(text).encode("latin-1", "replace")
