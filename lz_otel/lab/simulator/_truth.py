"""The truth log: what the simulator really did, one record per request.

It exists to check an observer against. Nothing in lz_otel reads it to find its numbers.
"""

from __future__ import annotations

from collections import Counter, defaultdict, deque
from typing import IO, TYPE_CHECKING, Any

import msgspec

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path


class Mechanism(msgspec.Struct, omit_defaults=True):
    """What one mechanism really did to one request.

    Attributes:
        verdict: ``hit``, ``miss``, ``fallback`` or ``bypass``; empty when nothing can be concluded.
        reason: why, from the closed lists of the contract.
        visible: False when the answer does not tell the client.
        facts: figures the wire carried, or details of the decision.
    """

    verdict: str
    reason: str | None = None
    visible: bool = True
    facts: dict[str, Any] = {}


class Record(msgspec.Struct, omit_defaults=True):
    """One request, as the provider saw it.

    Token counts are those that the provider billed; ``usage_sent``: how far it stated them.

    Attributes:
        ordinal: number of the request, from 1, in order of arrival.
        call, route: echo of the request headers ``x-sim-call`` and ``x-sim-route``.
        attempt: ``x-stainless-retry-count``.
        at: seconds since the start by the simulator's clock.
        api: ``messages``, ``count_tokens``, ``chat``, ``responses``, ``embeddings``, ``other``.
        ending: ``complete``, ``error`` (HTTP error), ``stream_error``, ``no_stop``, ``drop``,
            ``disconnect``, ``stall``, ``malformed`` or ``client_closed``.
        usage_sent: ``full``, ``start`` (a stream that broke after its first event), ``none``,
            ``not_requested``, or ``replayed`` and ``zero`` by a gateway's cache.
        input_tokens: whole prompt that was billed, cached parts included.
        would_output_tokens: length of the answer, whatever was billed for it.
        path: ``fast`` when a mechanism other than prompt cache and pruning served it.
        waited_ms: waiting time that the simulator planned.
        engine_ms: what the fast engine reports of itself.
        similar: the last user text was, but for numbers, that of one of the last 100 that asked
            for scheduling; depends on the order of arrival.
    """

    ordinal: int
    call: str = ""
    route: str = ""
    attempt: int = 0
    at: float = 0.0
    api: str = "other"
    model: str = ""
    stream: bool = False
    status: int = 0
    ending: str = ""
    fault: str = ""
    error_type: str = ""
    error_code: str = ""
    usage_sent: str = "none"
    input_tokens: int = 0
    uncached_tokens: int = 0
    cache_read_tokens: int = 0
    cache_write_tokens: int = 0
    cache_write_5m_tokens: int = 0
    cache_write_1h_tokens: int = 0
    output_tokens: int = 0
    reasoning_tokens: int = 0
    would_output_tokens: int = 0
    counted_tokens: int = 0
    stop_reason: str = ""
    path: str = "full"
    served_by: str = ""
    waited_ms: float = 0.0
    engine_ms: float | None = None
    cold: bool = False
    mechanisms: dict[str, Mechanism] = {}
    malformed: list[str] = []
    ghosts: int = 0
    similar: bool = False
    bytes_sent: int = 0

    @property
    def request_id(self) -> str:
        """Return what the answer's head names the request by."""
        return f"req_sim{self.ordinal:020x}"


def hide(record: Record, everything: bool = False) -> None:
    """Hide what was decided: only the head arrived at the client, or nothing at all."""
    for name, mechanism in record.mechanisms.items():
        if everything or name in ("prompt_cache", "pruning"):  # what the body shows
            mechanism.visible = False


_read = msgspec.json.Decoder(Record).decode


def read_lines(lines: Iterable[bytes]) -> list[dict[str, Any]]:
    """JSON lines of a truth log as dicts with all their fields, by ordinal.

    In the log itself, fields that have their default are left out.
    """
    out = []
    for line in lines:
        record = msgspec.structs.asdict(_read(line))
        record["mechanisms"] = {k: msgspec.structs.asdict(m) for k, m in record["mechanisms"].items()}
        out.append(record)
    return sorted(out, key=lambda r: r["ordinal"])


_INPUT = ("input_tokens", "uncached_tokens", "cache_read_tokens", "cache_write_tokens")
_TOKENS = (*_INPUT, "output_tokens", "reasoning_tokens")


class Truth:
    """All records of a run, with running totals.

    Args:
        limit: records kept in memory; the totals go on counting beyond it.
        path: file that gets one JSON line per record, besides.
    """

    def __init__(self, limit: int = 500_000, path: Path | None = None) -> None:
        self._lines: deque[bytes] = deque(maxlen=limit)
        self._encoder = msgspec.json.Encoder()
        self._file: IO[bytes] | None = path.open("ab") if path else None
        self._ordinal = 0
        self.active = 0  # requests begun and not yet finished
        self._totals: Counter[str] = Counter()
        self._groups: dict[str, Counter[str]] = defaultdict(Counter)

    def begin(self) -> Record:
        """Return a new record for a request that has just arrived."""
        self._ordinal += 1
        self.active += 1
        return Record(self._ordinal)

    def finish(self, record: Record) -> None:
        """Keep the record of a request that is over, and add it to the totals."""
        self.active -= 1
        line = self._encoder.encode(record)
        self._lines.append(line)
        if self._file is not None:
            self._file.write(line + b"\n")
        totals = self._totals
        totals["requests"] += 1
        totals["bytes_sent"] += record.bytes_sent
        if record.usage_sent in ("full", "start"):
            for name in _TOKENS if record.usage_sent == "full" else _INPUT:
                totals[name] += getattr(record, name)
        for group in ("status", "ending", "api", "path", "fault"):
            if group != "fault" or record.fault:
                self._count(group, str(getattr(record, group)))
        for name, mechanism in record.mechanisms.items():
            if mechanism.verdict:
                self._count("verdicts", f"{name}.{mechanism.verdict}")
            if mechanism.verdict and mechanism.reason:
                self._count("reasons", f"{name}.{mechanism.reason}")
        for signal in record.malformed:
            self._count("malformed", signal)

    def _count(self, group: str, key: str) -> None:
        self._groups[group][key] += 1

    def lines(self, after: int = 0) -> bytes:
        """Return the kept records as JSON lines, without the first ``after``."""
        return b"".join(line + b"\n" for line in list(self._lines)[after:])

    def records(self) -> list[dict[str, Any]]:
        """Return the kept records as dicts with all their fields, by ordinal."""
        return read_lines(list(self._lines))

    def summary(self) -> dict[str, Any]:
        """Return totals of the run."""
        groups = {group: dict(sorted(counts.items())) for group, counts in self._groups.items()}
        return {"begun": self._ordinal, "active": self.active, **self._totals, **groups}

    def reset(self) -> None:
        """Forget everything. Requests in progress are counted when they end."""
        self._lines.clear()
        self._totals.clear()
        self._groups.clear()
        self._ordinal = 0

    def close(self) -> None:
        """Flush and close the file."""
        if self._file is not None:
            self._file.close()
            self._file = None
