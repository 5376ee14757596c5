"""Headers and transport errors as plain data, the same for httpx and httpx2."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lz_otel.catalogue import STATUSES

if TYPE_CHECKING:
    from collections.abc import Iterable

__all__ = ["attempt_status", "is_cancellation", "lower", "transport_error"]

_MAX_HEADERS = 512
_MAX_VALUE = 16_384
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


def lower(raw: Iterable[tuple[bytes, bytes]]) -> dict[str, str]:
    """Lower-case names with their first values; bounded, whatever the peer sends.

    Args:
        raw: ``response.headers.raw`` or ``request.headers.raw``.
    """
    out: dict[str, str] = {}
    for count, (key, value) in enumerate(raw):
        if count >= _MAX_HEADERS:
            break
        if len(value) <= _MAX_VALUE and len(key) <= 256:
            out.setdefault(key.decode("latin-1").lower(), value.decode("latin-1"))
    return out


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
