"""Headers and transport errors as plain data, the same for httpx and httpx2."""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from operator import itemgetter
from typing import TYPE_CHECKING, Any, TypeVar, overload

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    Raw = list[tuple[bytes, bytes]]

D = TypeVar("D")

_JSON = "application/json"
_JSON_WITH = (_JSON + ";", _JSON + " ")  # parameters
_name = itemgetter(0)
_MAX_HEADERS = 512
_MAX_SHAPES, _MAX_SHAPE = 256, 4096

# Exception classes by name: httpx and httpx2 share names, not classes. Below them those of urllib3, of
# aiohttp, and of Python itself.
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
    "NewConnectionError": "connect_error",
    "ConnectTimeoutError": "connect_timeout",
    "ReadTimeoutError": "read_timeout",
    "IncompleteRead": "protocol_error",
    "RemoteDisconnected": "protocol_error",
    "BadStatusLine": "protocol_error",
    "ClientConnectorError": "connect_error",
    "ClientHttpProxyError": "connect_error",
    "ConnectionTimeoutError": "connect_timeout",
    "ServerTimeoutError": "read_timeout",
    "ServerDisconnectedError": "protocol_error",
    "ClientPayloadError": "protocol_error",
    "ClientOSError": "read_error",
    "BrokenPipeError": "write_error",
    "ConnectionResetError": "read_error",
    "ConnectionRefusedError": "connect_error",
    "TimeoutError": "read_timeout",
}
_TLS_ENDS = frozenset({"SSLEOFError", "SSLZeroReturnError", "SSLWantReadError", "SSLWantWriteError"})
_CANCELLATIONS = frozenset({"CancelledError", "Cancelled", "KeyboardInterrupt", "SystemExit"})


# Names whose values are not read here: what is not kept is memory that the host has back at once
_UNREAD = {
    "accept", "accept-encoding", "accept-language", "accept-ranges", "alt-svc", "cf-ray", "connection",
    "content-security-policy", "cookie", "cross-origin-opener-policy", "date", "etag", "expires", "host",
    "keep-alive", "last-modified", "nel", "permissions-policy", "pragma", "referrer-policy", "report-to",
    "reporting-endpoints", "set-cookie", "strict-transport-security", "traceparent", "tracestate",
    "transfer-encoding", "user-agent", "vary", "x-content-type-options", "x-frame-options",
    "x-stainless-arch", "x-stainless-async", "x-stainless-lang", "x-stainless-os",
    "x-stainless-package-version", "x-stainless-read-timeout", "x-stainless-runtime",
    "x-stainless-runtime-version", "x-stainless-timeout", "x-xss-protection",
}  # fmt: skip


class _Lacks(dict[frozenset[str], bool]):
    """Sets of names to whether none of them is in a head of this shape; asking again calls no Python."""

    def __init__(self, at: dict[str, int]) -> None:
        super().__init__()
        self._at = at

    def __missing__(self, names: frozenset[str]) -> bool:
        answer = self[names] = names.isdisjoint(self._at)
        return answer


class _Shape:
    """The names of one head, in their order: the heads of one peer nearly always have the same.

    Attributes:
        places: which values are kept; bounded, whatever the peer sends.
        at: lower-case name to the place of its first value among those.
        lacks: whether none of a set of names is here.
    """

    __slots__ = ("at", "lacks", "places")

    def __init__(self, names: list[bytes]) -> None:
        first: dict[str, int] = {}
        for place, name in enumerate(names[:_MAX_HEADERS]):
            first.setdefault(name.decode("latin-1").lower(), place)
        kept = [(name, place) for name, place in first.items() if name not in _UNREAD]
        self.places = tuple(place for _, place in kept)
        self.at = {name: index for index, (name, _) in enumerate(kept)}
        self.lacks = _Lacks(self.at)


class Headers(Mapping[str, str]):
    """Lower-case names with their first values, decoded when asked for; without those that are not read."""

    __slots__ = ("_at", "_values", "lacks")

    def __init__(self, values: list[bytes], shape: _Shape) -> None:
        self._values = values
        self._at = shape.at
        self.lacks = shape.lacks
        """``lacks[names]``: whether none of these names is here; worked out once for all heads of a shape."""

    def __getitem__(self, name: str) -> str:
        return str(self._values[self._at[name]], "latin-1")

    @overload
    def get(self, name: str, /) -> str | None: ...

    @overload
    def get(self, name: str, /, default: str | D) -> str | D: ...

    def get(self, name: str, /, default: str | D | None = None) -> str | D | None:
        """Return the value of a name, as of a dictionary."""
        place = self._at.get(name)
        return default if place is None else str(self._values[place], "latin-1")

    def __contains__(self, name: object) -> bool:
        return name in self._at

    def __iter__(self) -> Iterator[str]:
        return iter(self._at)

    def __len__(self) -> int:
        return len(self._at)


