"""Hooks on the transports of httpx and httpx2: idempotent, removable, never in anybody's way.

``HTTPTransport.handle_request`` and ``AsyncHTTPTransport.handle_async_request`` of whichever of
the two modules is installed. Another library's wrapper may lie under or over ours: we call what
we found, and take off only what is ours and on top; a buried hook is switched off by its flag
and used again by the next ``instrument()``.
"""

from __future__ import annotations

import functools
import itertools
import sys
import weakref
from time import perf_counter
from types import FunctionType
from typing import TYPE_CHECKING, Any

from lz_otel._capture.attempt import Attempt, attach, shells, take_notes
from lz_otel._capture.call import inner_seen
from lz_otel._ground.guard import guard, guarded

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import ModuleType

MODULES = ("httpx", "httpx2")
_POINTS = (("HTTPTransport", "handle_request"), ("AsyncHTTPTransport", "handle_async_request"))
# Weak references to a transport and to its hook, and the method's name. Nothing here keeps a transport alive.
_OWN_TRANSPORTS: dict[int, tuple[weakref.ref[Any], str, weakref.ref[Any]]] = {}
_KEYS = itertools.count()


class Hooks:
    """The hooks in force.

    Attributes:
        begin: asked about each request, with the time it began (``None``: now); gives the attempt to take
            notes in, or ``None`` for a request that is no LLM call. ``None`` while switched off.
    """

    def __init__(self) -> None:
        self.begin: Callable[[Any, float | None], Attempt | None] | None = None
        self._installed: dict[tuple[str, str], tuple[Any, Any]] = {}

    @property
    def modules(self) -> tuple[str, ...]:
        """Return the names of the modules whose transports are hooked."""
        return tuple(dict.fromkeys(name for name, _ in self._installed))

    def install(self, module: ModuleType) -> None:
        """Hook the transports of one module."""
        for class_name, method in _POINTS:
            cls = getattr(module, class_name)
            key = (module.__name__, method)
            current = cls.__dict__[method]
            if key in self._installed and _contains(current, self._installed[key][1]):
                continue  # ours is still there, on top or under another's
            make = _sync_hook if method == "handle_request" else _async_hook
            hook = make(self, module, current)
            setattr(cls, method, hook)
            self._installed[key] = (current, hook)

    def remove(self) -> None:
        """Take off what is ours and on top; what is buried stays, switched off."""
        self.begin = None
        for (name, method), (original, hook) in list(self._installed.items()):
            class_name = next(c for c, m in _POINTS if m == method)
            cls = getattr(sys.modules[name], class_name)
            if cls.__dict__.get(method) is hook:
                setattr(cls, method, original)
                del self._installed[(name, method)]


def _contains(outer: Any, hook: Any) -> bool:
    """Return whether a chain of wrappers holds our hook."""
    seen = 0
    while outer is not None and seen < 50:
        if outer is hook:
            return True
        outer = getattr(outer, "__wrapped__", None)
        seen += 1
    return False


def as_function(original: Any) -> Callable[..., Any]:
    """Return what was found on a class, to be called with its instance first."""
    if type(original) is FunctionType:  # not isinstance: a wrapper of wrapt claims to be what it wraps
        return original

    def bound(self: Any, *args: Any, **kwargs: Any) -> Any:
        return original.__get__(self, type(self))(*args, **kwargs)

    return bound


def _begin(hooks: Hooks, request: Any, started_at: float | None = None) -> Attempt | None:
    """Return the attempt that this request is, ``None`` for one that is no LLM call. Never raises."""
    begin = hooks.begin
    if begin is None or request.method != "POST":
        return None
    try:
        attempt = begin(request, started_at)
        if attempt is not None:
            seen = inner_seen.get()
            if seen is not None:
                seen.append(True)
        return attempt
    except Exception as fault:  # noqa: BLE001 - the boundary to the host
        guard.fault("capture", fault)
        return None


def _sync_hook(hooks: Hooks, module: ModuleType, original: Any) -> Any:
    body, _ = shells(module)
    call = as_function(original)

    @functools.wraps(original)
    def handle_request(self: Any, request: Any) -> Any:
        attempt = _begin(hooks, request)
        if attempt is None:
            return call(self, request)
        try:
            response = call(self, request)
        except BaseException as error:
            take_notes(Attempt.fail, attempt, error)
            raise
        attach(attempt, response, body)
        return response

    return handle_request


def _async_hook(hooks: Hooks, module: ModuleType, original: Any) -> Any:
    _, body = shells(module)
    call = as_function(original)

    @functools.wraps(original)
    async def handle_async_request(self: Any, request: Any) -> Any:
        attempt = _begin(hooks, request)
        if attempt is None:
            return await call(self, request)
        try:
            response = await call(self, request)
        except BaseException as error:
            take_notes(Attempt.fail, attempt, error)
            raise
        attach(attempt, response, body)
        return response

    return handle_async_request


