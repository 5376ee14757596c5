"""What the simulated provider does, as data: one TOML file per scenario.

A file may say ``extends = "healthy"`` and then only what differs. A scenario holds a `Behaviour` (families,
faults, latencies, limits), a timeline of phases that override parts of it, and a description of the client's
traffic that `traffic.plan` turns into calls. Times are milliseconds where the key ends in ``_ms``, else
seconds.
"""

from __future__ import annotations

import tomllib
from itertools import pairwise
from pathlib import Path
from typing import Annotated, Any, Literal, get_args

import msgspec
from msgspec import Meta

from lz_otel._ground import toml
from lz_otel.errors import ConfigurationError
from lz_otel.lab.simulator._schema import Band, Count, Number, ScenarioRange, ScenarioTable, Share
from lz_otel.lab.simulator._traffic_schema import Traffic

_GatewayName = Literal[
    "", "cloudflare", "helicone", "portkey", "litellm", "kong", "openrouter", "fastly", "rfc9211", "own"
]
GATEWAYS: tuple[str, ...] = get_args(_GatewayName)
_AFTER = "seconds, more than those of the phase before"
_HERE = Path(__file__).parent / "scenarios"


class Latency(ScenarioTable, frozen=True):
    """How long answers take.

    ``full_ms`` and ``fast_ms`` are the two modes of article 000 (A). A stream's first token
    comes after ``first_token_share`` of the whole; ``scale`` multiplies every waiting time.
    """

    scale: Annotated[float, Meta(ge=0.0, le=100.0)] = 1.0
    full_ms: Band = ScenarioRange(800, 1200)
    fast_ms: Band = ScenarioRange(19, 38)
    first_token_share: Share = 0.4
    chunks: Band = ScenarioRange(4, 9)


class Faults(ScenarioTable, frozen=True):
    """Shares of requests that go wrong, by kind; at most one kind per attempt.

    ``stream_error``, ``no_stop`` and ``stall`` concern streams only. ``retry_after`` says
    which header an error that may be retried carries.
    """

    rate_limited: Share = 0.0
    overloaded: Share = 0.0
    server_error: Share = 0.0
    unavailable: Share = 0.0
    bad_gateway: Share = 0.0
    gateway_timeout: Share = 0.0
    spend_limit: Share = 0.0
    bad_request: Share = 0.0
    too_large: Share = 0.0
    stream_error: Share = 0.0
    no_stop: Share = 0.0
    drop: Share = 0.0
    disconnect: Share = 0.0
    stall: Share = 0.0
    slow_headers: Share = 0.0
    malformed_json: Share = 0.0
    retry_after: Literal["ms", "seconds", "both", "none"] = "ms"
    retry_after_ms: Annotated[float, Meta(ge=0.0, le=3.6e6)] = 200.0
    stall_ms: Number = 30_000.0


class SymbolicTable(ScenarioTable, frozen=True):
    """Article 000 (A): answers without a model, announced by ``x-anthropic-layer: zero``."""

    enabled: bool = False
    hit_rate: Share = 0.805
    contradiction_rate: Share = 0.0
    zero_output_rate: Share = 0.0
    invalid_output_rate: Share = 0.0
    slow_rate: Share = 0.0
    slow_ms: Band = ScenarioRange(350, 900)
    cold_ms: Number = 120.0
    engine_ms: Band = ScenarioRange(19, 23)


class Pruning(ScenarioTable, frozen=True):
    """Article 001 (A; where the figure stands on the wire is C)."""

    enabled: bool = False
    report: Literal["usage", "header", "count"] = "usage"
    effect: Band = ScenarioRange(0.95, 1.05)
    preservation_ms: Band = ScenarioRange(14.0, 22.6)
    reject_rate: Share = 0.0
    collapse_errors: bool = True
    latency_share: Share = 0.9


class Intent(ScenarioTable, frozen=True):
    """Article 002 (A): sampling intents."""

    enabled: bool = False
    silent_rate: Share = 0.0
    inconsistent_rate: Share = 0.0
    creative_repeat_rate: Share = 0.123
    first_token_ms: Band = ScenarioRange(389, 412)
    total_ms: Band = ScenarioRange(650, 850)


class Zeroing(ScenarioTable, frozen=True):
    """Article 003 (A): layers switched off while answering."""

    enabled: bool = False
    fallback_rate: Share = 0.01
    no_report_rate: Share = 0.0
    ratio: Band = ScenarioRange(0.35, 0.55)
    confidence: Band = ScenarioRange(0.85, 0.97)
    malformed_report_rate: Share = 0.0
    malformed_mask_rate: Share = 0.0
    constant_mask_rate: Share = 0.0
    string_mask_rate: Share = 0.3
    total_layers: Annotated[int, Meta(ge=1, le=1000)] = 32
    total_ms: Band = ScenarioRange(260, 400)


class Scheduling(ScenarioTable, frozen=True):
    """Article 004 (A; the header that says what was served is C)."""

    enabled: bool = False
    zero_rate: Share = 0.97
    not_served_rate: Share = 0.0
    ghost_rate: Share = 0.0
    total_ms: Band = ScenarioRange(110, 230)
    cache_hit_rate: Share = 0.37
    decompression_ms: Number = 39.0
    anchor_efficiency: Share = 0.937


