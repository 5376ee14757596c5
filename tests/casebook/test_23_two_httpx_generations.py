"""Case 23: httpx and httpx2, the SDKs of both, and versions nobody has seen yet.

The SDKs of the older generation need an environment of their own: tests/sdk runs in both.
"""

from __future__ import annotations

import json
import logging
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from importlib import metadata
from pathlib import Path
from typing import TYPE_CHECKING, Any

import httpx
import httpx2
import openai
import pytest

import lz_otel
from tests.casebook.bodies import ASK, CHAT, MESSAGES_URL
from tests.casebook.helpers import claude, good, gpt, observed, settle
from tests.peers import serving
from tests.processes import ROOT, run
from tests.wire_doubles import A_JSON, O_JSON, a_full, transport

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator


PROGRAMS = Path(__file__).parent / "programs"


def plain(module: Any, streamed: bool) -> None:
    """(d): a plain client of either package."""
    http = module.Client(transport=transport(module, good))
    lz_otel.instrument_client(http)
    assert http.post(MESSAGES_URL, json={**ASK, "stream": True} if streamed else ASK).read()


def chat(client: Any, streamed: bool) -> None:
    options = {"stream": True, "stream_options": {"include_usage": True}} if streamed else {}
    settle(client.chat.completions.create(**CHAT, **options))


def legacy_openai() -> Any:
    """(c): OpenAI's SDK on the older package."""
    return openai.OpenAI(api_key="k", http_client=httpx.Client(transport=transport(httpx, good)))


ANTHROPIC, OPENAI = ((1, 2104), (1, 20)), ((1, 100), (1, 30))
WAYS: dict[str, tuple[Callable[[bool], None], Any]] = {
    "a": (lambda s: settle(claude(good).messages.create(**ASK, stream=s)), ANTHROPIC),
    "b": (lambda s: chat(gpt(good), s), OPENAI),
    "c": (lambda s: chat(legacy_openai(), s), OPENAI),
    "d httpx": (lambda s: plain(httpx, s), ANTHROPIC),
    "d httpx2": (lambda s: plain(httpx2, s), ANTHROPIC),
}


@pytest.mark.parametrize("streamed", [False, True])
@pytest.mark.parametrize("way", WAYS)
def test_23_every_client_counts_alike(way: str, streamed: bool) -> None:
    """One sample with the right tokens, whichever package carries the call."""
    call, tokens = WAYS[way]
    with observed() as found:
        call(streamed)
        assert {"ok": 1} == found.outcomes()
        assert tokens == found.tokens()


def test_23_labels_do_not_tell_the_packages_apart() -> None:
    """The same call through either package has the very same series."""
    series = []
    for way in ("d httpx", "d httpx2", "a"):
        with observed() as found:
            WAYS[way][0](True)
            series.append(
                {
                    s.metric.name: sorted(labels for labels, _ in s.points)
                    for s in found.seen.store.snapshot()
                    if s.metric.name != "lz.internal.overhead"
                }
            )
    assert series[0] == series[1] == series[2]


# --- environments that have only one of the packages ------------------------------------------------


class _Handler(BaseHTTPRequestHandler):
    def do_POST(self) -> None:
        asked = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        body = json.dumps(O_JSON if "completions" in self.path else A_JSON).encode()
        if asked.get("stream"):
            body = b"".join(a_full())
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream" if asked.get("stream") else "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - name given by http.server
        """Nothing."""


@pytest.fixture
def api() -> Iterator[str]:
    """A loopback API of both vendors."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), _Handler)
    with serving(server) as url:
        yield url


def test_23_only_httpx2(api: str) -> None:
    """(e), (f): without httpx, and with httpx2 and the SDKs imported after instrument(): all observed."""
    done = run(PROGRAMS / "only_httpx2.py", api, silent=True)
    assert "WARNING" not in done.stdout


def test_23_only_httpx(api: str) -> None:
    """(e), (f): without httpx2 and without SDKs, httpx imported after instrument(): observed."""
    done = run(PROGRAMS / "only_httpx.py", api, silent=True)
    assert "WARNING" not in done.stdout


def test_23_neither_is_a_warning() -> None:
    """Where nothing can be hooked, that is said as a warning, and instrument() returns."""
    done = run(PROGRAMS / "neither_package.py", silent=True)
    [line] = [line for line in done.stdout.splitlines() if line.startswith("WARNING")]
    assert "none of httpx, httpx2, urllib3, aiohttp is installed" in line


def test_23_a_version_never_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    """(g): with every version 99.0 all is observed: no pin switches us off."""
    monkeypatch.setattr(metadata, "version", lambda name: "99.0")
    with observed() as found:
        for call, _ in WAYS.values():
            call(False)
        assert len(WAYS) == found.calls().count
        assert "99.0" in next(iter(found.seen.points("lz.build_info")))


def test_23_no_requirement_of_ours_on_a_client() -> None:
    """Neither httpx, httpx2 nor an SDK is a dependency, and no requirement has an upper bound."""
    import tomllib

    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert not [d for d in project["dependencies"] if d.startswith(("httpx", "anthropic", "openai"))]
    assert not [d for d in project["dependencies"] if "<" in d or "==" in d]


def test_23_status_says_what_is_hooked(caplog: pytest.LogCaptureFixture) -> None:
    """A function and a line of the log tell it."""
    caplog.set_level(logging.INFO, logger="lz_otel")
    with observed():
        assert {"httpx", "httpx2", "anthropic", "openai"} <= set(lz_otel.status().hooked)
    [line] = [r.getMessage() for r in caplog.records if "observing" in r.getMessage()]
    assert all(name in line for name in ("httpx", "httpx2", "anthropic", "openai"))


def test_23_clients_are_not_replaced() -> None:
    """The SDK takes the clients of the packages as they are."""
    with observed():
        assert type(legacy_openai()._client) is httpx.Client
        assert type(claude(good)._client) is httpx2.Client
