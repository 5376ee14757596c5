"""Headers and transport errors as plain data, the same for httpx and httpx2."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, TypeVar, overload

from lz_otel.catalogue import STATUSES

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["Headers", "attempt_status", "disjoint", "is_cancellation", "lower", "transport_error"]

D = TypeVar("D")

_MAX_HEADERS = 512
_MAX_SHAPES, _MAX_SHAPE = 256, 4096
_STATUS = {int(s): s for s in STATUSES if s.isdigit()}

# Exception classes of httpx and httpx2 by name: the two packages share names, not classes.
_BY_CLASS = {
    "ConnectError": "connect_error",
    "ConnectTimeout": "connect_timeout",
    "ReadError": "read_error",
    "ReadTimeout": "read_timeout",
    "WriteError": "write_error",
    "WriteTimeout": "write_timeout",
    "PoolTimeout": "pool_timeout",
    "RemoteProtocolError": "protocol_error",
    "LocalProtocolError": "protocol_error",
    "ProtocolError": "protocol_error",
    "UnsupportedProtocol": "protocol_error",
    "ProxyError": "connect_error",
    "CloseError": "other_error",
}
_CANCELLATIONS = frozenset({"CancelledError", "Cancelled", "KeyboardInterrupt", "SystemExit"})


class _Shape:
    """The names of one head, in their order: the heads of one peer nearly always have the same.

    Attributes:
        number: how many names there are.
        at: lower-case name to the place of its first value; bounded, whatever the peer sends.
        without: sets of names that were asked for, and whether none of them is here.
    """

    __slots__ = ("at", "number", "without")

    def __init__(self, raw: list[tuple[bytes, bytes]]) -> None:
        self.number = len(raw)
        names = [key.decode("latin-1").lower() for key, _ in raw[:_MAX_HEADERS]]
        self.at = {name: place for place, name in reversed(list(enumerate(names)))}
        self.without: dict[frozenset[str], bool] = {}


class Headers(Mapping[str, str]):
    """Lower-case names with their first values, decoded when they are asked for."""

    __slots__ = ("_at", "_raw", "_shape")

    def __init__(self, raw: list[tuple[bytes, bytes]], shape: _Shape) -> None:
        self._raw = raw
        self._shape = shape
        self._at = shape.at

    def __getitem__(self, name: str) -> str:
        return str(self._raw[self._at[name]][1], "latin-1")

    @overload
    def get(self, name: str, /) -> str | None: ...

    @overload
    def get(self, name: str, /, default: str | D) -> str | D: ...

    def get(self, name: str, /, default: str | D | None = None) -> str | D | None:
        """As of a dictionary."""
        place = self._at.get(name)
        return default if place is None else str(self._raw[place][1], "latin-1")

    def __contains__(self, name: object) -> bool:
        return name in self._at

    def __iter__(self) -> Iterator[str]:
        return iter(self._at)

    def __len__(self) -> int:
        return len(self._at)

    def lacks(self, names: frozenset[str]) -> bool:
        """Whether none of these names is here: worked out once per shape."""
        found = self._shape.without.get(names)
        if found is None:
            found = self._shape.without[names] = names.isdisjoint(self._at)
        return found


_shapes: dict[bytes, _Shape] = {}


def lower(raw: list[tuple[bytes, bytes]]) -> Headers:
    """Lower-case names with their first values; bounded, whatever the peer sends.

    Args:
        raw: ``response.headers.raw`` or ``request.headers.raw``; it is kept.
    """
    names = b"\n".join([key for key, _ in raw])
    shape = _shapes.get(names)
    if shape is None or shape.number != len(raw):  # a name with a line end in it is another shape
        shape = _Shape(raw)
        if len(_shapes) < _MAX_SHAPES and len(names) <= _MAX_SHAPE and names.count(b"\n") == len(raw) - 1:
            _shapes[names] = shape
    return Headers(raw, shape)


def disjoint(names: frozenset[str], headers: Mapping[str, str]) -> bool:
    """Whether headers have none of these names."""
    if type(headers) is Headers:
        return headers.lacks(names)
    return names.isdisjoint(headers)


def attempt_status(status: int) -> str:
    """HTTP status as a value of the catalogue's closed list."""
    found = _STATUS.get(status)
    if found is not None:
        return found
    return f"{status // 100}xx" if 100 <= status <= 599 else "5xx"


def is_cancellation(error: BaseException) -> bool:
    """Whether the caller's task was cancelled (asyncio, trio and anyio alike), or the process is leaving."""
    return not isinstance(error, Exception) and any(c.__name__ in _CANCELLATIONS for c in type(error).__mro__)


def transport_error(error: BaseException) -> str:
    """Exception as a value of the closed list of attempts."""
    for cls in type(error).__mro__:
        found = _BY_CLASS.get(cls.__name__)
        if found is not None:
            return found
    return "cancelled" if is_cancellation(error) else "other_error"
