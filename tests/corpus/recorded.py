"""The recorded exchanges as they were on the wire."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, NamedTuple

from tests.extract.corpus import raw

if TYPE_CHECKING:
    from pathlib import Path


class Recorded(NamedTuple):
    """One exchange, with bodies still encoded."""

    key: str
    api: str
    method: str
    url: str
    request_headers: dict[str, list[str]]
    request_body: bytes
    status: int
    response_headers: dict[str, list[str]]
    wire: bytes
    truth: dict[str, Any]


def load(shared: Path) -> list[Recorded]:
    """Every exchange of the corpus, in the order of its files."""
    out = []
    for file in sorted((shared / "corpus").glob("*/*.json")):
        case = json.loads(file.read_text("utf-8"))
        for number, exchange in enumerate(case["exchanges"]):
            asked, answer = exchange["request"], exchange["response"]
            out.append(
                Recorded(
                    f"{case['id']}[{number}]",
                    case["api"],
                    asked["method"],
                    asked["url"],
                    asked["headers"],
                    raw(asked["body"]),
                    answer["status"],
                    answer["headers"],
                    raw(answer["body"]),
                    exchange["truth"],
                )
            )
    return out
