"""The client's side of a scenario: calls to make, as arguments for the official SDKs.

The plan is a function of scenario and seed alone. It does no I/O: a driver executes it,
synchronously or not, in any number of threads or tasks, as long as a call starts only
after the calls named in its ``after`` have ended. That keeps the truth free of races: the
turns of a session, and repeats of one prompt, follow each other.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import count
from typing import TYPE_CHECKING, Any, NamedTuple

from lz_otel.lab.simulator._content import words
from lz_otel.lab.simulator._draw import Draw

if TYPE_CHECKING:
    from collections.abc import Iterator

    from lz_otel.lab.simulator._traffic_schema import Route
    from lz_otel.lab.simulator.scenario import Scenario

INTENT_BETA = "tools-2024-08-06"
SCHEDULING_VERSION = "2024-10-22"
_SCHEMA = (
    '{"output_schema": {"type": "object", "properties": {"category": {"type": "string"}, '
    '"priority": {"type": "string", "enum": ["low", "medium", "high"]}, "confidence": {"type": "number"}}}}\n'
    "Return only the JSON object, no explanation.\n"
)
_PROPERTIES = {"title": {"type": "string"}, "section": {"type": "string"}}
_TOOL = {
    "name": "look_up",
    "description": "Look up an article of the manual by its title.",
    "input_schema": {"type": "object", "properties": _PROPERTIES, "required": ["title"]},
}
# What a client sends to ask a gateway for its cache.
_GATEWAY_HEADERS = {
    "helicone": {"Helicone-Cache-Enabled": "true"},
    "openrouter": {"X-OpenRouter-Cache": "true"},
    "portkey": {"x-portkey-config": '{"cache": {"mode": "simple"}}'},
}


class Planned(NamedTuple):
    """One call that the application makes.

    Attributes:
        number: from 0, in order.
        call: value of the request header ``x-sim-call``, which the truth log echoes.
        route: name of the operation.
        group: A/B group, or empty.
        session: name of the session, or empty.
        api: ``messages``, ``chat``, ``responses`` or ``embeddings``.
        kwargs: arguments for ``client.messages.create`` (or the like), ``stream`` included.
        stream: whether the call is streamed.
        after: numbers of the calls that must have ended before.
        count_kwargs: arguments for a ``count_tokens`` request to make first, or ``None``.
        quality: the application's own score of the answer, 0 to 1, or ``None``.
        quality_metric: name of that score.
        schema: the application checks that the answer is a JSON object, and rejects it else.
        hedge: the application sends the call twice: fast with a short limit, and standard.
        intent: sampling intent asked for, or empty.
    """

    number: int
    call: str
    route: str
    group: str
    api: str
    kwargs: dict[str, Any]
    stream: bool
    after: tuple[int, ...]
    quality_metric: str
    schema: bool
    session: str = ""
    count_kwargs: dict[str, Any] | None = None
    quality: float | None = None
    hedge: bool = False
    intent: str = ""


@dataclass(slots=True)
class _Session:
    """One dialogue: its messages, and its last call."""

    name: str
    turn: int = 0
    messages: list[dict[str, Any]] = field(default_factory=list)
    last: int | None = None


class _Call(NamedTuple):
    """A call that is being planned."""

    number: int
    draw: Draw
    route: Route
    model: str
    group: str
    headers: dict[str, str]
    after: set[int]

    def planned(self, kwargs: dict[str, Any], stream: bool, **more: Any) -> Planned:
        """Return the plan, with these arguments for the SDK."""
        if stream:
            kwargs["stream"] = True
        return Planned(
            number=self.number,
            call=self.headers["x-sim-call"],
            route=self.route.name,
            group=self.group,
            api=self.route.api,
            kwargs=kwargs,
            stream=stream,
            after=tuple(sorted(self.after)),
            quality_metric=self.route.quality_metric,
            schema=self.route.kind == "structured",
            **more,
        )


class _Planner:
    def __init__(self, scenario: Scenario, seed: int) -> None:
        self._traffic = scenario.traffic
        self._gateway = scenario.phases[0][1].gateway.name
        self._seed = seed
        self._weights = [r.share for r in self._traffic.routes]
        self._sessions: dict[str, list[_Session]] = {}
        self._opened = count()
        self._first: dict[tuple[str, ...], int] = {}
        self._last: dict[tuple[str, ...], int] = {}
        self._turn_of_route: dict[str, int] = {}

    def call(self, number: int) -> Planned:
        draw = Draw(self._seed, f"plan{number}")
        route = self._traffic.routes[draw.weighted("route", self._weights)]
        turn = self._turn_of_route[route.name] = self._turn_of_route.get(route.name, -1) + 1
        later = route.models_later and number >= route.later_after > 0
        models = route.models_later if later else route.models
        names = list(models) or ["claude-sonnet-5-5" if route.api == "messages" else "gpt-6.1-sol"]
        model = names[draw.weighted("model", list(models.values()) or [1.0])]
        group = route.groups[turn % len(route.groups)] if route.groups else ""
        headers = {"x-sim-call": f"c{number}", "x-sim-route": route.name}
        headers.update(_GATEWAY_HEADERS.get(self._gateway, {}))
        call = _Call(number, draw, route, model, group, headers, set())
        return self._message(call) if route.api == "messages" else self._other(call)

    # --- Messages ---------------------------------------------------------------------------

    def _message(self, call: _Call) -> Planned:
        number, draw, route = call.number, call.draw, call.route
        prompt_id = draw.integer("prompt", 0, route.pool - 1)
        session: _Session | None = None
        if route.kind == "dialogue":
            session = self._session(draw, route)
            if session.last is not None:
                call.after.add(session.last)
            session.last = number
            messages = self._turn(draw, route, session, number)
        else:
            messages = [{"role": "user", "content": self._prompt(draw, route, prompt_id)}]
        intent = self._intent(call)
        stream = draw.chance("stream", route.stream) or bool(intent)
        kwargs: dict[str, Any] = {"model": call.model, "max_tokens": route.max_tokens, "messages": messages}
        if intent and draw.chance("mistake", route.intent_mistakes):
            stream = self._spoil(call, kwargs, intent, stream)
        changed = self._extras(call, kwargs)
        if route.cache or route.automatic:
            self._after_first(call, kwargs, changed)
        if intent or self._gateway:  # repeats of one prompt follow each other
            self._after_repeat(call, prompt_id, intent)
        kwargs["extra_headers"] = call.headers
        return call.planned(
            kwargs,
            stream,
            session=session.name if session else "",
            count_kwargs=_counted(call, kwargs),
            quality=_score(call),
            hedge=draw.chance("hedge", route.hedge),
            intent=intent,
        )

    def _extras(self, call: _Call, kwargs: dict[str, Any]) -> bool:
        """Add what a call asks for besides its messages; return whether tools or system prompt changed."""
        draw, route = call.draw, call.route
        if draw.chance("zeroing", route.zeroing):
            call.headers["anthropic-layer-zero"] = "enabled"
        if draw.chance("scheduling", route.scheduling):
            legacy = draw.chance("legacy", route.legacy)
            call.headers["x-anthropic-layer-hint"] = "legacy" if legacy else "zero-latency"
            call.headers["anthropic-version"] = SCHEDULING_VERSION
        tools = [_TOOL] if draw.chance("tools", route.tools) else []
        changed_tools = draw.chance("tools.changed", route.tools_changes)
        if changed_tools:
            tools = [*tools, {**_TOOL, "name": f"look_up_{call.number}"}]
        if tools:
            kwargs["tools"] = tools
        changed_system = draw.chance("system.changed", route.system_changes)
        system = self._system(call, f"Today is day {call.number}. " if changed_system else "")
        if system:
            kwargs["system"] = system
        if route.automatic:
            kwargs["cache_control"] = _cache_control(route)
        if draw.chance("thinking", route.thinking):
            kwargs["thinking"] = {"type": "adaptive"}
        return changed_tools or changed_system

    def _after_first(self, call: _Call, kwargs: dict[str, Any], changed: bool = False) -> None:
        """Let a call follow the first of its route, and the first with the prefix that it shares."""
        prefixes: list[tuple[str, ...]] = [(call.route.name,)]
        if not changed:
            prefixes.append((call.route.name, call.model, str("tools" in kwargs)))
        first = {self._first.setdefault(prefix, call.number) for prefix in prefixes}
        call.after.update(first - {call.number})

    def _after_repeat(self, call: _Call, prompt_id: int, intent: str = "") -> None:
        """Let a call follow the one before that asked the same, if any."""
        key = (call.route.name, call.model, str(prompt_id), intent)
        before = self._last.get(key)
        self._last[key] = call.number
        if before is not None:
            call.after.add(before)

    def _session(self, draw: Draw, route: Route) -> _Session:
        open_sessions = self._sessions.setdefault(route.name, [])
        if len(open_sessions) < self._traffic.sessions:
            open_sessions.append(_Session(f"s{next(self._opened)}"))
            return open_sessions[-1]
        place = draw.integer("session", 0, len(open_sessions) - 1)
        if open_sessions[place].turn >= route.turns:
            open_sessions[place] = _Session(f"s{next(self._opened)}")
        return open_sessions[place]

    def _turn(self, draw: Draw, route: Route, session: _Session, number: int) -> list[dict[str, Any]]:
        session.turn += 1
        tokens = int(draw.band("tokens", route.prompt_tokens))
        text = f"Session {session.name}, question {session.turn}: " + words(draw.unit("words"), tokens)
        messages = [*session.messages, {"role": "user", "content": text}]
        answer = words(draw.unit("reply"), 40).strip() + "."
        session.messages = [*messages, {"role": "assistant", "content": answer}]
        if session.turn > 1 and draw.chance("edit", route.history_edits):
            first = dict(messages[0], content=f"Edited for call {number}. " + messages[0]["content"])
            messages = [first, *messages[1:]]
        return messages

    def _prompt(self, draw: Draw, route: Route, prompt_id: int) -> str:
        fixed = Draw(self._seed, f"{route.name}/{prompt_id}")
        text = words(fixed.unit("words"), int(fixed.band("tokens", route.prompt_tokens))).strip()
        if route.kind == "structured":
            return f"{_SCHEMA}ticket: {prompt_id}\ntext: {text}"
        if route.entities:
            who = fixed.integer("who", 10_000, 99_999)
            return f"Where is order AB-{who} of customer{who}@example.com? " + words(0.5, 30).strip()
        return f"Question {prompt_id}: {text}"

    def _system(self, call: _Call, change: str) -> Any:
        route = call.route
        text = change + words(Draw(7, route.name).unit("system"), route.system_tokens).strip()
        if route.prune_context:
            text = f"{text}\n<context><service>{route.name}</service></context>"
        ratio = route.prune_ratios.get(call.group or "all")
        if ratio is not None:
            if route.prune_form == "header":
                call.headers["X-Anthropic-Layer-Zero"] = f"enabled;prune_ratio={ratio:g}"
            else:
                text = f'<layer-zero enabled="true" prune_ratio="{ratio:g}"/>\n{text}'
        if not route.cache:
            return text
        return [{"type": "text", "text": text, "cache_control": _cache_control(route)}]

    def _intent(self, call: _Call) -> str:
        intents = call.route.intents
        if not intents:
            return ""
        intent = list(intents)[call.draw.weighted("intent", list(intents.values()))]
        call.headers.update({"anthropic-sampling-intent": intent, "anthropic-beta": INTENT_BETA})
        return intent

    def _spoil(self, call: _Call, kwargs: dict[str, Any], intent: str, stream: bool) -> bool:
        """Make the route's mistake about intents; returns whether the call is still streamed."""
        mistake = call.route.intent_mistake
        if mistake == "wrong_header":
            del call.headers["anthropic-sampling-intent"]
            call.headers["x-anthropic-sampling-intent"] = intent
        elif mistake == "no_beta":
            del call.headers["anthropic-beta"]
        elif mistake == "temperature":
            kwargs["extra_body"] = {"temperature": 0.7}
        return stream and mistake != "not_streaming"

    # --- OpenAI -----------------------------------------------------------------------------

    def _other(self, call: _Call) -> Planned:
        draw, route = call.draw, call.route
        prompt_id = draw.integer("prompt", 0, route.pool - 1)
        prompt = self._prompt(draw, route, prompt_id)
        system = words(Draw(7, route.name).unit("system"), route.system_tokens).strip()
        stream = route.api != "embeddings" and draw.chance("stream", route.stream)
        kwargs: dict[str, Any] = {"model": call.model, "extra_headers": call.headers}
        if route.api == "embeddings":
            kwargs["input"] = [prompt]
        elif route.api == "responses":
            kwargs.update(input=prompt, instructions=system, max_output_tokens=route.max_tokens)
        else:
            kwargs["messages"] = [{"role": "system", "content": system}, {"role": "user", "content": prompt}]
            kwargs["max_completion_tokens"] = route.max_tokens
            if draw.chance("tools", route.tools):
                function = {"name": _TOOL["name"], "parameters": _TOOL["input_schema"]}
                kwargs["tools"] = [{"type": "function", "function": function}]
            if stream:
                kwargs["stream_options"] = {"include_usage": True}
        self._after_first(call, kwargs)
        self._after_repeat(call, prompt_id)
        return call.planned(kwargs, stream)


