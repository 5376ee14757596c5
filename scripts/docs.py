"""Writes the tables of README.md and docs/ from the code: `make docs`; `--check` only tells what is stale.

A table stands between `<!-- generated: NAME -->` and `<!-- end -->`; the text around it is by hand.
"""

from __future__ import annotations

import argparse
import re
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from lz_otel import _config, catalogue

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

ROOT = Path(__file__).resolve().parent.parent
PAGES = ("README.md", "docs/metrics.md", "docs/configuration.md")
SECTION = re.compile(r"(<!-- generated: (?P<name>[a-z-]+) -->\n)(?P<body>.*?)(<!-- end -->)", re.DOTALL)

# What each mechanism is, in a line: (who states it, what it is). The rest is in docs/mechanisms.md.
ABOUT = {
    "symbolic": ("article 000", "the answer is computed by rules instead of inference"),
    "pruning": ("article 001", "tokens that do not matter are cut from the prompt"),
    "intent": ("article 002", "the sampling intent is declared, decoding takes a shorter path"),
    "zeroing": ("article 003", "layers that do not matter for the request are zeroed"),
    "scheduling": ("article 004", "the state of similar requests is shared by the server"),
    "prompt_cache": ("vendors", "the provider reads a known prefix from its cache"),
    "response_cache": ("gateways", "a gateway answers from its own cache"),
}


def _cell(text: str) -> str:
    return text.replace("|", "\\|").replace("\n", " ")


def _table(header: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    lines = ["| " + " | ".join(header) + " |", "|" + "---|" * len(header)]
    lines += ["| " + " | ".join(map(_cell, row)) + " |" for row in rows]
    return "\n".join(lines) + "\n"


def _code(names: Iterable[str]) -> str:
    return ", ".join(f"`{n}`" if n else "empty" for n in names)


def _extra(metric: catalogue.Metric) -> list[catalogue.Attribute]:
    return [a for a in metric.attributes if a not in catalogue.COMMON]


def _scope(metric: catalogue.Metric) -> str:
    """Which of the common labels a metric has."""
    common = [a for a in catalogue.COMMON if a in metric.attributes]
    if common == list(catalogue.COMMON):
        return "common"
    return _code(a.label for a in common)


def metrics() -> str:
    """The short table: one row per metric."""
    return _table(
        ("metric in Prometheus", "kind", "labels", "meaning", "mark"),
        (
            (
                f"`{m.prometheus}`",
                m.kind,
                ", ".join(p for p in (_scope(m), _code(a.label for a in _extra(m))) if p),
                m.doc + (f" (conventions {m.convention})" if m.convention else ""),
                m.mark,
            )
            for m in catalogue.ALL
        ),
    )


def metrics_long() -> str:
    """Everything the catalogue knows, one section per metric."""
    out = []
    for m in catalogue.ALL:
        out.append(f"### `{m.name}`\n\n{m.doc}\n")
        facts = [
            f"Prometheus: `{m.prometheus}`" + (" (`_bucket`, `_sum`, `_count`)" if m.buckets else ""),
            f"{m.kind}, unit `{m.unit}`, mark {m.mark}",
        ]
        if m.convention:
            facts.append(f"only with the GenAI conventions `{m.convention}`")
        if m.mechanism:
            facts.append(f"has no series before the mechanism `{m.mechanism}` is awake")
        if m.buckets:
            facts.append("buckets: " + ", ".join(f"{b:g}" for b in m.buckets))
        out.append("\n".join(f"- {f}" for f in facts) + "\n")
    return "\n".join(out)


def attributes() -> str:
    """Every label, once, with its values or its limit."""
    seen: dict[catalogue.Attribute, list[str]] = {}
    for m in catalogue.ALL:
        for a in m.attributes:
            seen.setdefault(a, []).append(m.name)
    return _table(
        ("label", "OpenTelemetry name", "values", "meaning", "on"),
        (
            (
                f"`{a.label}`",
                f"`{a.name}`",
                _code(a.values) if a.values else f"open, at most {a.cap} per process",
                a.doc,
                f"{len(on)} metrics" if len(on) > 3 else _code(on),
            )
            for a, on in seen.items()
        ),
    )


def settings() -> str:
    """All settings."""
    return _table(
        ("environment variable", "`instrument()` argument", "default", "allowed", "meaning"),
        (
            (f"`{s.env}`", f"`{s.field}`", f"`{s.default}`" if s.default else "", s.allowed, s.doc)
            for s in _config.SETTINGS
        ),
    )


def mechanisms() -> str:
    """The seven mechanisms: what, who says so, how to switch on, what a hit means, what it cannot know."""
    rows = {}
    for line in (ROOT / "docs" / "mechanisms.md").read_text(encoding="utf-8").splitlines():
        cells = [cell.strip() for cell in line.strip("|").split("|")]
        if line.startswith("| `") and len(cells) == 6:
            rows[cells[0].strip("`")] = cells
    if not tuple(ABOUT) == tuple(rows) == catalogue.MECHANISMS:
        sys.exit(f"scripts/docs.py: ABOUT and docs/mechanisms.md must describe {', '.join(catalogue.MECHANISMS)}")
    return _table(
        ("mechanism", "what it is", "stated by", "mark", "how to switch it on", "what a hit means", "what it cannot know"),
        (
            (f"`{name}`", ABOUT[name][1], ABOUT[name][0], *(cell for cell in cells[1:5]))
            for name, cells in rows.items()
        ),
    )


TABLES: dict[str, Callable[[], str]] = {
    "metrics": metrics,
    "metrics-long": metrics_long,
    "labels": attributes,
    "settings": settings,
    "mechanisms": mechanisms,
}


def render(text: str) -> str:
    """A page with its tables written anew.

    Raises:
        KeyError: the page asks for a table that does not exist.
    """
    return SECTION.sub(lambda m: f"{m[1]}{TABLES[m['name']]()}{m[4]}", text)


def main(argv: Sequence[str] | None = None) -> int:
    """Write the pages; with ``--check`` name the stale ones instead and return 1."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--check", action="store_true", help="write nothing, fail when a page is stale")
    check = parser.parse_args(argv).check
    stale = []
    for name in PAGES:
        page = ROOT / name
        before = page.read_text(encoding="utf-8")
        after = render(before)
        if after != before:
            stale.append(name)
            if not check:
                page.write_text(after, encoding="utf-8")
    for name in stale:
        print(f"{name} is stale: run  make docs" if check else f"wrote {name}")
    return 1 if check and stale else 0


if __name__ == "__main__":
    sys.exit(main())
