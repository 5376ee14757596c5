"""The documentation: the README is short, generated parts are fresh, links and names exist, examples run."""

from __future__ import annotations

import importlib.util
import json
import os
import re
import socket
import subprocess
import sys
import threading
import tomllib
import urllib.request
from email.message import Message
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from importlib import metadata
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from lz_otel import catalogue, mechanisms

if TYPE_CHECKING:
    from collections.abc import Iterator

ROOT = Path(__file__).resolve().parent.parent
PAGES = sorted(
    [
        *ROOT.glob("*.md"),
        *(ROOT / "docs").glob("*.md"),
        ROOT / "alerts/README.md",
        ROOT / "stack/secrets/README.md",
        ROOT / "tests/casebook/README.md",
    ]
)
README = (ROOT / "README.md").read_text("utf-8")
# An example may be followed by <!-- check … -->: code that is run after it and not shown.
EXAMPLE = re.compile(r"```python\n(?P<code>.*?)```\n(?:<!-- check\n(?P<check>.*?)-->)?", re.DOTALL)
ANSWER = {
    "id": "msg_1",
    "type": "message",
    "role": "assistant",
    "model": "claude-haiku-4-5",
    "content": [{"type": "text", "text": "Hello"}],
    "stop_reason": "end_turn",
    "usage": {"input_tokens": 12, "output_tokens": 3},
}


def _examples() -> list[Any]:
    return [
        pytest.param(match, id=f"{page.name}:{text[: match.start()].count(chr(10)) + 1}")
        for page in PAGES
        for text in [page.read_text("utf-8")]
        for match in EXAMPLE.finditer(text)
    ]


def _script() -> Any:
    scripts = str(ROOT / "scripts")
    if scripts not in sys.path:
        sys.path.append(scripts)
    return importlib.import_module("docs")


class _Api(BaseHTTPRequestHandler):
    def do_POST(self) -> None:
        self.rfile.read(int(self.headers["content-length"]))
        body = json.dumps(ANSWER).encode()
        self.send_response(200)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *args: object) -> None:
        pass


@pytest.fixture(scope="module")
def api() -> Iterator[str]:
    """Base address of a Messages API that always answers the same."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), _Api)
    thread = threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True)
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    thread.join()
    server.server_close()


def _code(example: str, api: str) -> str:
    """An example that asks the API on loopback instead of the vendor's."""
    code = example.replace("https://api.anthropic.com", api)
    return code.replace('"x-api-key": "…"', '"x-api-key": "none"')


def _environment(api: str, port: int) -> dict[str, str]:
    return {
        "PATH": os.environ["PATH"],
        "PYTHONPATH": str(ROOT),
        "ANTHROPIC_BASE_URL": api,
        "ANTHROPIC_API_KEY": "none",
        "OTEL_EXPORTER_PROMETHEUS_PORT": str(port),
    }


@pytest.mark.parametrize("match", _examples())
def test_examples_run(match: re.Match[str], api: str) -> None:
    """What a reader copies from the documentation works, against an API on loopback."""
    code = _code(match["code"], api) + (match["check"] or "")
    done = subprocess.run(
        [sys.executable, "-W", "error::DeprecationWarning", "-c", code],
        capture_output=True,
        text=True,
        env=_environment(api, 0),
        timeout=60,
        check=False,
        input="\n",
    )
    assert (0, "") == (done.returncode, done.stderr)


def _metrics_of_a_script(code: str, api: str) -> str:
    """The text of /metrics while a script waits at its last line."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    script = subprocess.Popen(
        [sys.executable, "-c", _code(code, api)],
        env=_environment(api, port),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert script.stdout is not None
    assert script.stdout.read(4) == "curl"  # what it asks for, at the place where it waits
    with urllib.request.urlopen(f"http://localhost:{port}/metrics", timeout=30) as answer:
        text: str = answer.read().decode()
    script.communicate("\n", timeout=30)
    assert 0 == script.returncode
    return text


def test_the_readme_shows_the_first_number_at_once(api: str) -> None:
    """The README's first script and command give exactly the line it shows, within its first thirty lines."""
    example = EXAMPLE.search(README)
    command = re.search(
        r"curl -s localhost:9464/metrics \| grep '([^']+)'\n```\n```text\n(.*?)```", README, re.DOTALL
    )
    assert example
    assert command
    assert README[: command.end(2)].count("\n") <= 30
    seen = _metrics_of_a_script(example["code"], api)
    assert command[2].splitlines() == [line for line in seen.splitlines() if command[1] in line]


def test_the_script_of_the_quick_start_can_be_scraped(api: str) -> None:
    """The quick start's script can be scraped at the port that it names while it waits, and then ends."""
    page = (ROOT / "docs" / "quickstart.md").read_text("utf-8")
    found = re.search(r"## In a script\n+```python\n(.*?)```", page, re.DOTALL)
    assert found
    assert 'lz_route="nightly-summary"' in _metrics_of_a_script(found[1], api)


