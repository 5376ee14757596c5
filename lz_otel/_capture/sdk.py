"""Hooks on the request methods of the official SDKs: where a call begins and ends.

``SyncAPIClient.request`` and ``AsyncAPIClient.request`` of ``anthropic._base_client`` and
``openai._base_client``. They carry a context variable, so that the attempts of one call are known to
belong together, and they see custom transports of the SDK's client. Their absence is no error.
"""

from __future__ import annotations

import functools
import sys
import threading
import weakref
from time import perf_counter
from typing import TYPE_CHECKING, Any, NamedTuple

from opentelemetry import context

from lz_otel._capture.call import Call, current_call
from lz_otel._capture.transports import as_function, hook_client
from lz_otel._ground.guard import guard, guarded
from lz_otel._ground.memory import Locked

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import ModuleType

    from lz_otel._capture.transports import Hooks

PACKAGES = ("anthropic", "openai")
_PATIENCE = 1.0  # seconds to wait for another thread that looks inside: longer than it takes (C)


def _nothing() -> None:
    """Return nothing, as a weak reference that has died does."""


class HandedCalls(NamedTuple):
    """What the hooks on SDKs are handed.

    Attributes:
        opened: a request method was entered: when, of which client, with which options; gives the call.
        entered: inside of it, where the SDK's own span is current.
        left: it was left, by its result or by an exception.
        lost: a fault of ours has lost track of a call.
    """

    opened: Callable[[float, Any, Any], Call]
    entered: Callable[[Call], None]
    left: Callable[[Call, BaseException | None], None]
    lost: Callable[[Call], None]


class SdkHooks(Locked):
    """The hooks on the SDKs' client classes, one module at a time.

    Attributes:
        handed: who is told of calls; ``None`` while observing is switched off.
        inside: the inner methods are hooked too.
        last: a weak reference to the client that was looked at last.
    """

    new_lock = staticmethod(threading.Lock)  # not even its holder gets it: see `look_inside`

    def __init__(self, hooks: Hooks) -> None:
        super().__init__()
        self.hooks = hooks
        self.handed: HandedCalls | None = None
        self.inside = False
        self._modules: list[ModuleType] = []
        self._installed: dict[tuple[str, str, str], tuple[Any, Any]] = {}
        self._looked_at: weakref.WeakSet[Any] = weakref.WeakSet()
        self.last: Callable[[], Any] = _nothing

    @property
    def packages(self) -> tuple[str, ...]:
        """Return the SDKs whose request methods are hooked."""
        return tuple(dict.fromkeys(name.partition(".")[0] for name, _, _ in self._installed))

    def hook(self, module: ModuleType) -> None:
        """Hook the client classes of one ``_base_client`` module."""
        if module not in self._modules:
            self._modules.append(module)
        self._install(module, _POINTS)
        if self.inside:
            self.look_inside(_PATIENCE)

    def look_inside(self, patience: float = 0.0) -> None:
        """Hook the inner methods too, from the first call on that is traced: others need not pay for it.

        A signal's handler may call in the middle of it, so no thread waits here for ever.
        """
        if not self._lock.acquire(timeout=patience):
            return
        try:
            self.inside = True
            for module in tuple(self._modules):
                self._install(module, _INNER_POINTS)
        finally:
            self._lock.release()

    def _install(self, module: ModuleType, points: Any) -> None:
        for class_name, method, make in points:
            cls = getattr(module, class_name, None)
            original = None if cls is None else cls.__dict__.get(method)
            key = (module.__name__, class_name, method)
            if original is None or (key in self._installed and self._installed[key][1] is original):
                continue
            hook = make(self, original)
            setattr(cls, method, hook)
            self._installed[key] = (original, hook)

    def look_at(self, http: Any) -> None:
        """Observe a client's transports, whatever they are (MockTransport, aiohttp)."""
        if http not in self._looked_at:
            self._looked_at.add(http)
            hook_client(self.hooks, http)
        self.last = weakref.ref(http)

    def remove(self) -> None:
        """Take off the hooks that are still on top."""
        self.handed = None
        self._looked_at = weakref.WeakSet()
        self.last = _nothing
        self.inside = False
        self._modules = []
        for (name, class_name, method), (original, hook) in list(self._installed.items()):
            cls = getattr(sys.modules.get(name), class_name, None)
            if cls is not None and cls.__dict__.get(method) is hook:
                setattr(cls, method, original)
                del self._installed[(name, class_name, method)]


