"""The shape of the package: who may import whom, how long a module may be, what an import of it loads."""

from __future__ import annotations

import ast
import http.server
import json
import subprocess
import sys
import threading
from pathlib import Path
from typing import TYPE_CHECKING

import httpx2

import lz_otel
from lz_otel.testing import capture
from tests.wire_doubles import A_JSON, a_full

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from types import FrameType

ASK = {"model": "claude-haiku-4-5", "max_tokens": 9, "messages": [{"role": "user", "content": "x"}]}

PACKAGE = Path(__file__).resolve().parent.parent / "lz_otel"

# The order of the stages: each may import the ground, itself, and data types of those before it.
STAGES = ("_capture", "_extract", "_price", "_judge", "_measure", "_export")
GROUND = ("_ground", "_version", "catalogue", "errors", "mechanisms", "model")
# What every part may import, and what each of these may import in turn.
BASE: dict[str, set[str]] = {
    "errors": set(),
    "mechanisms": set(),
    "_version": set(),
    "_ground": {"catalogue", "errors", "mechanisms"},
    "catalogue": {"_ground", "errors", "mechanisms"},
    "model": {"_ground"},
    "_config": {"_ground", "catalogue", "errors", "mechanisms", "_version"},
}
# Data types that later stages may import, by the module that defines them.
DATA = {
    "_capture.attempt": {"Attempt"},
    "_capture.call": {"Call"},
    "_extract.request": {"Fields", "NOTHING", "user_id"},
    "_price.cost": {"Prices"},
    "_measure.store": {"HistogramValue", "Series", "Store", "other"},
}
# The only places that see several stages.
COMPOSERS = {"_api", "_backlog", "_intake", "_later", "_operation", "_reports", "_runtime"}
ALLOWED = {
    **BASE,
    **{stage: {*BASE} for stage in STAGES},
    **{composer: {*BASE, *STAGES, *COMPOSERS} for composer in COMPOSERS},
    "explain": {*BASE, "_extract", "_judge"},
    "bundle": {"_ground", "catalogue", "errors", "mechanisms", "_version"},
}
# Calls that go up a stage by what was handed over: from part to part, and what is handed.
HANDED = {
    (
        "_capture",
        "_intake",
    ): "Handed.ended and .lost, Hooks.begin, HandedCalls: an attempt or a call begins or ends",
    ("_capture", "_later"): "Handed.read_along: a body is read as it passes",
    ("_capture", "_extract"): "PassingBody: a piece of such a body",
    ("_capture", "_export"): "WhenImported: a development server or a task queue is imported",
    ("_extract", "_judge"): "text_sink and mask_sink of Facts: a mechanism sees the text as it passes",
    ("_measure", "_intake"): "Store.before_snapshot: what has ended is brought in before numbers are read",
    ("_measure", "_export"): "Store.listeners: an exporter follows each batch",
    ("_ground", "_runtime"): "Guard.on_fault: a fault is counted",
}
LONGEST = 400
HEAVY = (
    "httpx",
    "httpx2",
    "anthropic",
    "openai",
    "typer",
    "rich",
    "starlette",
    "uvicorn",
    "brotli",
    "zstandard",
    "grafana_foundation_sdk",
    "opentelemetry.exporter",
)