def test_the_readme_is_short() -> None:
    """The README has at most 1,000 words, as `wc -w` counts them; generated tables are in docs/."""
    assert len(README.split()) <= 1000
    assert "<!-- generated" not in README


def test_there_are_examples() -> None:
    """The pattern above finds every example, those of the README and the quick start among them."""
    fences = {page: page.read_text("utf-8").count("```python") for page in PAGES}
    assert fences == {page: len(EXAMPLE.findall(page.read_text("utf-8"))) for page in PAGES}
    assert fences[ROOT / "README.md"] >= 1
    assert fences[ROOT / "docs" / "quickstart.md"] >= 3


def test_generated_tables_are_fresh() -> None:
    """Generated parts of the pages are what the code gives now; `make docs` writes them."""
    docs = _script()
    stale = [
        name
        for name in docs.PAGES
        if docs.render((ROOT / name).read_text("utf-8")) != (ROOT / name).read_text("utf-8")
    ]
    assert [] == stale


def test_a_stale_table_is_seen() -> None:
    """A row that was changed by hand is written anew."""
    docs = _script()
    page = "before\n<!-- generated: metrics -->\nby hand\n<!-- end -->\nafter\n"
    rendered = docs.render(page)
    assert "by hand" not in rendered
    assert rendered.startswith("before\n<!-- generated: metrics -->\n| metric")
    assert rendered.endswith("|\n<!-- end -->\nafter\n")
    assert rendered == docs.render(rendered)


def test_every_mechanism_is_on_its_page() -> None:
    """docs/mechanisms.md has for each mechanism a row of what it cannot know, and a section."""
    page = (ROOT / "docs" / "mechanisms.md").read_text("utf-8")
    rows = re.findall(r"(?m)^\| `(\w+)` (?:\|[^|]*){5}\|$", page)
    assert mechanisms.NAMES == tuple(rows)
    assert [] == [name for name in mechanisms.NAMES if f"\n## {name}\n" not in page]


def _licences() -> dict[str, tuple[str, str]]:
    """Rows of the table of runtime dependencies, read from the page: version and licence by name."""
    page = (ROOT / "docs" / "licences.md").read_text("utf-8")
    section = page.partition("<!-- generated: licences -->")[2].partition("<!-- end -->")[0]
    rows = re.findall(r"(?m)^\| `([a-z0-9-]+)` \| (\S+) \| ([^|]+) \|", section)
    return {name: (version, licence) for name, version, licence in rows}


def test_every_runtime_requirement_has_its_licence_listed() -> None:
    """What pyproject.toml requires, and what that requires in turn, is listed with the locked version."""
    from packaging.requirements import Requirement
    from packaging.utils import canonicalize_name

    listed, platform = _licences(), {**_script().PLATFORM, "extra": ""}
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    wanted = {canonicalize_name(Requirement(text).name) for text in project["dependencies"]}
    for name in listed:
        required = map(Requirement, metadata.requires(name) or ())
        wanted |= {
            canonicalize_name(r.name) for r in required if r.marker is None or r.marker.evaluate(platform)
        }
    assert wanted == set(listed)
    lock = (ROOT / "requirements" / "dev.txt").read_text("utf-8")
    assert [] == [
        f"{name}=={version}"
        for name, (version, _) in listed.items()
        if f"\n{name}=={version} " not in f"\n{lock}"
    ]


def test_no_runtime_licence_is_unknown_or_copyleft() -> None:
    """Each is a known SPDX expression of licences that ask a service for nothing but their notice."""
    permissive = {"Apache-2.0", "BSD-2-Clause", "BSD-3-Clause", "MIT", "PSF-2.0"}
    odd = {
        n: spdx
        for n, (_, spdx) in _licences().items()
        if not set(re.split(r" AND | OR ", spdx)) <= permissive
    }
    assert {} == odd


def test_every_extra_has_its_licences_listed() -> None:
    """Each extra has a row; no licence in it is empty, GPL or AGPL."""
    rows = dict(re.findall(r"(?m)^\| `([a-z-]+)` \| (.*) \|$", _script().extra_licences()))
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    assert list(project["optional-dependencies"]) == list(rows)
    for row in rows.values():
        packages = re.split(r", (?=`)", row)
        assert [] == [
            p
            for p in packages
            if not re.fullmatch(r"`[a-z0-9-]+` \S+ \([^()]*[A-Za-z][^()]*\)", p) or "GPL" in p
        ]


