"""Headers and transport errors as plain data, the same for httpx and httpx2."""

from __future__ import annotations

from lz_otel.catalogue import STATUSES

__all__ = ["attempt_status", "is_cancellation", "lower", "transport_error"]

_MAX_HEADERS = 512
_MAX_NAMES = 2048
_EXACT = frozenset(s for s in STATUSES if s.isdigit())

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


class _Names(dict[bytes, str]):
    """Header names as they came, with their lower-case text: decoded once, bounded."""

    def __missing__(self, key: bytes) -> str:
        name = key.decode("latin-1").lower()
        if len(self) < _MAX_NAMES:
            self[key] = name
        return name


_names = _Names()


def lower(raw: list[tuple[bytes, bytes]]) -> dict[str, str]:
    """Lower-case names with their first values; bounded, whatever the peer sends.

    Args:
        raw: ``response.headers.raw`` or ``request.headers.raw``.
    """
    names = _names
    return {names[key]: str(value, "latin-1") for key, value in reversed(raw[:_MAX_HEADERS])}


def attempt_status(status: int) -> str:
    """HTTP status as a value of the catalogue's closed list."""
    text = str(status)
    if text in _EXACT:
        return text
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
