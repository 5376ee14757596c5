"""Every verdict, reason and number of a run beside the simulator's truth, call by call (`lz-otel truth`).

Each case is a scenario of the simulator, or one family (or gateway) alone. The official SDKs make the calls
as fast as they can; all mechanisms are on. Compared are, for each call, verdict and reason of every
mechanism and all figures that come from it; and for the run what only adds up: attempts, retries, endings,
operations, quality, the totals in the metrics.
"""

from __future__ import annotations

import asyncio
from bisect import bisect_right
from collections import Counter, defaultdict
from dataclasses import dataclass, field
from itertools import islice, pairwise
from pathlib import Path
from time import perf_counter
from typing import TYPE_CHECKING, Any, NamedTuple

from lz_otel import catalogue as c
from lz_otel._judge.scheduling import Budget
from lz_otel.errors import ConfigurationError
from lz_otel.lab.demo._expected import Expected, body_of
from lz_otel.lab.demo._outcome import COMPARED, Difference, Observed, differences, name_of, total
from lz_otel.lab.demo.checks import Check, compare, fallbacks
from lz_otel.lab.demo.driver import Driver
from lz_otel.lab.demo.run import instrumented
from lz_otel.lab.simulator import load, names, running
from lz_otel.lab.simulator.scenario import GATEWAYS
from lz_otel.lab.simulator.traffic import plan
from lz_otel.testing import capture

if TYPE_CHECKING:
    from collections.abc import Iterator

    from lz_otel.lab.simulator.scenario import Scenario
    from lz_otel.lab.simulator.traffic import Planned

IN_FLIGHT = 48
# Calls made one after the other, first and after a pause: both sides then agree on what came first
WARM_UP = 30
LATENCY = 0.05  # of the scenario's
LONG_PAUSE = 310.0  # seconds of the simulator's clock: longer than the short lifetime of a cache entry
MAX_UNKNOWN = 0.01  # share of misses whose reason lz_otel may leave open
_HERE = Path(__file__).parent / "cases"


class Case(NamedTuple):
    """One run: its name, and what is simulated."""

    name: str
    scenario: Scenario


@dataclass
class CaseResult:
    """What came of one case.

    Attributes:
        case: its name.
        calls: calls whose verdicts were compared.
        mechanisms: mechanism: state (``equal``, ``unknown``, ``different``): calls.
        figures, equal: figures compared call by call, and how many of them are equal.
        checks: what only adds up over the run.
        differences: all that differs.
        seconds: how long it took.
    """

    case: str
    calls: int = 0
    figures: int = 0
    equal: int = 0
    mechanisms: dict[str, Counter[str]] = field(default_factory=lambda: defaultdict(Counter))
    checks: list[Check] = field(default_factory=list)
    differences: list[Difference] = field(default_factory=list)
    seconds: float = 0.0

    @property
    def good(self) -> bool:
        """Nothing differs, and hardly a reason is left open."""
        misses = self.mechanisms["prompt_cache"]
        return not self.differences and misses["unknown"] <= MAX_UNKNOWN * max(1, sum(misses.values()))


class _Run(NamedTuple):
    """What the two sides know of a run."""

    records: list[dict[str, Any]]
    plans: dict[str, Planned]
    observed: Observed
    driver: Driver
    store: Any


class TruthClock:
    """The simulator's seconds, for a time of ours: real ones, and the jumps between."""

    def __init__(self) -> None:
        self._at: list[float] = []
        self._sum: list[float] = [0.0]

    def jump(self, seconds: float) -> None:
        """Note that the simulator's clock was moved forward just now."""
        self._at.append(perf_counter())
        self._sum.append(self._sum[-1] + seconds)

    def __call__(self, when: float) -> float:
        return when + self._sum[bisect_right(self._at, when)]


def cases() -> list[Case]:
    """Return all cases: scenarios, families one by one, gateways one by one."""
    out = [Case(name, load(name)) for name in names()]
    out += [Case(f"only-{p.stem}", load(p)) for p in sorted(_HERE.glob("*.toml")) if p.stem != "gateway"]
    gateway = load(_HERE / "gateway.toml")
    for name in filter(None, GATEWAYS):
        # X-Cache says MISS for what was passed by, too: a client cannot tell (see response_cache)
        rates = {"bypass_rate": 0.0, "refresh_rate": 0.0} if name == "fastly" else {}
        out.append(Case(f"gateway-{name}", gateway.changed(gateway={"name": name, **rates})))
    return out


def chosen(wanted: list[str]) -> list[Case]:
    """Return the cases of these names; all of them for none.

    Raises:
        ConfigurationError: there is no such case.
    """
    known = {case.name: case for case in cases()}
    for name in wanted:
        if name not in known:
            raise ConfigurationError("case", name, "one of " + ", ".join(known))
    return [known[name] for name in wanted] or list(known.values())


def run_case(case: Case, calls: int, seed: int = 0) -> CaseResult:
    """Run one case, so many operations of the application long, and compare."""
    started = perf_counter()
    scenario = case.scenario.changed(faults={"stall_ms": 50.0})
    slow = any(b.symbolic.slow_rate for _, b in scenario.phases)
    observed, clock = Observed(), TruthClock()
    plans: dict[str, Planned] = {}
    with (
        running(scenario, process=True, seed=seed, latency_scale=1.0 if slow else LATENCY) as simulator,
        capture(mechanisms=c.MECHANISMS, response_cache_header="x-my-cache: HIT") as seen,
    ):
        _listen(clock, observed)
        driver = asyncio.run(_drive(simulator, scenario, calls, seed, plans, clock))
        records = simulator.truth()
        seen.store.snapshot()
        result = _compare(case.name, scenario, _Run(records, plans, observed, driver, seen.store))
    result.seconds = perf_counter() - started
    return result


