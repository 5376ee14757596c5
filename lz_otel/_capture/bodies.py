"""The two shells around a response body: they pass every piece on at once and tell the observer.

They hold no decision. Whatever the observer does, the host gets the same bytes, in the same
pieces, and the same exception.
"""

from __future__ import annotations

from time import perf_counter
from typing import TYPE_CHECKING, Any

from lz_otel._ground.guard import guard

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Iterator
    from types import ModuleType

    from lz_otel._capture.attempt import Attempt

__all__ = ["forget", "shells", "tell"]

_SHELLS: dict[str, tuple[Any, Any]] = {}


def tell(method: Callable[..., Any], *arguments: Any) -> None:
    """Call a method of the observer; a fault of ours ends here, and the observer with it."""
    try:
        method(*arguments)
    except Exception as fault:  # noqa: BLE001 - the boundary to the host
        guard.fault("capture", fault)
        observer: Attempt = getattr(method, "__self__")  # noqa: B009 - a bound method always has one
        forget(observer.hub, observer.call)


def forget(hub: Any, call: Any) -> None:
    """After a fault of ours: the hub must not hold this call for ever. Never raises."""
    try:
        hub.lost(call)
    except Exception as fault:  # noqa: BLE001 - the boundary to the host
        guard.fault("capture", fault)


class _Shell:
    """What both shells share: the inner stream, the observer, and being dropped."""

    def __init__(self, inner: Any, observer: Attempt) -> None:
        self._inner = inner
        self._observer = observer

    def __getattr__(self, name: str) -> Any:
        if name in ("_inner", "_observer"):
            raise AttributeError(name)
        return getattr(self._inner, name)


def _dropped(shell: Any) -> None:
    """Finalizer of a shell whose body is not over."""
    observer = shell.__dict__.get("_observer")
    if observer is not None and not observer.over:
        tell(observer.drop)


def shells(module: ModuleType) -> tuple[Any, Any]:
    """The sync and the async shell for ``httpx`` or ``httpx2`` (they must derive from its stream classes)."""
    made = _SHELLS.get(module.__name__)
    if made is not None:
        return made

    class SyncBody(_Shell, module.SyncByteStream):  # type: ignore[misc, name-defined]
        def __iter__(self) -> Iterator[bytes]:
            observer = self._observer
            try:
                for piece in self._inner:
                    try:
                        observer.feed(piece, perf_counter())
                    except Exception as fault:  # noqa: BLE001 - the boundary to the host
                        guard.fault("extract", fault)
                        tell(observer.doubt)
                    yield piece
            except GeneratorExit:
                tell(observer.drop)
                raise
            except BaseException as error:
                tell(observer.fail, error)
                raise
            tell(observer.end)
            self.__class__ = SyncBody

        def close(self) -> None:
            tell(self._observer.close)
            self.__class__ = SyncBody
            self._inner.close()

    # Only until the body is over: what a signal's handler raises in a finalizer never reaches the host
    class UnreadSyncBody(SyncBody):
        __del__ = _dropped

    class AsyncBody(_Shell, module.AsyncByteStream):  # type: ignore[misc, name-defined]
        async def __aiter__(self) -> AsyncIterator[bytes]:
            observer = self._observer
            try:
                async for piece in self._inner:
                    try:
                        observer.feed(piece, perf_counter())
                    except Exception as fault:  # noqa: BLE001 - the boundary to the host
                        guard.fault("extract", fault)
                        tell(observer.doubt)
                    yield piece
            except GeneratorExit:
                tell(observer.drop)
                raise
            except BaseException as error:
                tell(observer.fail, error)
                raise
            tell(observer.end)
            self.__class__ = AsyncBody

        async def aclose(self) -> None:
            tell(self._observer.close)
            self.__class__ = AsyncBody
            await self._inner.aclose()

    class UnreadAsyncBody(AsyncBody):
        __del__ = _dropped

    _SHELLS[module.__name__] = (UnreadSyncBody, UnreadAsyncBody)
    return _SHELLS[module.__name__]
