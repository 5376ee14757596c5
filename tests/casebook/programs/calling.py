"""What the programs of this folder share: a client on a double, calls, and a child that must end well."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

import httpx2

import lz_otel
from lz_otel import _runtime
from tests.casebook.bodies import ASK, MESSAGES_URL
from tests.wire_doubles import A_JSON, transport

if TYPE_CHECKING:
    from collections.abc import Callable


def answer(_: Any) -> Any:
    """Answer with a message."""
    return httpx2.Response(200, json=A_JSON)


def client(answer: Callable[[Any], Any] = answer) -> httpx2.Client:
    """Return an observed client on a double."""
    made = httpx2.Client(transport=transport(httpx2, answer))
    lz_otel.instrument_client(made)
    return made


def calls(number: int, http: httpx2.Client | None = None) -> None:
    """Make calls, and check each answer."""
    http = http or client()
    for _ in range(number):
        assert http.post(MESSAGES_URL, json=ASK).json()["usage"]["output_tokens"] == 20


def runtime() -> Any:
    """Return what observes this process."""
    current = _runtime.current()
    assert current is not None
    return current


def fork(child: Callable[[], int | None]) -> int:
    """Fork; the child ends with what its work gives (``None``: 0). Returns its process id."""
    pid = os.fork()
    if not pid:
        os._exit(child() or 0)
    return pid


def wait(pid: int) -> None:
    """Wait for a child that must end with 0."""
    assert os.waitpid(pid, 0)[1] == 0
