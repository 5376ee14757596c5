"""Makes calls with an APM library: ``with_a_library.py LIBRARY before|after``.

``before``: the SDKs are imported, then the library is switched on, then lz_otel. ``after``: lz_otel, then
the library, and the SDKs last. Both are switched off in the order in which they came. Prints what was found,
as JSON.
"""

from __future__ import annotations

import importlib
import json
import os
import sys
from pathlib import Path
from typing import Any

import lz_otel
from lz_otel import _runtime
from lz_otel.testing import Capture
from tests.apm.programs.libraries import LIBRARIES

OURS = str(Path(lz_otel.__file__).parent)
# What we hook, and what the libraries wrap
HOOKED = (
    ("httpx", "HTTPTransport", "handle_request"),
    ("httpx", "AsyncHTTPTransport", "handle_async_request"),
    ("httpx2", "HTTPTransport", "handle_request"),
    ("httpx2", "AsyncHTTPTransport", "handle_async_request"),
    ("anthropic._base_client", "SyncAPIClient", "request"),
    ("anthropic._base_client", "AsyncAPIClient", "request"),
    ("openai._base_client", "SyncAPIClient", "request"),
    ("openai._base_client", "AsyncAPIClient", "request"),
)
WRAPPED = (
    *HOOKED,
    ("anthropic", "Anthropic", "request"),
    ("anthropic.resources.messages", "Messages", "create"),
    ("httpx", "Client", "send"),
    ("httpx2", "Client", "send"),
    ("openai.resources.chat.completions", "Completions", "create"),
)


def what_stands() -> list[Any]:
    """Return what stands on the classes, whoever has put it there."""
    return [
        vars(getattr(importlib.import_module(module), name)).get(method) for module, name, method in WRAPPED
    ]


def function(module: str, name: str, method: str) -> Any:
    """Return the function under all wrappers of wrapt and functools, but not under ours."""
    found = vars(getattr(importlib.import_module(module), name))[method]
    while hasattr(found, "__wrapped__") and not found.__code__.co_filename.startswith(OURS):
        found = found.__wrapped__
    return found


def hooked() -> list[bool]:
    """Return of each function that we hook whether it has our code."""
    return [function(*point).__code__.co_filename.startswith(OURS) for point in HOOKED]


def numbers() -> dict[str, float]:
    """Return what was counted."""
    runtime = _runtime.current()
    assert runtime is not None
    seen = Capture(runtime.store)
    return {
        "calls": seen.value("gen_ai.client.inference.duration"),
        "attempts": seen.value("lz.attempts"),
        "retries": seen.value("lz.call.retries"),
        "active": seen.value("lz.call.active"),
        "faults": seen.value("lz.internal.errors"),
    }


def changed(before: list[Any], after: list[Any]) -> int:
    """Count what is another object: a wrapper may claim to equal what it wraps."""
    return sum(one is not other for one, other in zip(before, after, strict=True))


def main(library: str, order: str) -> dict[str, Any]:
    """Switch on, call, switch off, call, switch on again, call."""
    if order == "before":
        bare = what_stands()
        off = LIBRARIES[library]()
        theirs = what_stands()
        lz_otel.instrument(exporters="none")
        found: dict[str, Any] = {
            "wraps": changed(bare, theirs) > 0,
            "we wrap": changed(theirs, what_stands()),
        }
    else:
        lz_otel.instrument(exporters="none")
        off = LIBRARIES[library]()
        found = {}
    from tests.apm.programs import traffic

    found["hooked"] = all(hooked())
    with traffic.serve() as url:
        found["host"] = traffic.host_sees(url)
        found["numbers"] = numbers()
        if order == "before" and off is not None:
            off()
        lz_otel.uninstrument()
        found["still hooked"] = any(hooked())
        if order == "after" and off is not None:
            off()
        found["called while off"] = traffic.raw(url)
        lz_otel.instrument(exporters="none")
        found["called again"] = traffic.raw(url)
        found["numbers again"] = numbers()
    return found


if __name__ == "__main__":
    print(json.dumps(main(*sys.argv[1:])), flush=True)
    os._exit(0)  # what the libraries would send at the end has nowhere to go
