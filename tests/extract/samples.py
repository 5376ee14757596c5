"""The recorded bodies in ``tests/wire``, as exchanges."""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path

from lz_otel.model import Request
from tests.extract import corpus

WIRE = Path(__file__).parents[1] / "wire"


@cache
def exchanges() -> list[corpus.Recorded]:
    """Each recorded body with its request, as listed in ``index.json``."""
    found = []
    for entry in json.loads((WIRE / "index.json").read_text()):
        host, _, path = entry["url"].partition("//")[2].partition("/")
        request = Request("POST", host, "/" + path, "", {}, json.dumps(entry["request"]).encode())
        headers = {"content-type": entry["content_type"]}
        body = (WIRE / entry["file"]).read_bytes()
        found.append(
            corpus.Recorded(
                entry["file"], entry["file"], request, entry["status"], headers, body, entry["facts"]
            )
        )
    return found
