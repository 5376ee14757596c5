"""What the simulated provider does, as data: one TOML file per scenario.

A file may say ``extends = "healthy"`` and then only what differs. A scenario holds a `Behaviour` (families, faults, latencies, limits), a timeline of phases
that override parts of it, and a description of the client's traffic that `traffic.plan`
turns into calls. Times are milliseconds where the key ends in ``_ms``, else seconds.
"""

from __future__ import annotations

import dataclasses
import tomllib
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from lz_otel.errors import ConfigurationError
from lz_otel.lab.simulator._schema import build, choice, count, flag, number, rate, span, text
from lz_otel.lab.simulator._traffic_schema import Route, Traffic, read_traffic

__all__ = [
    "GATEWAYS",
    "Behaviour",
    "Faults",
    "Gateway",
    "Intent",
    "Latency",
    "Limits",
    "Pruning",
    "Route",
    "Scenario",
    "Scheduling",
    "Symbolic",
    "Traffic",
    "Zeroing",
    "load",
    "names",
    "parse",
]

GATEWAYS = (
    "",
    "cloudflare",
    "helicone",
    "portkey",
    "litellm",
    "kong",
    "openrouter",
    "fastly",
    "rfc9211",
    "own",
)
_HERE = Path(__file__).parent / "scenarios"


@dataclass(frozen=True, slots=True)
class Latency:
    """How long answers take.

    ``full_ms`` and ``fast_ms`` are the two modes of article 000 (A). A stream's first token
    comes after ``first_token_share`` of the whole; ``scale`` multiplies every waiting time.
    """

    scale: float = number(1.0, 0.0, 100.0)
    full_ms: tuple[float, float] = span(800, 1200)
    fast_ms: tuple[float, float] = span(19, 38)
    first_token_share: float = rate(0.4)
    chunks: tuple[float, float] = span(4, 9)


@dataclass(frozen=True, slots=True)
class Faults:
    """Shares of requests that go wrong, by kind; at most one kind per attempt.

    ``stream_error``, ``no_stop`` and ``stall`` concern streams only. ``retry_after`` says
    which header an error that may be retried carries.
    """

    rate_limited: float = rate(0.0)
    overloaded: float = rate(0.0)
    server_error: float = rate(0.0)
    unavailable: float = rate(0.0)
    bad_gateway: float = rate(0.0)
    gateway_timeout: float = rate(0.0)
    spend_limit: float = rate(0.0)
    bad_request: float = rate(0.0)
    too_large: float = rate(0.0)
    stream_error: float = rate(0.0)
    no_stop: float = rate(0.0)
    drop: float = rate(0.0)
    disconnect: float = rate(0.0)
    stall: float = rate(0.0)
    slow_headers: float = rate(0.0)
    malformed_json: float = rate(0.0)
    retry_after: str = choice("ms", "ms", "seconds", "both", "none")
    retry_after_ms: float = number(200.0, 0.0, 3.6e6)
    stall_ms: float = number(30_000.0)


@dataclass(frozen=True, slots=True)
class Symbolic:
    """Article 000 (A): answers without a model, announced by ``x-anthropic-layer: zero``."""

    enabled: bool = flag()
    hit_rate: float = rate(0.805)
    contradiction_rate: float = rate(0.0)
    zero_output_rate: float = rate(0.0)
    invalid_output_rate: float = rate(0.0)
    slow_rate: float = rate(0.0)
    slow_ms: tuple[float, float] = span(350, 900)
    cold_ms: float = number(120.0)
    engine_ms: tuple[float, float] = span(19, 23)


@dataclass(frozen=True, slots=True)
class Pruning:
    """Article 001 (A; where the figure stands on the wire is C)."""

    enabled: bool = flag()
    report: str = choice("usage", "usage", "header", "count")
    effect: tuple[float, float] = span(0.95, 1.05)
    preservation_ms: tuple[float, float] = span(14.0, 22.6)
    reject_rate: float = rate(0.0)
    collapse_errors: bool = flag(True)
    latency_share: float = rate(0.9)


@dataclass(frozen=True, slots=True)
class Intent:
    """Article 002 (A): sampling intents."""

    enabled: bool = flag()
    silent_rate: float = rate(0.0)
    inconsistent_rate: float = rate(0.0)
    creative_repeat_rate: float = rate(0.123)
    first_token_ms: tuple[float, float] = span(389, 412)
    total_ms: tuple[float, float] = span(650, 850)


