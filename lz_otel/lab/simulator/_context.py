"""One request on its way through the simulator."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from lz_otel.lab.simulator._draw import Draw
from lz_otel.lab.simulator._tokens import encode

if TYPE_CHECKING:
    from collections.abc import Callable

    from lz_otel.lab.simulator._schema import ScenarioRange
    from lz_otel.lab.simulator._truth import Mechanism, Record
    from lz_otel.lab.simulator.scenario import Behaviour

    Upstream = Callable[
        [dict[bytes, bytes], bytes, Record], "Answer"
    ]  # answers headers and body of a request

Headers = list[tuple[bytes, bytes]]
JSON = (b"content-type", b"application/json")


def force_of(headers: dict[bytes, bytes]) -> dict[str, str]:
    """Read ``x-sim-force: fault=429,529; symbolic=hit; output=20`` into a dict."""
    wishes = headers.get(b"x-sim-force", b"").decode("latin-1").split(";")
    pairs = (wish.partition("=") for wish in wishes)
    return {name.strip(): value.strip() for name, _, value in pairs}


def draw_key(record: Record) -> str:
    """Return what a request's draws depend on: its call and attempt, or where it has no name its number."""
    return f"{record.call}#{record.attempt}" if record.call else f"@{record.ordinal}"


class Context:
    """A request, what was drawn for it, and what is known of its answer so far.

    Attributes:
        headers: lower-case names, last value of each.
        body: decoded request body.
        behaviour: what the scenario says at this moment.
        force: outcomes that a test has set by ``x-sim-force``.
        extra: response headers that mechanisms add.
        usage_extra: fields that mechanisms add to ``usage``.
        total_ms: how long the whole answer takes; ``None`` until decided.
        first_ms: how long the first token takes; ``None`` for a share of the whole.
    """

    __slots__ = (
        "behaviour", "body", "draw", "extra", "first_ms", "force", "headers", "record", "stream",
        "total_ms", "usage_extra", "workspace",
    )  # fmt: skip

    def __init__(
        self,
        headers: dict[bytes, bytes],
        body: dict[str, Any],
        behaviour: Behaviour,
        record: Record,
        seed: int,
    ) -> None:
        self.headers = headers
        self.body = body
        self.behaviour = behaviour
        self.record = record
        self.force = force_of(headers)
        self.draw = Draw(seed, draw_key(record))
        self.stream = body.get("stream") is True
        self.extra: Headers = []
        self.usage_extra: dict[str, Any] = {}
        self.total_ms: float | None = None
        self.first_ms: float | None = None
        key_bytes = headers.get(b"x-api-key") or headers.get(b"authorization") or b""
        self.workspace = key_bytes.decode("latin-1")

    def header(self, name: bytes) -> str:
        """Value of a request header, or an empty text."""
        return self.headers.get(name, b"").decode("latin-1")

    def verdict(self, name: str, mechanism: Mechanism) -> None:
        """Write what a mechanism came to into the truth."""
        self.record.mechanisms[name] = mechanism

    def pieces(self) -> int:
        """Draw the number of pieces that a streamed text comes in."""
        chunks = self.behaviour.latency.chunks
        return self.draw.integer("chunks", int(chunks.low), int(chunks.high))

    def take(self, ms: float) -> None:
        """Serve the answer in this time by the scenario's scale, and write it into the truth."""
        self.total_ms = ms * self.behaviour.latency.scale
        self.record.waited_ms = round(self.total_ms, 3)

    def faster(self, name: str, band: ScenarioRange) -> None:
        """Serve the answer in this time, unless a faster mechanism does already."""
        ms = self.draw.band(name, band)
        if self.total_ms is None or ms < self.total_ms:
            self.total_ms = ms


@dataclass(slots=True)
class Answer:
    """What is to be sent, piece by piece.

    Attributes:
        pieces: (seconds to wait before it, bytes); for a plain answer a single piece.
        chunked: sent without a content length.
        wait: seconds before the head.
        cut: how it ends early: ``drop``, ``disconnect``, ``stall``, or nothing.
        cut_after: pieces sent before the cut.
        stall: seconds of silence before the cut.
        on_begin, on_end, on_lost: called when the head has been sent, when all has, and when it never begins.
    """

    status: int
    headers: Headers
    pieces: list[tuple[float, bytes]]
    chunked: bool = False
    wait: float = 0.0
    cut: str = ""
    cut_after: int = 0
    stall: float = 0.0
    on_begin: Callable[[], object] | None = None
    on_end: Callable[[], object] | None = None
    on_lost: Callable[[], object] | None = None


def reply(body: object, wait_ms: float | None = 0.0, status: int = 200) -> Answer:
    """Return an answer in one piece of JSON, after so many milliseconds."""
    return Answer(status, [JSON], [(0.0, encode(body))], wait=(wait_ms or 0.0) / 1000.0)
