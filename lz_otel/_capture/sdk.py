"""Hooks on the request methods of the official SDKs: where a call begins and ends.

The functions ``SyncAPIClient.request`` and ``AsyncAPIClient.request`` of ``anthropic._base_client`` and
``openai._base_client``. They hold the loop of retries and run once for each call, whoever has wrapped them,
on whichever class or client, before us or after (`hook`). They carry a context variable, so that the attempts
of one call are known to belong together, and they see custom transports of the SDK's client. Their absence is
no error.
"""

from __future__ import annotations

import weakref
from functools import partial
from time import perf_counter
from typing import TYPE_CHECKING, Any, NamedTuple

from opentelemetry import context

from lz_otel._capture.call import Call, current_call
from lz_otel._capture.hook import HookedFunctions, Steps
from lz_otel._capture.transports import hook_client
from lz_otel._ground.guard import guard, guarded

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import ModuleType

    from lz_otel._capture.transports import Hooks

_CLASSES = (("SyncAPIClient", False), ("AsyncAPIClient", True))  # and whether their methods are awaited


def _nothing(*_: Any) -> None:
    """Return nothing, as a weak reference that has died does."""


class HandedCalls(NamedTuple):
    """What the hooks on SDKs are handed.

    Attributes:
        opened: a request method was entered: when, of which client, with which options; gives the call.
        entered: inside of it, where the SDK's own span is current.
        left: it was left, by its result or by an exception.
        lost: a fault of ours has lost track of a call.
        is_call: whether a request with this method and path may be one.
    """

    opened: Callable[[float, Any, Any], Call]
    entered: Callable[[Call], None]
    left: Callable[[Call, BaseException | None], None]
    lost: Callable[[Call], None]
    is_call: Callable[[str, str], bool]


class SdkHooks:
    """The hooks on the SDKs' client classes, one module at a time.

    Attributes:
        handed: who is told of calls; ``None`` while observing is switched off.
        inside: the inner methods are hooked too.
        last: a weak reference to the client that was looked at last.
    """

    def __init__(self, hooks: Hooks) -> None:
        self.hooks = hooks
        self.handed: HandedCalls | None = None
        self.inside = False
        self._modules: list[ModuleType] = []
        self._functions = HookedFunctions()
        self._looked_at: weakref.WeakSet[Any] = weakref.WeakSet()
        self.last: Callable[[], Any] = _nothing
        self._around = {w: Steps(w, partial(_begin, self), partial(leave_call, self)) for w in (False, True)}
        self._within = {w: Steps(w, partial(_look_for_span, self), _nothing) for w in (False, True)}

    def hook(self, module: ModuleType) -> bool:
        """Hook the client classes of one ``_base_client`` module. Returns whether it has any."""
        found = self._install(module, "request", self._around)
        if found and module not in self._modules:
            self._modules.append(module)
        if self.inside:
            self.look_inside()
        return found

    def look_inside(self) -> None:
        """Hook the inner methods too, from the first call on that is traced: others need not pay for it.

        There the SDK's own span is current (``anthropic`` 2.x); some versions have no such method.
        """
        self.inside = True
        for module in tuple(self._modules):
            self._install(module, "_request", self._within)

    def _install(self, module: ModuleType, method: str, steps: dict[bool, Steps]) -> bool:
        found = False
        for class_name, waits in _CLASSES:
            cls = getattr(module, class_name, None)
            if cls is not None and method in cls.__dict__:
                found = self._functions.hook(cls, method, steps[waits]) or found
        return found

    def look_at(self, http: Any) -> None:
        """Observe a client's transports, whatever they are (MockTransport, aiohttp)."""
        if http not in self._looked_at:
            self._looked_at.add(http)
            hook_client(self.hooks, http)
        self.last = weakref.ref(http)

    def remove(self) -> None:
        """Take off what is ours; what others have covered stays, switched off."""
        self.handed = None
        self._looked_at = weakref.WeakSet()
        self.last = _nothing
        self.inside = False
        self._modules = []
        self._functions.remove()


def _begin(owner: SdkHooks, args: Any, kwargs: Any) -> Call | None:
    """Open a call; ``None`` when switched off or already inside one. Never raises."""
    try:
        handed = owner.handed
        if handed is None:
            return None
        outer = current_call.get()
        if outer is not None and not outer.exited:
            return None  # a request inside a request: its attempts belong to the outer call
        client = args[0]
        http = getattr(client, "_client", None)
        if http is not None and http is not owner.last():
            owner.look_at(http)
        call = handed.opened(perf_counter(), client, args[2] if len(args) > 2 else kwargs.get("options"))
        if call.urgent and not owner.inside:
            owner.look_inside()
        call.token = current_call.set(call)  # last of all: what fails before it leaves nothing behind
        return call
    except Exception as fault:  # noqa: BLE001 - the boundary to the host
        guard.fault("capture", fault)
        return None


def leave_call(owner: SdkHooks, call: Call, result: Any, error: BaseException | None) -> None:
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


def _look_for_span(owner: SdkHooks, args: Any, kwargs: Any) -> None:
    """Note the SDK's own span, if it makes one, before HTTP spans hide it. Never raises."""
    with guarded("spans"):
        call = current_call.get()
        if owner.handed is not None and call is not None:
            owner.handed.entered(call)
