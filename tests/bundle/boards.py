"""What tests need to read dashboards: panels, targets, selectors of PromQL, variables."""

from __future__ import annotations

import functools
import json
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import yaml

from lz_otel.mechanisms import FAMILIES

if TYPE_CHECKING:
    from collections.abc import Iterator

ROOT = Path(__file__).resolve().parents[2]
FOLDER = ROOT / "dashboards"
FILES = sorted(FOLDER.glob("*.json"))
SELECTOR = re.compile(r"(?<![\w:$\"])([a-zA-Z_:][\w:]*)?\{([^{}]*)\}")
MATCHER = re.compile(r'([a-zA-Z_]\w*)(=~|!~|!=|=)"((?:[^"\\]|\\.)*)"')
BY = re.compile(r"\b(?:by|on|group_left|ignoring) \(([^)]*)\)")


class Target(NamedTuple):
    """One query of one panel."""

    board: str
    panel: dict[str, Any]
    index: int
    expr: str
    instant: bool

    @property
    def title(self) -> str:
        return str(self.panel["title"])

    def __str__(self) -> str:
        return f"{self.board} / {self.title} / {self.index}"


class Selector(NamedTuple):
    """A selector in an expression."""

    name: str
    matchers: list[tuple[str, str, str]]


def load(path: Path) -> dict[str, Any]:
    data: dict[str, Any] = json.loads(path.read_text())
    return data


def panels(board: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """All panels that are no rows, those of collapsed rows too."""
    for panel in board["panels"]:
        if panel["type"] == "row":
            yield from panel.get("panels") or []
        else:
            yield panel


def targets(board: dict[str, Any]) -> Iterator[Target]:
    for panel in panels(board):
        for index, target in enumerate(panel["targets"]):
            yield Target(board["title"], panel, index, target["expr"], bool(target.get("instant")))


def selectors(expr: str) -> list[Selector]:
    """Selectors with braces; every selector of a dashboard has some."""
    return [Selector(m[1] or "", MATCHER.findall(m[2])) for m in SELECTOR.finditer(expr)]


@functools.lru_cache
def exclusions() -> dict[str, Any]:
    data: dict[str, Any] = yaml.safe_load((FOLDER / ".lint").read_text())["exclusions"]
    return data


def resolve(expr: str, *, mechanism: str = "", rate: str = "4m", span: int = 10800) -> str:
    """The expression with Grafana's variables replaced, all values chosen."""
    values = {
        "__rate_interval": rate,
        "__range_s": str(span),
        "__range": f"{span}s",
        "__interval": "60s",
        "job": ".*",
        "instance": ".*",
        "provider": ".*",
        "model": ".*",
        "route": ".*",
        "group": ".+",
        "control": "control",
        "metric": "summary_f1",
        "before": "1h",
        "slo": "0.995",
        "budget": "100",
        "mechanism": mechanism or "|".join(FAMILIES),
    }
    return re.sub(r"\$(\w+)", lambda m: values[m[1]], expr)
