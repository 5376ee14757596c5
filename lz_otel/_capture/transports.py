"""Hooks on the transports of httpx and httpx2: idempotent, removable, never in anybody's way.

``HTTPTransport.handle_request`` and ``AsyncHTTPTransport.handle_async_request`` of whichever of the two
modules is installed, and the same methods of the host's own classes, once a client with a transport of one is
met. It is functions that are hooked (`hook`), on the class that has them: a transport is never touched.
``Client.send`` is where a call of a plain client begins and ends: redirects, steps of authentication and
transports that send again are within it.
"""

from __future__ import annotations

import sys
import weakref
from contextlib import suppress
from functools import partial
from time import perf_counter
from typing import TYPE_CHECKING, Any

from lz_otel._capture.attempt import Attempt, attach, shells
from lz_otel._capture.call import current_call, current_send, inner_seen
from lz_otel._capture.hook import HookedFunctions, Steps
from lz_otel._ground.guard import guard, guarded

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import ModuleType

    from lz_otel._capture.call import Call

MODULES = ("httpx", "httpx2")
# A class, its method, and whether that is awaited
_POINTS = (("HTTPTransport", "handle_request", False), ("AsyncHTTPTransport", "handle_async_request", True))
_METHODS = frozenset({"POST", "GET"})
_CLIENTS = (("Client", False), ("AsyncClient", True))


class Hooks:
    """The hooks in force.

    Attributes:
        begin: asked about each request, with the time it began (``None``: now); gives the attempt to take
            notes in, or ``None`` for a request that is no LLM call. ``None`` while switched off.
        left: told that a client has left the call it was sending, by its result or by an exception.
        lost: told of a call that a fault of ours has lost track of.
    """

    def __init__(self) -> None:
        self.begin: Callable[[Any, float | None], Attempt | None] | None = None
        self.left: Callable[[Call, BaseException | None], None] | None = None
        self.lost: Callable[[Call], None] | None = None
        self._functions = HookedFunctions()
        self._own: dict[tuple[str, bool], Steps] = {}  # around the transports of a module
        self._others = {w: Steps(w, partial(_enter, self), partial(_leave, self, w)) for w in (False, True)}
        self._made = Steps(False, _client_of, partial(_look_at, self))
        self._sends = {
            waits: Steps(
                waits,
                lambda args, kwargs: _sends(self, *args[1:], **kwargs),
                partial(_sent, self),
                (code, partial(_sends, self), partial(_sent, self)),
            )
            for waits, code in ((False, _send), (True, _send_async))
        }
        # By identity the transports that were counted: they may be equal to each other, or have no hash
        self._counted: weakref.WeakValueDictionary[int, Any] = weakref.WeakValueDictionary()

    def __reduce__(self) -> Any:
        """Go with the code that calls them, where that is pickled (`hook`), as hooks that do nothing."""
        return Hooks, ()

    def install(self, module: ModuleType) -> None:
        """Hook the transports of one module."""
        name, bodies = module.__name__, shells(module)
        for class_name, method, waits in _POINTS:
            code = _handle_async if waits else _handle
            short = (code, partial(begin_attempt, self), partial(attach, bodies[waits]))
            steps = self._own.setdefault((name, waits), self._others[waits]._replace(short=short))
            self._functions.hook(getattr(module, class_name), method, steps)
        for class_name, waits in _CLIENTS:
            self._functions.hook(getattr(module, class_name), "__init__", self._made)  # whatever transport
            self._functions.hook(getattr(module, class_name), "send", self._sends[waits])

    def observe(self, transport: Any) -> bool:
        """Observe a transport of the host's own, by its class.

        Returns:
            Whether it is observed because of that.
        """
        places = (transport, *type(transport).__mro__)
        hooked = False
        for _, method, waits in _POINTS:  # both kinds exist on doubles; a client only ever calls its own
            owner = next((place for place in places if method in getattr(place, "__dict__", ())), None)
            if owner is not None:
                hooked = self._functions.hook(owner, method, self._others[waits]) or hooked
            elif (
                behind := getattr(getattr(transport, method, None), "__self__", transport)
            ) is not transport:
                return self.observe(behind)  # a proxy, which hands out the method of another
        return hooked

    def is_new(self, transport: Any) -> bool:
        """Return whether a transport was not counted before."""
        if id(transport) in self._counted:
            return False
        with suppress(TypeError):  # slots without __weakref__: counted each time
            self._counted[id(transport)] = transport
        return True

    def remove(self) -> None:
        """Take off what is ours; what others have covered stays, switched off."""
        self.begin = self.left = self.lost = None
        self._counted.clear()
        self._functions.remove()


def begin_attempt(hooks: Hooks, request: Any, started_at: float | None = None) -> Attempt | None:
    """Return the attempt that this request is, ``None`` for one that is no LLM call. Never raises."""
    begin = hooks.begin
    try:
        if begin is None or request.method not in _METHODS:
            return None
        attempt = begin(request, started_at)
        if attempt is not None:
            seen = inner_seen.get()
            if seen is not None:
                seen.append(True)
        return attempt
    except Exception as fault:  # noqa: BLE001 - the boundary to the host
        guard.fault("capture", fault)
        return None


# --- a call of a plain client ----------------------------------------------------------------


class _Send:
    """A client at work on one request: what it sends meanwhile is one call, begun by the first attempt."""

    __slots__ = ("call", "token")

    def __init__(self) -> None:
        self.call: Call | None = None
        self.token: Any = current_send.set(self)  # last of all: what fails before it leaves nothing behind