# --- transports that are not the modules' own -------------------------------------------------


def hook_client(hooks: Hooks, client: Any) -> int:
    """Observe the custom transports of one client (MockTransport, ASGITransport, httpx-aiohttp ...).

    Returns:
        How many of its transports are observed now beyond those hooked anyway.
    """
    count = 0
    transports = [getattr(client, "_transport", None), *getattr(client, "_mounts", {}).values()]
    for transport in transports:
        if transport is None:
            continue
        hooked = False
        for class_name, method in _POINTS:
            function = getattr(type(transport), method, None)
            if function is None or _is_plain(transport, class_name):
                continue
            if method in getattr(transport, "__dict__", {}):
                continue
            # both kinds exist on doubles; a client only ever calls its own
            module = _module_of(client)
            if module is None:
                continue
            hooked = _hook_instance(hooks, module, transport, method) or hooked
        count += hooked
    return count


def _is_plain(transport: Any, class_name: str) -> bool:
    """Return whether the class hook sees this transport already."""
    method = dict(_POINTS)[class_name]
    for name in MODULES:
        module = sys.modules.get(name)
        cls = getattr(module, class_name, None)
        if cls is not None and isinstance(transport, cls):
            return type(transport) is cls or method not in type(transport).__dict__
    return False


def _module_of(client: Any) -> ModuleType | None:
    for cls in type(client).__mro__:
        root = cls.__module__.partition(".")[0]
        if root in MODULES:
            return sys.modules.get(root)
    return None


class _Outer:
    """The time in which a custom transport works, perhaps by way of transports that are hooked too.

    The innermost transport that sees a request reports it: ours comes into play only when no hooked
    transport inside has seen it, so it begins when the inner one has answered.
    """

    __slots__ = ("_hooks", "_request", "_seen", "_started_at", "_token")

    def __init__(self, hooks: Hooks, request: Any) -> None:
        self._hooks = hooks
        self._request = request

    def __enter__(self) -> _Outer:
        self._started_at = _now()
        self._seen: list[bool] = []
        self._token = inner_seen.set(self._seen)
        return self

    def __exit__(self, kind: object, error: BaseException | None, traceback: object) -> None:
        try:  # noqa: SIM105 - suppress() costs too much on the path of every call
            inner_seen.reset(self._token)
        except ValueError:  # closed in another context: the variable dies with its own
            pass
        if error is not None:
            attempt = self.attempt()
            if attempt is not None:
                take_notes(Attempt.fail, attempt, error)

    def attempt(self) -> Attempt | None:
        """Return the attempt, unless a transport inside has reported it."""
        return None if self._seen else _begin(self._hooks, self._request, self._started_at)


def _hook_instance(hooks: Hooks, module: ModuleType, transport: Any, method: str) -> bool:
    """Put our hook on the instance, so that type and identity of the transport stay what they are.

    The hook holds the transport, as the bound method in whose place it stands did: who took it off the
    transport may call it when nothing else holds the transport any more.
    """
    sync_body, async_body = shells(module)
    original = getattr(transport, method)
    key = next(_KEYS)

    def forget(_: Any, pop: Callable[..., Any] = _OWN_TRANSPORTS.pop) -> None:
        pop(key, None)  # perhaps within the garbage collector, in any thread: one atomic operation

    try:
        reference = weakref.ref(transport, forget)
    except TypeError:  # slots without __weakref__: we could not let go of it
        return False

    def handle_request(request: Any) -> Any:
        with _Outer(hooks, request) as outer:
            response = original(request)
        attempt = outer.attempt()
        if attempt is not None:
            attach(attempt, response, sync_body)
        return response

    async def handle_async_request(request: Any) -> Any:
        with _Outer(hooks, request) as outer:
            response = await original(request)
        attempt = outer.attempt()
        if attempt is not None:
            attach(attempt, response, async_body)
        return response

    hook = handle_request if method == "handle_request" else handle_async_request
    try:
        setattr(transport, method, hook)
    except AttributeError:  # slots: this transport cannot carry a hook
        return False
    _OWN_TRANSPORTS[key] = (reference, method, weakref.ref(hook))
    return True


def _now() -> float | None:
    """Return the time, ``None`` if even that fails: the intake then takes its own. Never raises."""
    with guarded("capture"):
        return perf_counter()
    return None


def unhook_clients() -> None:
    """Take our hooks off the transports of `hook_client`, where they are still ours."""
    while _OWN_TRANSPORTS:
        try:
            _, (reference, method, hook) = _OWN_TRANSPORTS.popitem()
        except KeyError:  # the last one was collected just now
            return
        transport = reference()
        if transport is None:
            continue
        found = transport.__dict__.get(method)
        if found is not None and found is hook():
            delattr(transport, method)