def _cache_control(route: Route) -> dict[str, str]:
    return {"type": "ephemeral", "ttl": "1h"} if route.cache == "1h" else {"type": "ephemeral"}


def _counted(call: _Call, kwargs: dict[str, Any]) -> dict[str, Any] | None:
    """Return the arguments of the ``count_tokens`` request that is made first, if any is."""
    route = call.route
    if not route.count_first or (route.prune_ratios and (call.group or "all") not in route.prune_ratios):
        return None
    counted: dict[str, Any] = {
        key: kwargs[key] for key in ("model", "messages", "system", "tools") if key in kwargs
    }
    return {**counted, "extra_headers": {"x-sim-call": f"c{call.number}", "x-sim-route": route.name}}


def _score(call: _Call) -> float | None:
    """Return the application's score of the answer, where its route has one."""
    quality = call.route.quality
    mean = quality.get(call.group or "all", quality.get("all"))
    if mean is None:
        return None
    return round(min(1.0, max(0.0, mean + 0.02 * (call.draw.unit("quality") - 0.5))), 4)


def plan(scenario: Scenario, seed: int = 0, calls: int | None = None) -> Iterator[Planned]:
    """Plan the calls of a scenario.

    Args:
        scenario: whose traffic.
        seed: the same seed gives the same calls.
        calls: how many, or ``None`` for an endless plan.

    Returns:
        One call after the other; memory stays bounded by routes, prompts and open sessions.
    """
    return map(_Planner(scenario, seed).call, count() if calls is None else range(calls))
