"""Calls of a made-up service, counted by the rules that count real ones.

A route's calls to one model end in few different ways. Each way is one ended call with the share of the calls
that end so; `lz_otel._measure.rules` says what it adds to which metric.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from lz_otel import catalogue as c
from lz_otel import mechanisms
from lz_otel._extract.limits import Limit
from lz_otel._judge.result import Result
from lz_otel._measure import headroom, rules
from lz_otel._price.parts import Cost
from lz_otel.lab.history._figures import EMBEDDER, Hit, Model, hit_of, measurements
from lz_otel.model import EndedCall, Ending, Facts, Request, Verdict

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from lz_otel.lab.history._incidents import State
    from lz_otel.lab.history._series import Row

_LIMITS = (("requests", 4000, 1.0), ("input_tokens", 2_000_000, 0.8), ("output_tokens", 400_000, 0.95))


class MadeRoute(NamedTuple):
    """Calls of one operation.

    Attributes:
        share: of the calls of an instance.
        tokens: input and output tokens per call.
        groups: mechanisms asked for, by A/B group.
    """

    name: str
    share: float
    stream: bool
    tokens: tuple[int, int]
    groups: dict[str, tuple[str, ...]]


class Flow(NamedTuple):
    """Calls of one route and group to one model.

    Attributes:
        per_second: calls per second of one instance.
        second: the model that steps in when this one fails, or empty.
    """

    route: MadeRoute
    group: str
    model: Model
    per_second: float
    second: str

    @property
    def common(self) -> tuple[str, ...]:
        """Return values of the common attributes."""
        return ("chat", self.model.provider, self.model.name, self.route.name, self.group)


class _Way(NamedTuple):
    """How a call ends: as `Ending` has it, after how many seconds, with which error and HTTP status."""

    ending: str
    seconds: float
    error_type: str = ""
    status: int | None = 200
    malformed: tuple[str, ...] = ()
    priced: bool = True


def rows(flow: Flow, state: State) -> list[Row]:
    """Return what one call of a flow adds on average: (metric, labels, share of the calls, value)."""
    out: list[Row] = []
    served = 0.0
    ways = _ways(flow, state)
    for share, way in ways:
        outcomes = _verdicts(_asked(flow), state) if way.ending == Ending.OK else [(1.0, ())]
        for part, verdicts in outcomes:
            ended = _ended(flow, state, way, verdicts)
            served += share * part * (ended.path == "fast")
            out += _shared(share * part, rules.call(ended))
    answered = sum(share for share, way in ways if way.status == 200)
    out += _attempts(flow, state, answered)
    failed = sum(share for share, way in ways if way.ending == Ending.ERROR)
    out += _operation(flow, state, failed, served)
    out.append((c.CALL_ACTIVE, flow.common, _seconds(flow, state) / 30, 1.0))  # begun in the last half minute
    return _added_up(out)


def _shared(share: float, measured: Iterable[rules.Row]) -> Iterator[Row]:
    for metric, labels, value in measured:
        if isinstance(value, tuple):  # gaps between the pieces of a stream: counts, their sum, their number
            yield metric, labels, share * value[2], value[1] / value[2]
        else:
            yield metric, labels, share, value


def _added_up(every: Iterable[Row]) -> list[Row]:
    """Add up rows of one metric and label set; observations only where they are equal."""
    sums: dict[tuple[c.Metric, tuple[str, ...], float], float] = {}
    for metric, labels, share, value in every:
        if metric.kind == c.COUNTER:
            share, value = share * value, 1.0
        sums[metric, labels, value] = sums.get((metric, labels, value), 0.0) + share
    return [(metric, labels, share, value) for (metric, labels, value), share in sums.items()]


def _seconds(flow: Flow, state: State) -> float:
    return flow.model.seconds * state.slow * (1.4 if flow.route.stream else 1.0)


def _overloaded(flow: Flow, state: State) -> float:
    return state.overloaded if flow.model.provider == "anthropic" else 0.0


def _ways(flow: Flow, state: State) -> list[tuple[float, _Way]]:
    """Return the ways in which calls end, each with its share."""
    slow = _seconds(flow, state)
    overloaded = _overloaded(flow, state)
    ways = [
        (overloaded * 0.6, _Way(Ending.ERROR, 3.0 if overloaded > 0.1 else 0.6, "overloaded_error", 529)),
        (state.rate_limited * 0.3, _Way(Ending.ERROR, 0.6, "rate_limit_error", 429)),
        (state.errors, _Way(Ending.ERROR, 0.6, "api_error", 500)),
        (state.errors * 0.3, _Way(Ending.ERROR, 30.0, "APITimeoutError", None)),
        (0.002, _Way(Ending.CANCELLED, slow * 0.5, status=None)),
    ]
    if flow.route.stream:
        ways += [
            (0.006, _Way(Ending.ABANDONED, slow * 0.5)),
            (state.cut, _Way(Ending.INCOMPLETE, slow * 0.6, "incomplete_stream")),
        ]
    answered = 1.0 - sum(share for share, _ in ways)
    whole = _Way(Ending.OK, slow)
    ways += [
        (answered * state.malformed, whole._replace(malformed=("event",))),
        (answered * state.unpriced, whole._replace(priced=False)),
        (answered * (1.0 - state.malformed - state.unpriced), whole),
    ]
    return [(share, way) for share, way in ways if share]


def _asked(flow: Flow) -> tuple[str, ...]:
    """Return a flow's mechanisms in the order in which they can serve a call."""
    order = (mechanisms.REPLAYS, mechanisms.REPLACES, mechanisms.SHORTENS)
    asked = flow.route.groups[flow.group]
    return tuple(name for effect in order for name in mechanisms.of_effect(effect) if name in asked)