class Gateway(ScenarioTable, frozen=True):
    """A gateway with a response cache of its own in front of the provider (D)."""

    name: _GatewayName = ""
    ttl: Annotated[float, Meta(ge=1.0, le=1e9)] = 300.0
    semantic_rate: Share = 0.0
    bypass_rate: Share = 0.0
    refresh_rate: Share = 0.0
    fallback_rate: Share = 0.0
    retry_rate: Share = 0.0
    hit_ms: Band = ScenarioRange(5, 15)


class PromptCache(ScenarioTable, frozen=True):
    """The provider's prompt cache (D)."""

    enabled: bool = True
    latency_share: Share = 0.75


class Limits(ScenarioTable, frozen=True):
    """Rate limits per minute, stated in headers; enforced only when ``enforce`` is set."""

    requests: Count = 4000
    input_tokens: Count = 2_000_000
    output_tokens: Count = 400_000
    enforce: bool = False


class Answers(ScenarioTable, frozen=True):
    """What is answered: length in tokens, share of calls with tools that use one."""

    output_tokens: Band = ScenarioRange(12, 90)
    thinking_tokens: Band = ScenarioRange(20, 60)
    tool_use_rate: Share = 0.7


class Behaviour(ScenarioTable, frozen=True):
    """Everything the provider does at one moment."""

    latency: Latency = Latency()
    faults: Faults = Faults()
    symbolic: SymbolicTable = SymbolicTable()
    pruning: Pruning = Pruning()
    intent: Intent = Intent()
    zeroing: Zeroing = Zeroing()
    scheduling: Scheduling = Scheduling()
    gateway: Gateway = Gateway()
    prompt_cache: PromptCache = PromptCache()
    limits: Limits = Limits()
    answers: Answers = Answers()

    def changed(self, tables: dict[str, Any], where: str) -> Behaviour:
        """Return the same with some keys of some parts replaced.

        Raises:
            ConfigurationError: an unknown part or key, or a value that is not allowed.
        """
        return toml.convert(_over(msgspec.to_builtins(self), tables), Behaviour, name=where)


class _Phase(Behaviour, frozen=True, kw_only=True):
    after: Annotated[float, Meta(gt=0.0, extra={"allowed": _AFTER})]


class _File(Behaviour, frozen=True, kw_only=True):
    extends: str = ""
    description: str = ""
    expect: str = ""
    phases: tuple[_Phase, ...] = ()
    traffic: Traffic = Traffic()

    def __post_init__(self) -> None:
        for index, (phase, following) in enumerate(pairwise(self.phases), 1):
            if following.after <= phase.after:
                raise ConfigurationError(f"phases[{index}].after", following.after, _AFTER)


class Scenario(msgspec.Struct, frozen=True):
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
    traffic: Traffic = Traffic()

    def at(self, seconds: float) -> Behaviour:
        """Behaviour at a moment after the first request."""
        return next((b for start, b in reversed(self.phases) if start <= seconds), self.phases[0][1])

    def changed(self, **tables: Any) -> Scenario:
        """Return the same scenario with keys replaced in every phase: ``changed(latency={"scale": 0.05})``.

        Raises:
            ConfigurationError: an unknown part or key, or a value that is not allowed.
        """
        phases = tuple((start, b.changed(tables, self.name)) for start, b in self.phases)
        return msgspec.structs.replace(self, phases=phases)


def _over(below: dict[str, Any], above: dict[str, Any]) -> dict[str, Any]:
    """Lay one file's tables over another's; routes are known by name."""
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
    """Return names of the scenarios that come with lz_otel, sorted."""
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
            known = "a path to a .toml file or one of " + ", ".join(names())
            raise ConfigurationError("scenario", scenario, known)
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
    base = tables.get("extends")
    if base is not None:
        if base not in names():
            raise ConfigurationError(f"{where}: extends", base, "one of " + ", ".join(names()))
        below = tomllib.loads((_HERE / f"{base}.toml").read_text(encoding="utf-8"))
        below.pop("phases", None)
        tables = _over(below, tables)
    file = toml.convert(_completed(tables), _File, name=f"{where}:")
    phases = ((0.0, _behaviour(file)), *((phase.after, _behaviour(phase)) for phase in file.phases))
    return Scenario(name, file.description, file.expect, phases, file.traffic)


def _completed(tables: dict[str, Any]) -> dict[str, Any]:
    """Write into each phase what it leaves as it was, and into each route the defaults of routes."""
    phases, traffic = tables.pop("phases", []), tables.pop("traffic", {})
    if isinstance(phases, list):
        parts = {key: table for key, table in tables.items() if key in Behaviour.__struct_fields__}
        phases = [_over(parts, phase) if isinstance(phase, dict) else phase for phase in phases]
    if isinstance(traffic, dict) and isinstance(traffic.get("routes"), list):
        routes, defaults = traffic["routes"], traffic.get("defaults")
        if isinstance(defaults, dict):
            routes = [{**defaults, **route} if isinstance(route, dict) else route for route in routes]
        traffic = {**traffic, "routes": routes}
        if not routes:
            del traffic["routes"]
    return {**tables, "traffic": traffic, "phases": phases}


def _behaviour(file: Behaviour) -> Behaviour:
    return Behaviour(*(getattr(file, part) for part in Behaviour.__struct_fields__))