@pytest.mark.parametrize(
    ("headers", "expected"),
    [
        ({"License-Expression": "mit or apache-2.0", "License": "no"}, "MIT OR Apache-2.0"),
        ({"License": "3-Clause BSD License"}, "BSD-3-Clause"),
        (
            {"License": "A text\n of many lines", "Classifier": "License :: OSI Approved :: MIT License"},
            "MIT",
        ),
        ({"Classifier": "License :: OSI Approved :: Apache Software License"}, "Apache Software License"),
        ({"Classifier": "Topic :: System"}, ""),
    ],
)
def test_licence_of_metadata(headers: dict[str, str], expected: str) -> None:
    """The expression counts first, then the field, then the classifiers; SPDX where it is plain."""
    package: Any = Message()
    for name, value in headers.items():
        package[name] = value
    assert expected == _script().licence(package)


def test_licences_are_those_of_the_lock(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Where another version is installed than the lock names, or none, an error names both."""
    docs = _script()
    lock = docs.LOCK.read_text("utf-8")
    changed = tmp_path / "dev.txt"
    changed.write_text(re.sub(r"(?m)^wrapt==\S+", "wrapt==0.1", lock), "utf-8")
    monkeypatch.setattr(docs, "LOCK", changed)
    with pytest.raises(
        SystemExit, match=r"wrapt is installed as \S+ and requirements/dev\.txt says 0\.1: run  make docs"
    ):
        docs.runtime_licences()
    with pytest.raises(SystemExit, match=r"no-such-package is not installed and .* says nothing of it"):
        docs.closure(["no-such-package"])


@pytest.mark.parametrize("page", PAGES, ids=lambda p: p.name)
def test_links_lead_somewhere(page: Path) -> None:
    """A link to a file of the project names one that is there."""
    targets = re.findall(r"\]\((?!https?:|#)([^)#]+)[^)]*\)", page.read_text("utf-8"))
    assert [] == [t for t in targets if not (page.parent / t).exists()]


@pytest.mark.parametrize("page", PAGES, ids=lambda p: p.name)
def test_files_in_prose_exist(page: Path) -> None:
    """A file or folder of the project that a page names in backticks is there."""
    named = re.findall(r"`((?:[\w.-]+/)+[\w.-]*)`", page.read_text("utf-8"))
    tops = {p.name for place in (ROOT, ROOT / "lz_otel", page.parent) for p in place.iterdir()}
    ours = {name for name in named if name.partition("/")[0] in tops}
    assert set() == {
        name
        for name in ours
        if not any((place / name).exists() for place in (ROOT, ROOT / "lz_otel", page.parent))
        and not (ROOT / "lz_otel" / f"{name}.py").exists()
    }


def test_parts_in_the_design_exist() -> None:
    """A private module or folder that docs/design.md names is part of the package."""
    text = re.sub(
        r"(?s)<!-- generated: layout -->.*?<!-- end -->", "", (ROOT / "docs/design.md").read_text("utf-8")
    )
    named = set(re.findall(r"(?<![\w/.])(_[a-z]+(?:/\w+)?)(?![\w(.])", text))
    assert {"_capture/transports", "_intake", "_backlog", "_later"} <= named
    assert set() == {
        n for n in named if not list((ROOT / "lz_otel").glob(n)) + list((ROOT / "lz_otel").glob(f"{n}.py"))
    }


@pytest.mark.parametrize("page", PAGES, ids=lambda p: p.name)
def test_metrics_in_prose_exist(page: Path) -> None:
    """A metric that a page names by its Prometheus name is in the catalogue."""
    known = {m.prometheus for m in catalogue.ALL} | {label for m in catalogue.ALL for label in m.labels}
    named = set(re.findall(r"`((?:lz|gen_ai)_[a-z0-9_]+)[`{]", page.read_text("utf-8"))) - {"lz_otel"}
    assert set() == {
        n for n in named if re.sub(r"_(bucket|sum|count)$", "", n) not in known and n not in known
    }


def test_targets_in_prose_exist() -> None:
    """A make target that a page names is one of the Makefile."""
    targets = set(re.findall(r"(?m)^([a-z-]+):", (ROOT / "Makefile").read_text("utf-8")))
    named = {
        word
        for page in PAGES
        for command in re.findall(r"(?:`|^)make ([a-z -]+)", page.read_text("utf-8"), re.MULTILINE)
        for word in command.split()
    }
    commented = {"while", "you", "write"}
    assert set() == named - targets - commented
    assert {"demo", "test", "check"} <= named


def test_commands_in_prose_exist() -> None:
    """A module that a page runs is there, and `lz-otel` has the commands that a page names."""
    from lz_otel.cli.commands import app

    text = "\n".join(page.read_text("utf-8") for page in PAGES)
    modules = set(re.findall(r"python -m (lz_otel[\w.]*|benchmarks[\w.]*)", text))
    assert {"lz_otel.cli", "lz_otel.lab.history.growth"} <= modules
    assert [] == [module for module in modules if importlib.util.find_spec(module) is None]
    commands = set(re.findall(r"(?:`|^ {4})lz-otel ([a-z]+)", text, re.MULTILINE))
    known = {
        command.name or command.callback.__name__ for command in app.registered_commands if command.callback
    }
    assert {"simulate", "bundle"} <= commands <= known