def _verdicts(asked: Sequence[str], state: State) -> Iterator[tuple[float, tuple[Verdict, ...]]]:
    """Yield what the mechanisms come to, each combination with its share of the answered calls."""
    if not asked:
        yield 1.0, ()
        return
    name, later = asked[0], asked[1:]
    effect = mechanisms.BY_NAME[name].effect
    hit, fallback, bypass, reason = state.shares[name]
    verdicts = [
        *(
            (hit * share, Verdict(name, "hit", None, seconds, cold))
            for share, seconds, cold in hit_of(name).engine
        ),
        (fallback, Verdict(name, "fallback", reason)),
        (bypass, Verdict(name, "bypass")),
        (max(0.0, 1.0 - hit - fallback - bypass), Verdict(name, "miss")),
    ]
    for share, verdict in verdicts:
        if share < 1e-9:
            continue
        remaining = later
        if verdict.decision == "hit" and effect != mechanisms.SHORTENS:
            # A provider's cache is not asked where an engine served; nothing is, where a stored answer was
            families = effect == mechanisms.REPLACES
            shortening = mechanisms.of_effect(mechanisms.SHORTENS) if families else ()
            remaining = [m for m in later if m in shortening and m in mechanisms.FAMILIES]
        for part, others in _verdicts(remaining, state):
            yield share * part, (verdict, *others)


def _ended(flow: Flow, state: State, way: _Way, verdicts: tuple[Verdict, ...]) -> EndedCall:
    """Return a call that ended so, with these verdicts."""
    _, served_by, stored = rules.path_of([Result(verdict) for verdict in verdicts])
    hit = hit_of(served_by) if served_by else Hit()
    seconds = hit.seconds if served_by else way.seconds
    facts = Facts(flow.model.provider, "chat", inference=True, llm_call=True)
    facts.stream = flow.route.stream
    facts.malformed = list(way.malformed)
    first: float | None = None
    if way.ending == Ending.OK:
        first = min(0.06, seconds * 0.8) if served_by else (0.35 + flow.model.seconds * 0.2) * state.slow
        prompt_cache = next((v.decision for v in verdicts if v.mechanism == "prompt_cache"), "")
        _fill(facts, flow, hit, prompt_cache, full=not served_by)
        facts.first_content_at, facts.last_content_at = first, seconds
        facts.first_visible_at = first
        pieces = flow.route.tokens[1] // 4
        facts.chunk_gaps = ((), seconds - first, pieces)
    money = _Money(flow, state, facts)
    written = facts.cache_write_tokens or 0
    results = [
        Result(v, tuple(measurements(v, flow.route.tokens, written, state)), money.saved(v)) for v in verdicts
    ]
    usd = money.paid(hit) if way.priced and way.ending == Ending.OK and not stored else None
    return _call(flow.common, flow.model.name, facts, way, seconds, first, results, usd)


def _call(
    common: tuple[str, ...],
    response_model: str,
    facts: Facts,
    way: _Way,
    seconds: float,
    first: float | None = None,
    results: Sequence[Result] = (),
    usd: float | None = None,
) -> EndedCall:
    path, served_by, stored = rules.path_of(results)
    return EndedCall(
        request=Request("POST", "", ""),
        facts=facts,
        started_at=0.0,
        ended_at=seconds,
        status=way.status,
        ending=way.ending,
        first_byte_at=None if first is None else first * 0.9,
        error_type=way.error_type,
        common=common,
        response_model=response_model if way.status == 200 else "",
        results=results,
        path=path,
        served_by=served_by,
        stored=stored,
        cost=None if usd is None else Cost(usd, usd),
        unpriced="" if way.priced else "model",
    )