@lru_cache(_MAX_SHAPES)
def _shape(names: bytes) -> _Shape:
    """Worked out once for all heads that have the same names."""
    return _Shape(names.split(b"\n"))


def read(headers: Any) -> Headers:
    """Read the ``Headers`` of httpx or httpx2, as `lower` does.

    Their ``raw`` makes a list of pairs out of the triples (name as sent, lower-case name, value) that they
    hold: those are taken where they are as known, which saves two microseconds of a call.
    """
    triples = getattr(headers, "_list", None)
    if type(triples) is list:
        try:
            shape = _shape_of(triples)
            return Headers([triples[place][2] for place in shape.places], shape)
        except (IndexError, TypeError):  # another version's way
            pass
    return lower(headers.raw)


def read_head(headers: Any) -> tuple[Headers, bool]:
    """Read as `read` does, and whether ``content-type`` is JSON: such a body can be read later."""
    head = read(headers)
    kind = head.get("content-type", "")
    return head, kind == _JSON or kind.startswith(_JSON_WITH)


def lower(raw: Raw) -> Headers:
    """Lower-case names with their first values; bounded, whatever the peer sends.

    Args:
        raw: pairs of name and value, as of ``headers.raw``.
    """
    shape = _shape_of(raw)
    return Headers([raw[place][1] for place in shape.places], shape)


def _shape_of(rows: Sequence[Sequence[bytes]]) -> _Shape:
    """Return the shape of heads whose rows begin with the name."""
    names = b"\n".join(map(_name, rows))
    if (
        len(names) > _MAX_SHAPE or names.count(b"\n") != len(rows) - 1
    ):  # none, or a name with a line end in it
        return _Shape([row[0] for row in rows])
    return _shape(names)


NO_HEADERS = Headers([], _Shape([]))
"""The head of a response that has not arrived."""


def head_of(values: Mapping[str, str]) -> Headers:
    """Return a head with these names and values."""
    return lower(
        [
            (name.encode("latin-1", "replace"), value.encode("latin-1", "replace"))
            for name, value in values.items()
        ]
    )


def without(headers: Headers, name: str) -> Headers:
    """Return the same head without one of its names."""
    return head_of({key: value for key, value in headers.items() if key != name})


def keep(names: frozenset[str]) -> None:
    """Keep the values of these headers from now on, whatever they are called: a setting names them."""
    if not names.isdisjoint(_UNREAD):
        _UNREAD.difference_update(names)
        _shape.cache_clear()


def is_cancellation(error: BaseException) -> bool:
    """Return whether a task was cancelled (asyncio, trio and anyio alike), or the process is leaving."""
    return not isinstance(error, Exception) and any(c.__name__ in _CANCELLATIONS for c in type(error).__mro__)


def tls_fault(error: BaseException) -> BaseException | None:
    """Return the fault of TLS that an exception of the client stands for, if it does.

    An end of the connection, even within TLS, is none.
    """
    cause: BaseException | None = error
    for _ in range(8):
        if cause is None:
            return None
        names = {cls.__name__ for cls in type(cause).__mro__}
        if "SSLError" in names and names.isdisjoint(_TLS_ENDS):
            return cause
        cause = cause.__cause__ or cause.__context__
    return None


def transport_error(error: BaseException) -> str:
    """Exception as a value of the closed list of attempts."""
    for cls in type(error).__mro__:
        found = _BY_CLASS.get(cls.__name__)
        if found is not None:
            return found
    return "cancelled" if is_cancellation(error) or isinstance(error, GeneratorExit) else "other_error"


def failure(error: BaseException) -> tuple[str, str]:
    """Return the class of an exception (empty for a cancellation), and the status of its attempt."""
    status = transport_error(error)
    if status == "cancelled":
        return "", status
    fault = tls_fault(error)
    return (type(error).__name__, status) if fault is None else (type(fault).__name__, "tls_error")