def modules() -> dict[str, Path]:
    """Dotted name below the package -> file; a package goes by its own name."""
    out = {}
    for path in sorted(PACKAGE.rglob("*.py")):
        parts = path.relative_to(PACKAGE).with_suffix("").parts
        out[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = path
    return out


def imports(source: str, module: str) -> Iterator[tuple[str, str]]:
    """What a source imports of the library: a module ("" for the package), and a name of it."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            names = [(alias.name, "") for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            base = node.module or ""
            if node.level:
                above = ["lz_otel", *module.split(".")][: -node.level]
                base = ".".join([*above, *([base] if base else [])])
            # `from lz_otel import x` imports the part x
            names = [
                (f"{base}.{alias.name}", "") if base == "lz_otel" else (base, alias.name)
                for alias in node.names
            ]
        else:
            continue
        for path, name in names:
            first, _, rest = path.partition(".")
            if first == "lz_otel":
                yield rest, name


def wrong_edges(source: str, module: str) -> list[str]:
    """The modules that this module imports and may not."""
    part = module.split(".")[0]
    allowed = ALLOWED.get(part)
    if allowed is None:
        return []
    earlier = STAGES[: STAGES.index(part)] if part in STAGES else ()
    wrong = set()
    for path, name in imports(source, module):
        other = path.split(".")[0]
        if other in {part, *allowed} or (other in earlier and name in DATA.get(path, ())):
            continue
        wrong.add(f"{path}.{name}".strip("."))
    return sorted(wrong)


def test_imports_go_one_way() -> None:
    """A module imports the base, its own stage and earlier ones, and nothing else of the library."""
    wrong = {
        name: edges
        for name, path in modules().items()
        if (edges := wrong_edges(path.read_text("utf-8"), name))
    }
    assert {} == wrong


def test_a_wrong_edge_is_seen() -> None:
    """Each way to write an import of a later stage, or of more than data of an earlier one, is found."""
    sources = (
        "import lz_otel._export.otlp",
        "from lz_otel._export import otlp",
        "from lz_otel import _export",
        "def f():\n    from lz_otel._export.otlp import X",
        "if TYPE_CHECKING:\n    from lz_otel._export.otlp import X",
        "from lz_otel._capture.transports import Hooks",
        "from lz_otel._capture.attempt import shells",
    )
    assert [1] * len(sources) == [len(wrong_edges(s, "_extract.framing")) for s in sources]
    assert [] == wrong_edges(
        "from lz_otel._capture.attempt import Attempt\nfrom lz_otel.model import Facts", "_extract.framing"
    )


class Answer(http.server.BaseHTTPRequestHandler):
    """Answers one call as JSON, or as a stream of server-sent events."""

    def do_POST(self) -> None:
        """Send what was asked for."""
        asked = json.loads(self.rfile.read(int(self.headers["content-length"])))
        self.send_response(200)
        body = a_full() if asked.get("stream") else json.dumps(A_JSON).encode()
        self.send_header("content-type", "text/event-stream" if asked.get("stream") else "application/json")
        self.send_header("connection", "close")
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        """Log nothing."""


def edges(work: Callable[[], None]) -> set[tuple[str, str]]:
    """Calls from one part of the library to another while some work runs, whatever they went by."""
    found: set[tuple[str, str]] = set()

    def part(frame: FrameType | None) -> str:
        path = "" if frame is None else frame.f_code.co_filename
        return (
            Path(path).relative_to(PACKAGE).parts[0].removesuffix(".py")
            if path.startswith(str(PACKAGE))
            else ""
        )

    def profile(frame: FrameType, event: str, argument: object) -> None:
        if event == "call":
            found.add((part(frame.f_back), part(frame)))

    sys.setprofile(profile)
    try:
        work()
    finally:
        sys.setprofile(None)
    return {(caller, callee) for caller, callee in found if caller and callee and caller != callee}


def test_calls_go_one_way() -> None:
    """A call goes to the ground or down a stage; up it goes only by what was handed over."""
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Answer)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    url = f"http://127.0.0.1:{server.server_port}/v1/messages"

    def work() -> None:
        with capture(
            mechanisms="symbolic,pruning,intent,zeroing,scheduling,prompt_cache,response_cache"
        ) as seen:
            for stream in (False, True):
                with lz_otel.operation("route"):
                    headers = {"anthropic-version": "2023-06-01", "anthropic-sampling-intent": "creative"}
                    httpx2.post(url, json={**ASK, "stream": stream}, headers=headers)
            seen.store.snapshot()

    try:
        seen = edges(work)
    finally:
        server.shutdown()
        server.server_close()
    free = {*COMPOSERS, "testing", "_config", "__init__", *GROUND}
    order = {stage: place for place, stage in enumerate(STAGES)}
    up = {
        (caller, callee)
        for caller, callee in seen
        if callee not in GROUND and caller not in free and not order.get(caller, 0) > order.get(callee, 99)
    }
    assert set() == up - set(HANDED)
    assert {("_capture", "_intake"), ("_capture", "_later"), ("_measure", "_intake")} <= up


def test_every_part_is_known() -> None:
    """A new part of the package has to be given its place in this test."""
    free = {"", "testing", "cli", "lab"}  # public faces and tools: they may use what is public
    assert set() == {m.split(".")[0] for m in modules()} - set(ALLOWED) - free


def test_modules_are_short() -> None:
    """No module is longer than can be read at one go; data goes into data files."""
    lengths = {name: len(path.read_text("utf-8").splitlines()) for name, path in modules().items()}
    assert {} == {name: n for name, n in lengths.items() if n > LONGEST}


def test_what_cannot_be_read_is_one_list() -> None:
    """Only `_ground.unreadable` lists what a decoder raises: msgspec 0.21 raises more than later ones."""
    users = [name for name, path in modules().items() if "MsgspecError" in path.read_text("utf-8")]
    assert ["_ground.unreadable"] == users


def test_import_loads_nothing_optional() -> None:
    """``import lz_otel`` loads no HTTP client, SDK, exporter or tool: a host pays for what it uses."""
    code = f"import sys, lz_otel; print([m for m in {HEAVY!r} if m in sys.modules])"
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=PACKAGE.parent
    )
    assert "[]\n" == done.stdout


def test_every_module_defers_annotations() -> None:
    """Annotations are never evaluated at run time, so that types cost no imports."""
    lacking = [
        name
        for name, path in modules().items()
        if (text := path.read_text("utf-8")).strip()
        and ast.parse(text).body[1:]
        and "from __future__ import annotations" not in text
    ]
    assert [] == lacking


def test_the_top_level_is_small() -> None:
    """At most sixteen files stand at the top; the ground has a folder of its own."""
    assert len([path for path in PACKAGE.iterdir() if path.is_file()]) <= 16
