"""The client's side of a scenario: routes and what their calls look like."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from lz_otel.errors import ConfigurationError
from lz_otel.lab.simulator._schema import build, choice, count, flag, names, number, rate, shares, span, text

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = ["INTENTS", "Route", "Traffic", "read_traffic"]

INTENTS = ("deterministic", "creative", "balanced")


@dataclass(frozen=True, slots=True)
class Route:
    """One operation of the client's application.

    Attributes:
        share: weight among the routes.
        api: ``messages``, ``chat``, ``responses`` or ``embeddings``.
        models: weights by model id; ``model_from`` seconds switches to ``models_later``.
        kind: ``structured`` (JSON asked for), ``prose`` or ``dialogue`` (several turns).
        system_tokens: length of the system prompt, tokens.
        cache: lifetime of the cache breakpoint on the system prompt, or none.
        automatic: ask for the automatic breakpoint (top-level ``cache_control``).
        pool: distinct prompts; the smaller, the more repeats.
        turns: calls per session of a dialogue.
        stream, tools, thinking: shares of calls.
        system_changes, tools_changes, history_edits: shares of calls that break the prefix.
        prune_ratios: ratio that calls of a group ask for; groups not named do not ask.
        prune_form: how they ask.
        prune_context: put a ``<context>`` part into the system prompt.
        intents: weights of the sampling intents asked for; empty for none.
        intent_mistake: what the client gets wrong about intents.
        zeroing, scheduling, legacy: shares of calls that ask for these.
        groups: names of A/B groups, taken in turn; the first is the control group.
        quality: mean of the application's own score of an answer, by group (``all`` for any).
        hedge: share of calls that the application sends twice (fast and standard).
    """

    name: str = text()
    share: float = number(1.0)
    api: str = choice("messages", "messages", "chat", "responses", "embeddings")
    models: Mapping[str, float] = shares()
    models_later: Mapping[str, float] = shares()
    later_after: int = count(0)
    kind: str = choice("prose", "structured", "prose", "dialogue")
    system_tokens: int = count(60, 0, 100_000)
    prompt_tokens: tuple[float, float] = span(30, 160)
    cache: str = choice("", "", "5m", "1h")
    automatic: bool = flag()
    pool: int = count(50, 1, 1_000_000)
    turns: int = count(1, 1, 100)
    stream: float = rate(0.3)
    tools: float = rate(0.0)
    thinking: float = rate(0.0)
    max_tokens: int = count(512, 1, 1_000_000)
    system_changes: float = rate(0.0)
    tools_changes: float = rate(0.0)
    history_edits: float = rate(0.0)
    prune_ratios: Mapping[str, float] = shares()
    prune_form: str = choice("tag", "tag", "header")
    prune_context: bool = flag()
    count_first: bool = flag()
    intents: Mapping[str, float] = shares(INTENTS)
    intent_mistake: str = choice("", "", "wrong_header", "no_beta", "not_streaming", "temperature")
    intent_mistakes: float = rate(0.0)
    zeroing: float = rate(0.0)
    scheduling: float = rate(0.0)
    legacy: float = rate(0.0)
    groups: tuple[str, ...] = names()
    quality: Mapping[str, float] = shares()
    quality_metric: str = text("score")
    hedge: float = rate(0.0)
    entities: bool = flag()


@dataclass(frozen=True, slots=True)
class Traffic:
    """The client's traffic: calls per second it aims at, and its routes."""

    rate: float = number(40.0, 0.1, 100_000.0)
    sessions: int = count(20, 1, 100_000)
    routes: tuple[Route, ...] = field(default_factory=lambda: (Route(name="ask"),))


def read_traffic(table: Any, where: str) -> Traffic:
    """Make the traffic part from its TOML table.

    Raises:
        ConfigurationError: an unknown key, a value that is not allowed, or two routes of one name.
    """
    traffic = build(Traffic, table, where, skip=("routes", "defaults"))
    defaults = build(Route, table.get("defaults", {}), f"{where}.defaults")
    rows = table.get("routes", [])
    if not isinstance(rows, list):
        raise ConfigurationError(f"{where}.routes", rows, "a list of tables ([[traffic.routes]])")
    routes: list[Route] = []
    for index, row in enumerate(rows):
        route = build(Route, row, f"{where}.routes[{index}]", defaults)
        if not route.name or route.name in {r.name for r in routes}:
            raise ConfigurationError(
                f"{where}.routes[{index}].name", route.name, "a name that no other route has"
            )
        routes.append(route)
    if not routes:
        return traffic
    return Traffic(traffic.rate, traffic.sessions, tuple(routes))
