"""All hooks on clients, together."""

from __future__ import annotations

import sys
import types
from typing import TYPE_CHECKING, Any

from lz_otel._capture.clients import ClientHooks
from lz_otel._capture.imports import WhenImported

if TYPE_CHECKING:
    import pytest


def test_each_module_has_one_thing_to_do() -> None:
    """Modules that several hooks are for are handed to each of them."""
    clients = ClientHooks()
    callbacks = clients.callbacks()
    assert {"httpx", "httpx2", "urllib3.connectionpool", "aiohttp.connector", "._base_client"} <= set(
        callbacks
    )
    module: Any = types.ModuleType("nothing.in.it._base_client")
    callbacks["._base_client"](module)
    assert {} == clients.hooked


def test_an_old_urllib3_is_told(caplog: pytest.LogCaptureFixture) -> None:
    """One whose pool works in another way is not observed, and a line says so."""
    module: Any = types.ModuleType("urllib3.connectionpool")

    class HTTPConnectionPool:
        def _make_request(self, conn: Any, method: str, url: str) -> None:
            """Send, as version 1 does."""

    module.HTTPConnectionPool = HTTPConnectionPool
    clients = ClientHooks()
    clients.callbacks()["urllib3.connectionpool"](module)
    assert {} == clients.hooked
    assert [
        "lz_otel: urllib3 is older than 2.0: calls by requests and boto3 are not observed. Upgrade it"
    ] == [record.getMessage() for record in caplog.records]


def test_generated_sdks_are_hooked_by_their_shape(monkeypatch: pytest.MonkeyPatch) -> None:
    """Any module of that name with such a class, imported before or after."""

    def module(name: str) -> Any:
        made: Any = types.ModuleType(name)

        class SyncAPIClient:
            def request(self, cast_to: Any, options: Any) -> str:
                return "answered"

        made.SyncAPIClient = SyncAPIClient
        monkeypatch.setitem(sys.modules, name, made)
        return made

    early = module("early_sdk._base_client")
    clients = ClientHooks()
    imports = WhenImported(clients.callbacks())
    imports.install()
    try:
        assert "early_sdk" in clients.hooked
        assert "answered" == early.SyncAPIClient().request(str, None)
    finally:
        imports.remove()
        clients.remove()
    assert {} == clients.hooked