@dataclass(frozen=True, slots=True)
class Zeroing:
    """Article 003 (A): layers switched off while answering."""

    enabled: bool = flag()
    fallback_rate: float = rate(0.01)
    no_report_rate: float = rate(0.0)
    ratio: tuple[float, float] = span(0.35, 0.55)
    confidence: tuple[float, float] = span(0.85, 0.97)
    malformed_report_rate: float = rate(0.0)
    malformed_mask_rate: float = rate(0.0)
    constant_mask_rate: float = rate(0.0)
    string_mask_rate: float = rate(0.3)
    total_layers: int = count(32, 1, 1000)
    total_ms: tuple[float, float] = span(260, 400)


@dataclass(frozen=True, slots=True)
class Scheduling:
    """Article 004 (A; the header that says what was served is C)."""

    enabled: bool = flag()
    zero_rate: float = rate(0.97)
    not_served_rate: float = rate(0.0)
    ghost_rate: float = rate(0.0)
    total_ms: tuple[float, float] = span(110, 230)
    cache_hit_rate: float = rate(0.37)
    decompression_ms: float = number(39.0)
    anchor_efficiency: float = rate(0.937)


@dataclass(frozen=True, slots=True)
class Gateway:
    """A gateway with a response cache of its own in front of the provider (D)."""

    name: str = choice("", *GATEWAYS)
    ttl: float = number(300.0, 1.0)
    semantic_rate: float = rate(0.0)
    bypass_rate: float = rate(0.0)
    refresh_rate: float = rate(0.0)
    fallback_rate: float = rate(0.0)
    retry_rate: float = rate(0.0)
    hit_ms: tuple[float, float] = span(5, 15)


@dataclass(frozen=True, slots=True)
class PromptCache:
    """The provider's prompt cache (D)."""

    enabled: bool = flag(True)
    latency_share: float = rate(0.75)


@dataclass(frozen=True, slots=True)
class Limits:
    """Rate limits per minute, told in headers; enforced only when ``enforce`` is set."""

    requests: int = count(4000, 1)
    input_tokens: int = count(2_000_000, 1)
    output_tokens: int = count(400_000, 1)
    enforce: bool = flag()


@dataclass(frozen=True, slots=True)
class Answers:
    """What is answered: length in tokens, share of calls with tools that use one."""

    output_tokens: tuple[float, float] = span(12, 90)
    thinking_tokens: tuple[float, float] = span(20, 60)
    tool_use_rate: float = rate(0.7)
    refusal_rate: float = rate(0.0)


@dataclass(frozen=True, slots=True)
class Behaviour:
    """Everything the provider does at one moment."""

    latency: Latency = field(default_factory=Latency)
    faults: Faults = field(default_factory=Faults)
    symbolic: Symbolic = field(default_factory=Symbolic)
    pruning: Pruning = field(default_factory=Pruning)
    intent: Intent = field(default_factory=Intent)
    zeroing: Zeroing = field(default_factory=Zeroing)
    scheduling: Scheduling = field(default_factory=Scheduling)
    gateway: Gateway = field(default_factory=Gateway)
    prompt_cache: PromptCache = field(default_factory=PromptCache)
    limits: Limits = field(default_factory=Limits)
    answers: Answers = field(default_factory=Answers)

    def changed(self, tables: dict[str, Any], where: str) -> Behaviour:
        """The same with some keys of some parts replaced.

        Raises:
            ConfigurationError: an unknown part or key, or a value that is not allowed.
        """
        parts: dict[str, Any] = {}
        known = [f.name for f in dataclasses.fields(self)]
        for name, table in tables.items():
            if name not in known:
                raise ConfigurationError(f"{where}.{name}", table, "one of the tables " + ", ".join(known))
            part = getattr(self, name)
            parts[name] = build(type(part), table, f"{where}.{name}", part)
        return dataclasses.replace(self, **parts)


@dataclass(frozen=True, slots=True)
class _Head:
    description: str = text()
    expect: str = text()