def _sends(hooks: Hooks, request: Any = None, **_: Any) -> _Send | None:
    """Note that a client is at work; ``None`` within the call of an SDK or of another client."""
    try:
        if hooks.begin is None or request.method != "POST":
            return None
        call, outer = current_call.get(), current_send.get()
        if (call is not None and not call.exited) or (outer is not None and outer.token is not None):
            return None
        return _Send()
    except Exception as fault:  # noqa: BLE001 - the boundary to the host
        guard.fault("capture", fault)
        return None


def _sent(hooks: Hooks, send: _Send, response: Any, error: BaseException | None) -> None:
    """Note that it has an answer, whose body may not be read yet, or raises. Never raises."""
    token, send.token = send.token, None
    try:
        try:  # noqa: SIM105 - suppress() costs ten times as much, on every call
            current_send.reset(token)
        except ValueError:  # left in another context: the variable dies with that one
            pass
        if send.call is not None and hooks.left is not None:
            hooks.left(send.call, error)
    except Exception as fault:  # noqa: BLE001 - the boundary to the host
        guard.fault("capture", fault)
        if send.call is not None and hooks.lost is not None:
            with guarded("capture"):
                hooks.lost(send.call)


# The code that the modules' own functions get: nothing is packed on the path of every request.


def _send(self: Any, request: Any, **options: Any) -> Any:
    tools: Any = ("enter", "leave", "original")
    enter, leave, original = tools
    send = enter(request)
    if send is None:
        return original(self, request, **options)
    try:
        response = original(self, request, **options)
    except BaseException as error:
        leave(send, None, error)
        raise
    leave(send, response, None)
    return response


async def _send_async(self: Any, request: Any, **options: Any) -> Any:
    tools: Any = ("enter", "leave", "original")
    enter, leave, original = tools
    send = enter(request)
    if send is None:
        return await original(self, request, **options)
    try:
        response = await original(self, request, **options)
    except BaseException as error:
        leave(send, None, error)
        raise
    leave(send, response, None)
    return response


def _handle(self: Any, request: Any) -> Any:
    tools: Any = ("enter", "leave", "original")
    begin, leave, original = tools
    attempt = begin(request)
    if attempt is None:
        return original(self, request)
    try:
        response = original(self, request)
    except BaseException as error:
        leave(attempt, None, error)
        raise
    leave(attempt, response, None)
    return response


async def _handle_async(self: Any, request: Any) -> Any:
    tools: Any = ("enter", "leave", "original")
    begin, leave, original = tools
    attempt = begin(request)
    if attempt is None:
        return await original(self, request)
    try:
        response = await original(self, request)
    except BaseException as error:
        leave(attempt, None, error)
        raise
    leave(attempt, response, None)
    return response


def _client_of(args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    return args[0]


def _look_at(hooks: Hooks, client: Any, _: None, error: BaseException | None) -> None:
    """Observe the transports of a client that has been made. Never raises."""
    if error is None and hooks.begin is not None:
        with guarded("capture"):
            _observe_all(hooks, client)


# --- transports that are not the modules' own -------------------------------------------------


def hook_client(hooks: Hooks, client: Any) -> int:
    """Observe the custom transports of one client (MockTransport, ASGITransport, httpx-aiohttp ...).

    Returns:
        How many of its transports are observed now beyond those hooked anyway. Never raises.
    """
    try:
        return sum(map(hooks.is_new, _observe_all(hooks, client)))
    except Exception as fault:  # noqa: BLE001 - the boundary to the host
        guard.fault("capture", fault)
        return 0


def _observe_all(hooks: Hooks, client: Any) -> list[Any]:
    """Return the transports of a client that are observed by their class."""
    if _module_of(client) is None:
        return []
    transports = (getattr(client, "_transport", None), *getattr(client, "_mounts", {}).values())
    return [one for one in transports if one is not None and hooks.observe(one)]


def _module_of(thing: Any) -> ModuleType | None:
    """Return which of the two modules a client or a request is of."""
    for cls in type(thing).__mro__:
        root = cls.__module__.partition(".")[0]
        if root in MODULES:
            return sys.modules.get(root)
    return None


class _Outer:
    """The time in which a custom transport works, perhaps by way of transports that are hooked too.

    The innermost transport that sees a request reports it: ours comes into play only when no hooked
    transport inside has seen it, so it begins when the inner one has answered.
    """

    __slots__ = ("module", "request", "seen", "started_at", "token")

    def __init__(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        self.request = kwargs["request"] if kwargs else args[-1]
        self.module = _module_of(self.request)
        self.started_at = perf_counter()
        self.seen: list[bool] = []
        self.token = inner_seen.set(self.seen)  # last of all: what fails before it leaves nothing behind


def _enter(hooks: Hooks, args: tuple[Any, ...], kwargs: dict[str, Any]) -> _Outer | None:
    """Note that a transport of the host's own is entered. Never raises."""
    if hooks.begin is None:
        return None
    try:
        return _Outer(args, kwargs)
    except Exception as fault:  # noqa: BLE001 - the boundary to the host
        guard.fault("capture", fault)
        return None


def _leave(hooks: Hooks, waits: bool, outer: _Outer, response: Any, error: BaseException | None) -> None:
    """Take notes of its request, unless a transport inside has. Never raises."""
    with suppress(ValueError):  # left in another context: the variable dies with its own
        inner_seen.reset(outer.token)
    if outer.seen or outer.module is None:
        return
    attempt = begin_attempt(hooks, outer.request, outer.started_at)
    if attempt is not None:
        attach(shells(outer.module)[waits], attempt, response, error)
