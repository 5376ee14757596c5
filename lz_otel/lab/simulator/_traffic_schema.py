"""The client's side of a scenario: routes and what their calls look like."""

from __future__ import annotations

from typing import Annotated, Literal

import msgspec
from msgspec import Meta

from lz_otel.errors import ConfigurationError
from lz_otel.lab.simulator._schema import (
    Band,
    Intents,
    Names,
    Number,
    ScenarioRange,
    ScenarioTable,
    Share,
    Weights,
)

_Mistake = Literal["", "wrong_header", "no_beta", "not_streaming", "temperature"]


class Route(ScenarioTable, frozen=True):
    """One operation of the client's application.

    Attributes:
        share: weight among the routes.
        api: ``messages``, ``chat``, ``responses`` or ``embeddings``.
        models: weights by model id; from call ``later_after`` on those of ``models_later``, where given.
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

    name: str = ""
    share: Number = 1.0
    api: Literal["messages", "chat", "responses", "embeddings"] = "messages"
    models: Weights = msgspec.field(default_factory=dict)
    models_later: Weights = msgspec.field(default_factory=dict)
    later_after: Annotated[int, Meta(ge=0, le=10**9)] = 0
    kind: Literal["structured", "prose", "dialogue"] = "prose"
    system_tokens: Annotated[int, Meta(ge=0, le=100_000)] = 60
    prompt_tokens: Band = ScenarioRange(30, 160)
    cache: Literal["", "5m", "1h"] = ""
    automatic: bool = False
    pool: Annotated[int, Meta(ge=1, le=1_000_000)] = 50
    turns: Annotated[int, Meta(ge=1, le=100)] = 1
    stream: Share = 0.3
    tools: Share = 0.0
    thinking: Share = 0.0
    max_tokens: Annotated[int, Meta(ge=1, le=1_000_000)] = 512
    system_changes: Share = 0.0
    tools_changes: Share = 0.0
    history_edits: Share = 0.0
    prune_ratios: Weights = msgspec.field(default_factory=dict)
    prune_form: Literal["tag", "header"] = "tag"
    prune_context: bool = False
    count_first: bool = False
    intents: Intents = msgspec.field(default_factory=dict)
    intent_mistake: _Mistake = ""
    intent_mistakes: Share = 0.0
    zeroing: Share = 0.0
    scheduling: Share = 0.0
    legacy: Share = 0.0
    groups: Names = ()
    quality: Weights = msgspec.field(default_factory=dict)
    quality_metric: str = "score"
    hedge: Share = 0.0
    entities: bool = False


class Traffic(ScenarioTable, frozen=True):
    """The client's traffic.

    Attributes:
        rate: calls per second that it aims at.
        sessions: dialogues that are open at a time.
        routes: its operations; no two have one name.
        defaults: what routes are where they do not say otherwise.
    """

    rate: Annotated[float, Meta(ge=0.1, le=100_000.0)] = 40.0
    sessions: Annotated[int, Meta(ge=1, le=100_000)] = 20
    defaults: Route = Route()
    routes: tuple[Route, ...] = (Route(name="ask"),)

    def __post_init__(self) -> None:
        names: set[str] = set()
        for index, route in enumerate(self.routes):
            if not route.name or route.name in names:
                raise ConfigurationError(
                    f"routes[{index}].name", route.name, "a name that no other route has"
                )
            names.add(route.name)
