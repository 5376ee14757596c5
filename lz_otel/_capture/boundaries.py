"""Where calls begin and end in clients that send requests again by themselves.

Each row is a function that holds a client's loop of retries or redirects, or one that such a loop is in: what
is sent inside belongs to one call. The official SDKs and those generated like them are in `sdk`.
"""

from __future__ import annotations

from functools import partial
from time import perf_counter
from typing import TYPE_CHECKING, Any, NamedTuple
from urllib.parse import urlsplit

from lz_otel._capture.call import Call, current_call
from lz_otel._capture.hook import HookedFunctions, Steps
from lz_otel._capture.sdk import leave_call
from lz_otel._ground.guard import guard

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import ModuleType

    from lz_otel._capture.sdk import SdkHooks


class Asked(NamedTuple):
    """What a boundary is asked for, named as the official SDKs name it."""

    method: str
    url: str


class Boundary(NamedTuple):
    """A function whose inside is one call.

    Attributes:
        module: its name, or the last part of it, after a dot: of all generated clients of a kind.
        owner: the class.
        method: the function.
        waits: whether it is awaited.
        asked: takes its arguments; gives method and path.
    """

    module: str
    owner: str
    method: str
    waits: bool
    asked: Callable[[tuple[Any, ...], dict[str, Any]], tuple[Any, Any]]


def _of_request(place: int, name: str, url: str) -> Callable[[Any, Any], tuple[Any, Any]]:
    """Return how to read an argument that has a method and a URL."""

    def asked(args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[Any, Any]:
        request = args[place] if len(args) > place else kwargs[name]
        return request.method, getattr(request, url)

    return asked


def _of_arguments(
    method: str, at: int | None, url: str, url_at: int
) -> Callable[[Any, Any], tuple[Any, Any]]:
    """Return how to read method and URL as arguments of their own; the method may be by name only."""

    def asked(args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[Any, Any]:
        return (
            args[at] if at is not None and len(args) > at else kwargs.get(method),
            args[url_at] if len(args) > url_at else kwargs.get(url),
        )

    return asked


def _of_botocore(args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[Any, Any]:
    request = args[1] if len(args) > 1 else kwargs["request_dict"]
    return request["method"], request["url_path"]


_GENAI = _of_request(1, "http_request", "url")
_FERN = _of_arguments("method", None, "path", 1)
_SPEAKEASY = _of_request(2, "request", "url")

BOUNDARIES = (
    Boundary("requests.sessions", "Session", "send", False, _of_request(1, "request", "path_url")),
    Boundary(
        "urllib3.connectionpool", "HTTPConnectionPool", "urlopen", False, _of_arguments("method", 1, "url", 2)
    ),
    Boundary(
        "aiohttp.client", "ClientSession", "_request", True, _of_arguments("method", 1, "str_or_url", 2)
    ),
    Boundary("botocore.endpoint", "Endpoint", "_send_request", False, _of_botocore),
    Boundary("aiobotocore.endpoint", "AioEndpoint", "_send_request", True, _of_botocore),
    Boundary("google.genai._api_client", "BaseApiClient", "_request", False, _GENAI),
    Boundary("google.genai._api_client", "BaseApiClient", "_async_request", True, _GENAI),
    Boundary(".http_client", "HttpClient", "request", False, _FERN),
    Boundary(".http_client", "AsyncHttpClient", "request", True, _FERN),
    Boundary(".basesdk", "BaseSDK", "do_request", False, _SPEAKEASY),
    Boundary(".basesdk", "BaseSDK", "do_request_async", True, _SPEAKEASY),
)


class BoundaryHooks:
    """The hooks on those functions, as their modules are imported."""

    def __init__(self, sdks: SdkHooks) -> None:
        self._functions = HookedFunctions()
        self._steps = [
            (one, Steps(one.waits, partial(_begin, sdks, one), partial(leave_call, sdks)))
            for one in BOUNDARIES
        ]

    def install(self, module: ModuleType) -> bool:
        """Hook what the table names of one module. Returns whether there was anything."""
        name, hooked = module.__name__, False
        for boundary, steps in self._steps:
            own = boundary.module
            if name == own or (own[0] == "." and name.endswith(own)):
                cls = getattr(module, boundary.owner, None)
                if cls is not None and boundary.method in cls.__dict__:
                    hooked = self._functions.hook(cls, boundary.method, steps) or hooked
        return hooked

    def remove(self) -> None:
        """Take off what is ours."""
        self._functions.remove()


def _begin(sdks: SdkHooks, boundary: Boundary, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Call | None:
    """Open a call; ``None`` where none begins here. Never raises."""
    try:
        handed = sdks.handed
        if handed is None:
            return None
        method, url = boundary.asked(args, kwargs)
        if str(method).upper() != "POST":
            return None
        outer = current_call.get()
        if outer is not None and not outer.exited:
            return None  # a request inside a request: its attempts belong to the outer call
        path = "/" + urlsplit(str(url)).path.lstrip("/")
        if not handed.is_call("POST", path):
            return None
        call = handed.opened(perf_counter(), args[0], Asked("POST", path))
        call.token = current_call.set(call)  # last of all: what fails before it leaves nothing behind
        return call
    except Exception as fault:  # noqa: BLE001 - the boundary to the host
        guard.fault("capture", fault)
        return None