def _fill(facts: Facts, flow: Flow, hit: Hit, prompt_cache: str, *, full: bool) -> None:
    """Write a call's usage into its facts."""
    prompt, output = flow.route.tokens
    facts.usage_seen = facts.output_final = True
    facts.input_tokens = prompt
    facts.output_tokens = output if hit.output else 0
    if full and flow.model.reasoning:
        facts.reasoning_tokens = round(output * flow.model.reasoning)
    if prompt_cache:
        facts.cache_read_tokens = round(prompt * 0.78) if prompt_cache == "hit" else 0
        if flow.model.provider == "anthropic":
            facts.cache_write_tokens = round(prompt * 0.75) if prompt_cache == "miss" else 0


class _Money:
    """What one call costs, and what each of its mechanisms saved, USD."""

    def __init__(self, flow: Flow, state: State, facts: Facts) -> None:
        prompt, output = flow.route.tokens
        self._input = prompt * flow.model.input_usd * state.price / 1e6
        self._output = output * flow.model.output_usd * state.price / 1e6
        cached = 0.9 * (facts.cache_read_tokens or 0) - 0.25 * (facts.cache_write_tokens or 0)
        self._saved = {"prompt_cache": self._input * cached / prompt, "pruning": self._input * state.pruned}

    def paid(self, hit: Hit) -> float:
        """Return the price of the call, served like this."""
        full = self._input * hit.input_price + self._output * hit.output_price
        return full - self._saved["prompt_cache"]

    def saved(self, verdict: Verdict) -> float:
        """Return what the mechanism saved; negative where the call cost more with it."""
        name = verdict.mechanism
        if name == "prompt_cache" or (verdict.decision == "hit" and name in self._saved):
            return self._saved[name]
        if verdict.decision != "hit":
            return 0.0
        hit = hit_of(name)
        return self._input * (1 - hit.input_price) + self._output * (1 - hit.output_price)


def _attempts(flow: Flow, state: State, answered: float) -> Iterator[Row]:
    """Yield HTTP attempts and retries, and the rate limits that their heads state."""
    repeated = {
        "529": _overloaded(flow, state) * 1.6,
        "429": state.rate_limited,
        "500": state.errors,
        "read_timeout": state.errors * 0.4,
    }
    for status, share in repeated.items():
        if share:
            yield from _shared(share, rules.attempt(flow.common, status, status))
            yield from _shared(share * 0.2, rules.attempt(flow.common, status, None))
    yield from _shared(answered, rules.attempt(flow.common, "200", None))
    for resource, limit, share in _LIMITS:
        left = state.headroom * share
        stated = Limit(resource, limit, round(limit * left), round(60 * (1 - left)))
        yield from _shared(1.0, headroom.rows((*flow.common[:3], "", resource), stated))


def _operation(flow: Flow, state: State, failed: float, fast: float) -> Iterator[Row]:
    """Yield what operations of the flow's route report, one operation a call."""
    if not flow.route.name:
        return
    slow = _seconds(flow, state)
    stepped = failed * 0.7 if flow.second else 0.0
    outcomes = {
        "fast": (fast, 0.1, 1.0),
        "fallback": (stepped, slow * 2.2, 3.0),
        "error": (failed - stepped, 4.0, 2.0),
        "full": (1.0 - fast - failed, slow, 1.0),
    }
    where = (flow.route.name, flow.group)
    for outcome, (share, seconds, calls) in outcomes.items():
        yield c.OPERATION_DURATION, (*where, outcome), share, seconds
        yield c.OPERATION_CALLS, (*where, outcome), share, calls
    if stepped:
        reason = "overloaded" if _overloaded(flow, state) else "server_error"
        yield c.OPERATION_FALLBACKS, (*where, flow.model.name, flow.second, reason), stepped, 1.0
    if flow.group:
        quality = 0.955 * (1.0 if flow.group == "control" else state.pruned_quality)
        yield c.QUALITY, (*where, "summary_f1"), 0.2, quality
        yield c.QUALITY, (*where, "entity_recall"), 0.1, quality * 0.985


def embeddings() -> list[Row]:
    """Return what one embedding call outside any operation adds."""
    common = ("embeddings", EMBEDDER.provider, EMBEDDER.name, "", "")
    facts = Facts(EMBEDDER.provider, "embeddings", inference=False, llm_call=True)
    facts.input_tokens, facts.usage_seen = 300, True
    way = _Way(Ending.OK, EMBEDDER.seconds)
    ended = _call(common, EMBEDDER.name, facts, way, way.seconds, usd=300 * EMBEDDER.input_usd / 1e6)
    return [*_shared(1.0, rules.call(ended)), *_shared(1.0, rules.attempt(common, "200", None))]