@dataclass(frozen=True, slots=True)
class Scenario:
    """One scenario.

    Attributes:
        name: name of the file without its ending.
        description: what is wrong, in one or two sentences.
        expect: what an operator should see.
        phases: (simulated seconds since the first request, behaviour from then on), first at 0.
        traffic: what the client sends.
    """

    name: str
    description: str = ""
    expect: str = ""
    phases: tuple[tuple[float, Behaviour], ...] = ((0.0, Behaviour()),)
    traffic: Traffic = field(default_factory=Traffic)

    def at(self, seconds: float) -> Behaviour:
        """Behaviour at a moment after the first request."""
        current = self.phases[0][1]
        for start, behaviour in self.phases[1:]:
            if seconds < start:
                break
            current = behaviour
        return current

    def changed(self, **tables: Any) -> Scenario:
        """The same scenario with keys replaced in every phase: ``changed(latency={"scale": 0.05})``.

        Raises:
            ConfigurationError: an unknown part or key, or a value that is not allowed.
        """
        phases = tuple((start, b.changed(tables, self.name)) for start, b in self.phases)
        return dataclasses.replace(self, phases=phases)


def _over(below: dict[str, Any], above: dict[str, Any]) -> dict[str, Any]:
    """Lay one file's tables over another's; routes are told apart by name."""
    out = dict(below)
    for key, value in above.items():
        old = out.get(key)
        if isinstance(value, dict) and isinstance(old, dict):
            out[key] = _over(old, value)
        elif key == "routes" and isinstance(value, list) and isinstance(old, list):
            rows = {row.get("name"): row for row in old if isinstance(row, dict)}
            for row in value:
                if isinstance(row, dict):
                    rows[row.get("name")] = {**rows.get(row.get("name"), {}), **row}
            out[key] = list(rows.values())
        else:
            out[key] = value
    return out


def names() -> tuple[str, ...]:
    """Names of the scenarios that come with lz_otel, sorted."""
    return tuple(sorted(p.stem for p in _HERE.glob("*.toml")))


def load(scenario: str | Path) -> Scenario:
    """Read a scenario: one of `names()`, or a path to a TOML file.

    Raises:
        ConfigurationError: no such scenario, or something in the file cannot be used.
    """
    path = Path(scenario)
    if isinstance(scenario, str) and path.suffix != ".toml":
        path = _HERE / f"{scenario}.toml"
        if scenario not in names():
            raise ConfigurationError(
                "scenario", scenario, "a path to a .toml file or one of " + ", ".join(names())
            )
    try:
        content = path.read_text(encoding="utf-8")
    except OSError:
        raise ConfigurationError("scenario", str(scenario), "a file that can be read") from None
    return parse(content, path.stem, path.name)


def parse(content: str, name: str = "scenario", where: str = "") -> Scenario:
    """Make a scenario from the text of a TOML file.

    Raises:
        ConfigurationError: the text is no TOML, or something in it cannot be used.
    """
    where = where or f"{name}.toml"
    try:
        tables = tomllib.loads(content)
    except tomllib.TOMLDecodeError as error:
        raise ConfigurationError(where, str(error), "a TOML file") from None
    base_name = tables.pop("extends", None)
    if base_name is not None:
        if base_name not in names():
            raise ConfigurationError(f"{where}: extends", base_name, "one of " + ", ".join(names()))
        below = tomllib.loads((_HERE / f"{base_name}.toml").read_text(encoding="utf-8"))
        below.pop("phases", None)
        tables = _over(below, tables)
    head = build(_Head, {k: tables.pop(k) for k in ("description", "expect") if k in tables}, where)
    timeline = tables.pop("phases", [])
    traffic = read_traffic(tables.pop("traffic", {}), f"{where}: traffic")
    base = Behaviour().changed(tables, f"{where}: ")
    phases = [(0.0, base)]
    if not isinstance(timeline, list):
        raise ConfigurationError(f"{where}: phases", timeline, "a list of tables ([[phases]])")
    for index, phase in enumerate(timeline):
        here = f"{where}: phases[{index}]"
        if not isinstance(phase, dict):
            raise ConfigurationError(here, phase, "a table")
        after = phase.pop("after", None)
        if not isinstance(after, (int, float)) or isinstance(after, bool) or after <= phases[-1][0]:
            raise ConfigurationError(f"{here}.after", after, "seconds, more than those of the phase before")
        phases.append((float(after), base.changed(phase, here)))
    return Scenario(name, head.description, head.expect, tuple(phases), traffic)