def _begin(owner: SdkHooks, client: Any, args: Any, kwargs: Any) -> Call | None:
    """Open a call; ``None`` when switched off or already inside one. Never raises."""
    try:
        handed = owner.handed
        if handed is None:
            return None
        outer = current_call.get()
        if outer is not None and not outer.exited:
            return None  # a request inside a request: its attempts belong to the outer call
        http = getattr(client, "_client", None)
        if http is not None and http is not owner.last():
            owner.look_at(http)
        call = handed.opened(perf_counter(), client, args[1] if len(args) > 1 else kwargs.get("options"))
        if call.urgent and not owner.inside:
            owner.look_inside()
        call.token = current_call.set(call)  # last of all: what fails before it leaves nothing behind
        return call
    except Exception as fault:  # noqa: BLE001 - the boundary to the host
        guard.fault("capture", fault)
        return None


def _exit(owner: SdkHooks, call: Call, error: BaseException | None) -> None:
    """Close a call. Never raises."""
    handed = owner.handed
    try:
        token, call.token = call.token, None  # it holds the call, and the call must not hold itself
        try:  # noqa: SIM105 - suppress() costs ten times as much, on every call
            current_call.reset(token)
        except ValueError:  # left in another context: the variable dies with that one
            pass
        if call.span_token is not None:
            context.detach(call.span_token)
        if handed is not None:
            handed.left(call, error)
    except Exception as fault:  # noqa: BLE001 - the boundary to the host
        guard.fault("capture", fault)
        if handed is not None:
            with guarded("capture"):
                handed.lost(call)


def _look_for_span(owner: SdkHooks) -> None:
    """Note the SDK's own span, if it makes one, before HTTP spans hide it. Never raises."""
    with guarded("spans"):
        call = current_call.get()
        if owner.handed is not None and call is not None:
            owner.handed.entered(call)


def _sync_inner(owner: SdkHooks, original: Any) -> Any:
    call = as_function(original)

    @functools.wraps(original)
    def _request(self: Any, *args: Any, **kwargs: Any) -> Any:
        _look_for_span(owner)
        return call(self, *args, **kwargs)

    return _request


def _async_inner(owner: SdkHooks, original: Any) -> Any:
    call = as_function(original)

    @functools.wraps(original)
    async def _request(self: Any, *args: Any, **kwargs: Any) -> Any:
        _look_for_span(owner)
        return await call(self, *args, **kwargs)

    return _request


def _sync_request(owner: SdkHooks, original: Any) -> Any:
    call = as_function(original)

    @functools.wraps(original)
    def request(self: Any, *args: Any, **kwargs: Any) -> Any:
        opened = _begin(owner, self, args, kwargs)
        if opened is None:
            return call(self, *args, **kwargs)
        try:
            result = call(self, *args, **kwargs)
        except BaseException as error:
            _exit(owner, opened, error)
            raise
        _exit(owner, opened, None)
        return result

    return request


def _async_request(owner: SdkHooks, original: Any) -> Any:
    call = as_function(original)

    @functools.wraps(original)
    async def request(self: Any, *args: Any, **kwargs: Any) -> Any:
        opened = _begin(owner, self, args, kwargs)
        if opened is None:
            return await call(self, *args, **kwargs)
        try:
            result = await call(self, *args, **kwargs)
        except BaseException as error:
            _exit(owner, opened, error)
            raise
        _exit(owner, opened, None)
        return result

    return request


_POINTS = (("SyncAPIClient", "request", _sync_request), ("AsyncAPIClient", "request", _async_request))
# Where the SDK's own span is current (``anthropic`` 2.x); absent in some versions.
_INNER_POINTS = (
    ("SyncAPIClient", "_request", _sync_inner),
    ("AsyncAPIClient", "_request", _async_inner),
)
