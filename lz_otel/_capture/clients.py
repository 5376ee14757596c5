"""All hooks on clients: of HTTP libraries, and of the SDKs above them. One set per process."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from lz_otel._capture import aiohttp, threads, urllib3
from lz_otel._capture.aiohttp import AiohttpHooks
from lz_otel._capture.boundaries import BOUNDARIES, BoundaryHooks
from lz_otel._capture.sdk import SdkHooks
from lz_otel._capture.transports import MODULES, Hooks
from lz_otel._capture.urllib3 import Urllib3Hooks

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from types import ModuleType

LIBRARIES = (*MODULES, "urllib3", "aiohttp")


class ClientHooks:
    """The hooks in force, each in a class of its own.

    Attributes:
        http: on httpx and httpx2; its ``begin`` takes the attempts of all libraries.
        sdks: on the official SDKs and those generated like them; its ``handed`` takes the calls of all.
        hooked: packages whose classes are hooked now.
    """

    def __init__(self) -> None:
        self.http = Hooks()
        self.sdks = SdkHooks(self.http)
        self.hooked: dict[str, None] = {}
        self._urllib3 = Urllib3Hooks(self.http)
        self._aiohttp = AiohttpHooks(self.http)
        self._boundaries = BoundaryHooks(self.sdks)

    def callbacks(self) -> dict[str, Callable[[ModuleType], None]]:
        """Return what is to be done with which module, once it is imported (`WhenImported`)."""
        done: dict[str, list[Callable[[ModuleType], Any]]] = {}
        for name, install in self._installs():
            done.setdefault(name, []).append(install)
        return {name: self._noting(installs) for name, installs in done.items()}

    def _installs(self) -> Iterator[tuple[str, Callable[[ModuleType], Any]]]:
        for name in MODULES:
            yield name, self.http.install
        yield "._base_client", self.sdks.hook
        yield urllib3.MODULE, self._urllib3.install
        for name in aiohttp.MODULES:
            yield name, self._aiohttp.install
        for name in dict.fromkeys(boundary.module for boundary in BOUNDARIES):
            yield name, self._boundaries.install

    def _noting(self, installs: list[Callable[[ModuleType], Any]]) -> Callable[[ModuleType], None]:
        def install(module: ModuleType) -> None:
            results = [one(module) for one in installs]
            if any(result is not False for result in results):
                self.hooked.setdefault(module.__name__.partition(".")[0])

        return install

    def remove(self) -> None:
        """Take off what is ours; what others have covered stays, switched off."""
        self.hooked.clear()
        for hooks in (self.sdks, self.http, self._urllib3, self._aiohttp, self._boundaries):
            hooks.remove()
        threads.remove()
