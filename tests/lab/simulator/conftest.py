"""A simulator without a network for the rules, and one on loopback for the official SDKs."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from lz_otel.lab.simulator import parse, running
from lz_otel.lab.simulator._clock import Clock
from lz_otel.lab.simulator._provider import Provider

if TYPE_CHECKING:
    from collections.abc import Iterator

    from lz_otel.lab.simulator._context import Answer

LONG = "You are the help desk of a bookshop. " * 200  # 1,850 tokens
FAMILIES = "\n".join(
    f"[{name}]\nenabled = true" for name in ("symbolic", "pruning", "intent", "zeroing", "scheduling")
)


class Asked:
    """One answer, with its record, as a client would see it."""

    def __init__(self, answer: Answer, record: Any) -> None:
        self.answer = answer
        self.record = record
        self.status = answer.status
        self.headers = {k.decode(): v.decode() for k, v in answer.headers}
        self.body = b"".join(data for _, data in answer.pieces)

    @property
    def json(self) -> Any:
        """The decoded body."""
        return json.loads(self.body)

    @property
    def usage(self) -> Any:
        """``usage`` of a whole answer."""
        return self.json["usage"]

    @property
    def events(self) -> list[Any]:
        """The decoded data of a stream's events."""
        return [json.loads(line[6:]) for line in self.body.split(b"\n") if line.startswith(b"data: {")]


class Bench:
    """A provider whose clock is moved by hand."""

    def __init__(self, scenario: str = "", seed: int = 0) -> None:
        self.clock = Clock(scale=0.0)
        self.provider = Provider(parse(f"[latency]\nscale = 0\n{scenario}"), seed, self.clock)

    def ask(self, body: dict[str, Any] | None = None, api: str = "messages", **headers: str) -> Asked:
        """Send one request and take the whole answer; ``a_b`` is the header ``a-b``."""
        sent = {
            "x-api-key": "k",
            "authorization": "k",
            **{k.replace("_", "-"): v for k, v in headers.items()},
        }
        raw = {k.encode(): v.encode() for k, v in sent.items()}
        record = self.provider.begin(raw, api)
        answers = {"messages": self.provider.messages, "count_tokens": self.provider.count_tokens}
        whole = {
            "model": "claude-sonnet-5-5",
            "max_tokens": 200,
            "messages": [{"role": "user", "content": "hello"}],
        }
        answer = self.provider.serve(
            answers[api], raw, json.dumps({**whole, **(body or {})}).encode(), record
        )
        if answer.on_begin is not None:
            answer.on_begin()
        if answer.on_end is not None:
            answer.on_end()
        self.provider.truth.finish(record)
        return Asked(answer, record)


@pytest.fixture
def bench() -> type[Bench]:
    """Makes a provider without a network."""
    return Bench


@pytest.fixture
def long_text() -> str:
    """A text longer than any minimum of the models used here."""
    return LONG


@pytest.fixture(scope="session")
def families() -> str:
    """TOML that switches all families on."""
    return FAMILIES


@pytest.fixture(scope="session")
def server() -> Iterator[Any]:
    """One simulator on loopback with all families on; tests reset it."""
    pytest.importorskip("starlette")
    pytest.importorskip("uvicorn")
    with running(
        parse(FAMILIES + "\n[faults]\nretry_after_ms = 5\nstall_ms = 400"), latency_scale=0.0
    ) as sim:
        yield sim


@pytest.fixture
def sim(server: Any) -> Any:
    """The simulator on loopback, with an empty memory."""
    server.settle()
    server.reset()
    return server


@pytest.fixture
def claude(sim: Any) -> Iterator[Any]:
    """The official client, pointed at the simulator."""
    anthropic = pytest.importorskip("anthropic")
    with anthropic.Anthropic(base_url=sim.url, api_key="k") as client:
        yield client


@pytest.fixture
def gpt(sim: Any) -> Iterator[Any]:
    """The official client, pointed at the simulator."""
    openai = pytest.importorskip("openai")
    with openai.OpenAI(base_url=sim.url + "/v1", api_key="k") as client:
        yield client
