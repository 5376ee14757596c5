"""What users may rely on: the public names, their documentation, the version."""

from __future__ import annotations

import asyncio
import contextlib
import inspect
import re
import subprocess
import sys
import types
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import trio

import lz_otel
from lz_otel import _runtime
from lz_otel._export._threads import Flush
from lz_otel.testing import capture

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator

ROOT = Path(__file__).resolve().parent.parent
PROMISED = {
    "flush",
    "handler",
    "instrument",
    "instrument_client",
    "lifespan",
    "operation",
    "record_quality",
    "record_response_cache",
    "uninstrument",
}


def test_the_promised_names_are_there() -> None:
    """Names of an earlier version do not vanish."""
    assert set() == PROMISED - set(lz_otel.__all__)


def test_all_is_what_is_public() -> None:
    """Every name without an underscore is in ``__all__``, which is sorted, and the other way round."""
    public = {
        name
        for name, value in vars(lz_otel).items()
        if not name.startswith("_") and not isinstance(value, types.ModuleType) and name != "annotations"
    }
    assert public == set(lz_otel.__all__)
    assert sorted(lz_otel.__all__) == list(lz_otel.__all__)


@pytest.mark.parametrize("name", sorted(PROMISED))
def test_public_names_are_documented_and_typed(name: str) -> None:
    """Each public function says what it does, and every parameter and result has a type."""
    thing = getattr(lz_otel, name)
    assert inspect.getdoc(thing)
    function = thing.__init__ if inspect.isclass(thing) else thing
    signature = inspect.signature(function)
    untyped = [p.name for p in signature.parameters.values() if p.annotation is p.empty and p.name != "self"]
    assert [] == untyped
    assert signature.return_annotation is not signature.empty


def test_star_import_works() -> None:
    """``from lz_otel import *`` gives what ``__all__`` says, on a fresh interpreter."""
    code = "from lz_otel import *; import lz_otel; print(set(lz_otel.__all__) - set(dir()))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=ROOT)
    assert "set()\n" == done.stdout


def test_the_package_says_that_it_is_typed() -> None:
    """Type checkers of users read our annotations only if the marker is there."""
    assert (ROOT / "lz_otel" / "py.typed").is_file()


def test_version_is_in_the_changelog() -> None:
    """The version is a proper one; the changelog has a section for it or one for what is not released."""
    assert re.fullmatch(r"\d+\.\d+\.\d+", lz_otel.__version__)
    changelog = (ROOT / "CHANGELOG.md").read_text("utf-8")
    assert f"## [{lz_otel.__version__}]" in changelog or "## [Unreleased]" in changelog


class _Sent:
    """Counts what is asked to be sent; it arrives, or does not."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, ok: bool = True) -> None:
        self.times = 0
        self.ok = ok
        monkeypatch.setattr(_runtime.current(), "ask", self.ask)

    def ask(self) -> list[Flush]:
        self.times += 1
        flush = Flush()
        flush.end(self.ok)
        return [flush]


@pytest.fixture
def observed() -> Iterator[None]:
    lz_otel.instrument(exporters="none")
    yield
    lz_otel.uninstrument()


def test_nothing_to_flush_has_arrived(monkeypatch: pytest.MonkeyPatch) -> None:
    """Before `instrument`, and without a push, nothing can be missing."""
    assert lz_otel.flush()
    with capture():
        assert lz_otel.flush(0)


@pytest.mark.parametrize("arrives", [True, False])
def test_flush_says_whether_all_arrived(
    observed: None, monkeypatch: pytest.MonkeyPatch, arrives: bool
) -> None:
    """What cannot be asked for has not arrived either, and a fault of ours stays inside."""
    sent = _Sent(monkeypatch, arrives)
    assert arrives is lz_otel.flush(1)
    assert 1 == sent.times
    monkeypatch.setattr(_runtime.current(), "ask", lambda: None)
    assert not lz_otel.flush(1)
    monkeypatch.setattr(_runtime.current(), "ask", lambda: 1 / 0)
    assert not lz_otel.flush(1)


def test_a_handler_flushes_after_each_invocation(observed: None, monkeypatch: pytest.MonkeyPatch) -> None:
    """Values and exceptions are passed on, sync and async, with arguments and without; the name stays."""
    sent = _Sent(monkeypatch)

    @lz_otel.handler
    def plain(event: int, context: str = "") -> str:
        return f"{1 // event}{context}"

    @lz_otel.handler(timeout=1)
    async def later(event: int) -> int:
        await asyncio.sleep(0)
        return 1 // event

    assert ("1c", 1) == (plain(1, context="c"), asyncio.run(later(1)))
    with pytest.raises(ZeroDivisionError):
        plain(0)
    with pytest.raises(ZeroDivisionError):
        asyncio.run(later(0))
    assert (4, "plain", True) == (sent.times, plain.__name__, inspect.iscoroutinefunction(later))


def test_a_lifespan_by_itself_and_around_another(observed: None, monkeypatch: pytest.MonkeyPatch) -> None:
    """We flush after the other one's end; its state, and what it raises, pass through."""
    sent = _Sent(monkeypatch)
    seen: list[object] = []

    @contextlib.asynccontextmanager
    async def mine(app: object) -> AsyncIterator[dict[str, int]]:
        seen.append("begins")
        yield {"a": 1}
        seen.append(f"ends {sent.times}")

    async def old_style(app: object) -> AsyncIterator[None]:
        seen.append("old")
        yield

    async def serve(lifespan: Any) -> None:
        async with lifespan("app") as state:
            seen.append(state)

    asyncio.run(serve(lz_otel.lifespan))
    asyncio.run(serve(lz_otel.lifespan(mine)))
    asyncio.run(serve(lz_otel.lifespan(old_style)))
    trio.run(serve, lz_otel.lifespan)
    assert [None, "begins", {"a": 1}, "ends 1", "old", None, None] == seen
    assert 4 == sent.times

    @contextlib.asynccontextmanager
    async def broken(app: object) -> AsyncIterator[None]:
        raise KeyError("theirs")
        yield

    with pytest.raises(KeyError):
        asyncio.run(serve(lz_otel.lifespan(broken)))


@pytest.mark.parametrize("wrap", [False, True])
def test_fastapi_takes_the_lifespan(observed: None, monkeypatch: pytest.MonkeyPatch, wrap: bool) -> None:
    """`FastAPI(lifespan=lz_otel.lifespan)` as it stands, and around one of the application's."""
    fastapi = pytest.importorskip("fastapi")
    sent = _Sent(monkeypatch)
    messages = [{"type": "lifespan.startup"}, {"type": "lifespan.shutdown"}]
    answers: list[Any] = []
    states: dict[str, Any] = {}

    @contextlib.asynccontextmanager
    async def mine(app: object) -> AsyncIterator[dict[str, int]]:
        yield {"mine": 1}

    async def receive() -> Any:
        return messages.pop(0)

    async def send(message: Any) -> None:
        answers.append(message["type"])

    app = fastapi.FastAPI(lifespan=lz_otel.lifespan(mine) if wrap else lz_otel.lifespan)
    asyncio.run(app({"type": "lifespan", "app": app, "state": states}, receive, send))
    assert ["lifespan.startup.complete", "lifespan.shutdown.complete"] == answers
    assert (1, {"mine": 1} if wrap else {}) == (sent.times, states)
