"""Write the tables of docs/ from the code: `make docs`; `--check` only names the pages that are stale.

A table stands between `<!-- generated: NAME -->` and `<!-- end -->`; the text around it is by hand.
"""

from __future__ import annotations

import argparse
import ast
import functools
import re
import sys
import tomllib
from importlib import metadata
from pathlib import Path
from typing import TYPE_CHECKING, Any

import docs_api
import docs_prices

from lz_otel import _config, catalogue, mechanisms
from lz_otel._judge import signals

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

ROOT = Path(__file__).resolve().parent.parent
PAGES = (
    "docs/api.md",
    "docs/configuration.md",
    "docs/design.md",
    "docs/licences.md",
    "docs/mechanisms.md",
    "docs/metrics.md",
    "docs/prices.md",
)
PACKAGE = ROOT / "lz_otel"
LOCK = ROOT / "requirements" / "dev.txt"
SECTION = re.compile(r"(<!-- generated: (?P<name>[a-z-]+) -->\n)(?P<body>.*?)(<!-- end -->)", re.DOTALL)

# Licences are listed for the lowest Python on Linux, wherever the list is written.
PLATFORM = {
    "implementation_name": "cpython",
    "os_name": "posix",
    "platform_machine": "x86_64",
    "platform_python_implementation": "CPython",
    "platform_system": "Linux",
    "python_full_version": "3.11.0",
    "python_version": "3.11",
    "sys_platform": "linux",
}
# What metadata says besides SPDX expressions, where it can mean one licence only.
SPDX = {
    "3-Clause BSD License": "BSD-3-Clause",
    "ISC License": "ISC",
    "ISC License (ISCL)": "ISC",
    "MIT License": "MIT",
    "Mozilla Public License 2.0 (MPL 2.0)": "MPL-2.0",
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
    """Return which of the common labels a metric has."""
    common = [a for a in catalogue.COMMON if a in metric.attributes]
    if common == list(catalogue.COMMON):
        return "common"
    return _code(a.label for a in common)


def metrics() -> str:
    """Return the short table: one row per metric."""
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
    """Return all that the catalogue holds, one section per metric."""
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
            facts.append(f"has no series before the mechanism `{m.mechanism}` is switched on")
        if m.buckets:
            facts.append("buckets: " + ", ".join(f"{b:g}" for b in m.buckets))
        out.append("\n".join(f"- {f}" for f in facts) + "\n")
    return "\n".join(out)


def attributes() -> str:
    """Return the table of labels: each once, with its values or its limit."""
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
    """Return the table of settings."""
    return _table(
        ("environment variable", "`instrument()` argument", "default", "allowed", "meaning"),
        (
            (f"`{s.env}`", f"`{s.field}`", f"`{s.default}`" if s.default else "", s.allowed, s.doc)
            for s in _config.SETTINGS
        ),
    )


def _part(path: Path) -> str:
    return f"{path.name}/" if path.is_dir() else path.name.removesuffix(".py")


def layout() -> str:
    """Return the table of the package's parts: the first sentence of each docstring, a folder's files."""
    rows = []
    for path in sorted(PACKAGE.iterdir(), key=lambda p: (p.is_dir(), p.name)):
        module = path / "__init__.py" if path.is_dir() else path
        if module.suffix != ".py" or not module.is_file():
            continue
        docstring = ast.get_docstring(ast.parse(module.read_text(encoding="utf-8"))) or ""
        first = re.split(r"\n\n|(?<=\.)\s", docstring, maxsplit=1)[0]
        files = (
            sorted(p for p in path.glob("*") if not p.name.startswith(("__", "."))) if path.is_dir() else ()
        )
        rows.append((f"`{_part(path)}`", first.replace("``", "`"), _code(map(_part, files))))
    return _table(("part", "what it does", "holds"), rows)


def mechanism_rows() -> str:
    """Return the table of mechanisms: what each is, who states it, what a hit does, why it falls back."""
    return _table(
        ("mechanism", "what it is", "stated by", "effect of a hit", "reasons of a fallback"),
        ((f"`{m.name}`", m.sentence, m.source, m.effect, _code(m.reasons)) for m in mechanisms.ALL),
    )


def wire_markers() -> str:
    """Return the table of wire markers, with what switches a mechanism on."""
    switches = {"": "", "*": "yes", "?": "if it says something"}
    return _table(
        ("signal", "where", "name", "mark", "source", "meaning", "switches it on"),
        (
            (f"`{s.mechanism}.{s.key}`", s.where, f"`{s.name}`", s.mark, s.source, s.doc, switches[s.wakes])
            for s in signals.TABLE
        ),
    )


def _project() -> dict[str, Any]:
    project: dict[str, Any] = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    return project


def licence(package: metadata.PackageMetadata) -> str:
    """Return the licence that a package's metadata states, as SPDX expression where it is plain; else ""."""
    from packaging.licenses import InvalidLicenseExpression, canonicalize_license_expression

    field = (package.get("License") or "").strip()
    kinds = [
        c.split(" :: ")
        for c in package.get_all("Classifier") or ()
        if c.startswith("License :: OSI Approved :: ")
    ]
    # The field may hold the whole text of a licence.
    stated = package.get("License-Expression") or (
        field if field and "\n" not in field else ", ".join(k[-1] for k in kinds)
    )
    stated = SPDX.get(stated, stated)
    try:
        return canonicalize_license_expression(stated) if stated else ""
    except InvalidLicenseExpression:
        return stated


def _locked(name: str, lock: dict[str, str]) -> metadata.Distribution:
    """Return an installed package, which must be the one that the lock names."""
    try:
        found = metadata.distribution(name)
    except metadata.PackageNotFoundError:
        has = "not installed"
    else:
        if found.version == lock.get(name):
            return found
        has = f"installed as {found.version}"
    sys.exit(
        f"scripts/docs.py: licences are read from the locked packages, but {name} is {has}"
        f" and requirements/{LOCK.name} says {lock.get(name, 'nothing of it')}: run  make docs"
    )


def closure(requirements: Iterable[str]) -> dict[str, tuple[str, str, list[str]]]:
    """Return what requirements bring along: by name its version, its licence and what requires it."""
    from packaging.requirements import Requirement
    from packaging.utils import canonicalize_name

    project = _project()
    lock = dict(re.findall(r"(?m)^([a-z0-9.-]+)==([^\s;]+)", LOCK.read_text(encoding="utf-8")))
    extras: dict[str, set[str]] = {}
    parents: dict[str, set[str]] = {}
    found: dict[str, tuple[str, str]] = {}
    waiting = [(Requirement(text), str(project["name"]), {""}) for text in requirements]
    while waiting:
        requirement, parent, of = waiting.pop()
        marker = requirement.marker
        if marker is not None and not any(marker.evaluate({**PLATFORM, "extra": extra}) for extra in of):
            continue
        name = canonicalize_name(requirement.name)
        if name == project["name"]:  # an extra of ours, which is not installed for being looked at
            inside = [
                text for extra in requirement.extras for text in project["optional-dependencies"][extra]
            ]
            waiting += [(Requirement(text), name, {""}) for text in inside]
            continue
        parents.setdefault(name, set()).add(parent)
        wanted = {"", *requirement.extras}
        if wanted <= extras.get(name, set()):
            continue
        extras.setdefault(name, set()).update(wanted)
        package = _locked(name, lock)
        found[name] = (package.version, licence(package.metadata))
        if not found[name][1]:
            sys.exit(f"scripts/docs.py: the metadata of {name} {package.version} states no licence")
        waiting += [(Requirement(text), name, extras[name]) for text in package.requires or ()]
    return {name: (*found[name], sorted(parents[name])) for name in sorted(found)}


def runtime_licences() -> str:
    """Return the table of packages that an installation without extras brings along."""
    found = closure(_project()["dependencies"])
    return _table(
        ("package", "version", "licence", "required by"),
        ((f"`{name}`", version, spdx, _code(by)) for name, (version, spdx, by) in found.items()),
    )


def extra_licences() -> str:
    """Return the table of what each extra adds to that."""
    project = _project()
    runtime = closure(project["dependencies"])
    rows = []
    for extra in project["optional-dependencies"]:
        found = closure([f"{project['name']}[{extra}]"])
        added = [
            f"`{name}` {version} ({spdx})"
            for name, (version, spdx, _) in found.items()
            if name not in runtime
        ]
        rows.append((f"`{extra}`", ", ".join(added)))
    return _table(("extra", "adds"), rows)


def billed() -> str:
    """Return the table of what is billed beside tokens."""
    return _table(("provider", "billed", "here", ""), docs_prices.rows())


TABLES: dict[str, Callable[[], str]] = {
    "licences": runtime_licences,
    "licences-extras": extra_licences,
    "metrics": metrics,
    "metrics-long": metrics_long,
    "labels": attributes,
    "settings": settings,
    "mechanisms": mechanism_rows,
    "layout": layout,
    "billed": billed,
    "signals": wire_markers,
    "api": functools.partial(docs_api.module_section, "lz_otel"),
    "api-testing": functools.partial(docs_api.module_section, "lz_otel.testing"),
    "api-explain": functools.partial(docs_api.module_section, "lz_otel.explain"),
}


def render(text: str) -> str:
    """Return a page with its generated parts written anew.

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
