"""Where calls of clients begin and end: the functions of the table, as these clients have them."""

from __future__ import annotations

import types
from typing import Any

import pytest

from lz_otel._capture.boundaries import BOUNDARIES, BoundaryHooks
from lz_otel._capture.call import Call, current_call
from lz_otel._capture.sdk import HandedCalls, SdkHooks
from lz_otel._capture.transports import Hooks

PATH = "/v1/chat/completions"


class Told:
    """What is told of calls."""

    def __init__(self) -> None:
        self.opened: list[tuple[str, str]] = []
        self.left: list[BaseException | None] = []

    def handed(self) -> HandedCalls:
        def opened(now: float, _: Any, options: Any) -> Call:
            self.opened.append((options.method, options.url))
            return Call(now, True, False, 0)

        def left(call: Call, error: BaseException | None) -> None:
            call.exited = True
            self.left.append(error)

        return HandedCalls(opened, lambda _: None, left, lambda _: None, lambda _, path: path == PATH)


def request(url: str, method: str = "POST") -> Any:
    return types.SimpleNamespace(method=method, url=url, path_url=url)


def arguments(module: str, url: str, method: str = "POST") -> tuple[tuple[Any, ...], dict[str, Any]]:
    """Return how each client's function is called."""
    asked = request(url, method)
    if module.startswith(("botocore", "aiobotocore")):
        return ({"method": method, "url_path": url}, None), {}
    if module == ".http_client":
        return (url,), {"method": method}
    if module == ".basesdk":
        return (None, asked), {}
    if module in ("urllib3.connectionpool", "aiohttp.client"):
        return (method, url), {}
    return (asked,), {}


@pytest.mark.parametrize("boundary", [one for one in BOUNDARIES if not one.waits], ids=lambda b: b.module)
def test_a_call_begins_and_ends(boundary: Any) -> None:
    """For a model's path, once however deep, with its exception; for nothing else."""
    told, sdks = Told(), SdkHooks(Hooks())
    seen: list[Call | None] = []

    def function(self: Any, *args: Any, **kwargs: Any) -> str:
        seen.append(current_call.get())
        if fails:
            raise KeyError
        if len(seen) == 1:
            getattr(self, boundary.method)(*args, **kwargs)
        return "answered"

    owner: Any = type(boundary.owner, (), {boundary.method: function})
    module: Any = types.ModuleType("made" + boundary.module if boundary.module[0] == "." else boundary.module)
    setattr(module, boundary.owner, owner)
    hooks = BoundaryHooks(sdks)
    assert hooks.install(module)
    sdks.handed = told.handed()
    fails = False
    args, kwargs = arguments(boundary.module, f"http://h{PATH}?a=b")
    assert "answered" == getattr(owner(), boundary.method)(*args, **kwargs)
    assert (1, [None], True) == (len(told.opened), told.left, seen[0] is seen[1])
    assert [("POST", PATH)] == told.opened
    fails = True
    with pytest.raises(KeyError):
        getattr(owner(), boundary.method)(*args, **kwargs)
    assert KeyError is type(told.left[-1])
    fails = False
    for url, method in (("http://h/other", "POST"), (PATH, "GET")):
        args, kwargs = arguments(boundary.module, url, method)
        assert "answered" == getattr(owner(), boundary.method)(*args, **kwargs)
    assert 2 == len(told.opened)
    assert current_call.get() is None
    hooks.remove()


def test_what_is_not_there_is_no_error() -> None:
    """A module without the class of the table, or with another function of that name."""
    hooks = BoundaryHooks(SdkHooks(Hooks()))
    assert not hooks.install(types.ModuleType("botocore.endpoint"))