def _listen(clock: TruthClock, observed: Observed) -> None:
    """Note each call that ends; the prompt cache goes by the simulator's time, texts take what they need."""
    runtime = instrumented()
    by_name: dict[str, Any] = {} if runtime.judges is None else runtime.judges.by_name
    by_name["prompt_cache"].clock = clock
    by_name["scheduling"].budget = Budget(share=1e6)
    observed.rate = by_name["scheduling"]._similar_rate
    runtime.later.listeners.append(observed.listen)


async def _drive(
    simulator: Any, scenario: Scenario, calls: int, seed: int, plans: dict[str, Planned], clock: TruthClock
) -> Driver:
    """Make the calls in parts; between two of them the simulator's clock goes to the next phase."""
    driver = Driver(simulator.url, 0.0, IN_FLIGHT)
    starts = [start for start, _ in scenario.phases]
    jumps = [b - a for a, b in pairwise(starts)] or [LONG_PAUSE]
    parts = len(jumps) + 1
    planned = _in_turn(plan(scenario, seed, calls), plans)
    try:
        for part in range(parts):
            for each in islice(planned, WARM_UP):
                await driver.run([each])
            left = calls - len(plans)
            await driver.run(islice(planned, left // (parts - part)))
            if part < len(jumps):
                simulator.settle()
                simulator.advance(jumps[part])
                clock.jump(jumps[part])
    finally:
        await driver.close()
    return driver


def _in_turn(planned: Iterator[Planned], plans: dict[str, Planned]) -> Iterator[Planned]:
    """Let equal requests follow each other, so that both sides agree on which was the first."""
    last: dict[bytes, int] = {}
    for each in planned:
        body = body_of(each)
        before = last.get(body)
        last[body] = each.number
        if before is not None:
            each = each._replace(after=tuple(sorted({*each.after, before})))
        plans[each.call] = each
        yield each


def _compare(case: str, scenario: Scenario, run: _Run) -> CaseResult:
    result = CaseResult(case)
    observed, given_up = run.observed, run.driver.given_up
    cut_short = {
        name: outcome.verdicts.get("symbolic", ("",))[0] == "hit"
        for name, outcome in observed.calls.items()
        if outcome.ending == "cancelled" and name in given_up
    }
    cut_short |= {name: False for name in given_up if name not in observed.calls}
    expected = Expected(run.records, run.plans, scenario.traffic, cut_short, observed.busy)
    measured = {name: o for name, o in observed.calls.items() if name not in cut_short}
    for name in sorted(measured.keys() | expected.calls.keys()):
        mine, true = measured.get(name), expected.calls.get(name)
        if mine is None or true is None:
            result.differences.append(Difference(name, "call", mine is not None, true is not None))
            continue
        result.calls += 1
        mechanisms, metrics, found = differences(name, mine, true)
        result.differences += found
        for mechanism, state in mechanisms.items():
            result.mechanisms[mechanism][state] += 1
        result.figures += len(metrics)
        result.equal += sum(metrics.values())
    result.differences += [Difference(name, "calls of one name", 2, 1) for name in sorted(observed.twice)]
    result.checks = _checks(run, expected, set(cut_short))
    different = [check for check in result.checks if not check.equal]
    result.differences += [Difference("run", k.name, k.measured, k.truth) for k in different]
    return result


def _checks(run: _Run, expected: Expected, cut_short: set[str]) -> list[Check]:
    """Return the figures that only add up over the run."""
    records, _, observed, driver, store = run
    attempts = [k for k in compare(store, records, cut_short) if k.name.startswith(("attempts", "retries"))]
    schema_invalid = sum(
        expected.calls[name].served_by == "symbolic" for name in driver.rejected if name in expected.calls
    )
    given_up = fallbacks(records, driver.stood_in)
    hedges = store.value(c.FAST_PATH_CALLS, mechanism="symbolic", verdict="fallback")
    rejected = store.value(c.FAST_PATH_FALLBACKS, reason="schema_invalid")
    cancelled = store.value(c.INFERENCE_DURATION, lz_ending="cancelled").count
    checks = [
        *attempts,
        Check("operations", store.value(c.OPERATION_CALLS).count, driver.counts["operations"]),
        Check("calls of operations", store.value(c.OPERATION_CALLS).sum, len(observed.calls)),
        Check("hedges answered the full way", hedges, given_up),
        Check("answers rejected", rejected, schema_invalid),
        Check("scores", store.value(c.QUALITY).count, driver.counts["scores"]),
        Check("calls cut short", cancelled, len(cut_short & observed.calls.keys())),
        Check("faults of lz_otel", store.value(c.INTERNAL_ERRORS), 0),
        Check("label sets over the limit", store.value(c.INTERNAL_OVERFLOW), 0),
    ]
    # The metrics hold what the rows of the calls add up to, no more and no less
    sums = total(observed.calls)
    for metric in COMPARED:
        added = sum(value for key, value in sums.items() if key[0] == metric.name)
        if metric is c.FAST_PATH_FALLBACKS:
            added += schema_invalid + given_up
        value = store.value(metric)
        checks.append(Check(f"{name_of((metric.name,))} in all", getattr(value, "sum", value), added))
    return [check for check in checks if check.measured or check.truth]
