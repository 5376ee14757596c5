"""What is known of one call, in one shape for both sides: the metrics' and the simulator's."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple

from lz_otel import catalogue as c
from lz_otel._measure import rules

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from lz_otel.model import EndedCall

Key = tuple[str, ...]  # name of a metric, then the values of its labels that tell its numbers apart

_USAGE = (
    c.INPUT_TOKENS, c.OUTPUT_TOKENS, c.CACHE_READ_TOKENS, c.CACHE_WRITE_TOKENS, c.REASONING_TOKENS,
    c.COST_USD,
)  # fmt: skip
# Labels beyond the common ones that are left out: which model answered is compared by its tokens
_WITHOUT_LABELS = frozenset(m.name for m in _USAGE)
# Metrics whose numbers the simulator knows, call by call. What is a time of ours is not among them.
COMPARED = (
    *_USAGE, c.COST_UNPRICED, c.SAVED_USD, c.OVERSPENT_USD, c.USAGE_MISSING_CALLS, c.FAST_PATH_FALLBACKS,
    c.ENGINE_DURATION, c.PROMPT_CACHE_WRITE_TOKENS, c.SYMBOLIC_EVIDENCE, c.PRUNED_TOKENS, c.ORIGINAL_TOKENS,
    c.REQUESTED_RATIO, c.CONTEXT_PRESERVATION, c.INTENT_CALLS, c.INTENT_REPEATS, c.INTENT_TRANSITIONS,
    c.ZEROING_PARAMS_RATIO, c.ZEROING_CONFIDENCE, c.ZEROING_LAYERS, c.MASK_EVENTS, c.MASK_SWITCHES,
    c.SIMILAR_CALLS, c.GHOST_ENTITIES, c.MALFORMED,
)  # fmt: skip
BUSY = 50.0  # similar calls per second; article 004 (A)
_COMPARED_NAMES = frozenset(m.name for m in COMPARED)


@dataclass(slots=True)
class CallOutcome:
    """One call, as one side has it.

    Attributes:
        ending: how it ended, in the contract's words.
        path: ``fast`` or ``full``; empty when not known.
        served_by: the mechanism that made it fast.
        verdicts: mechanism: (verdict, reason).
        figures: every number of `COMPARED`; a histogram's is the value observed. Absent is 0.
        unknown: names of metrics that this side cannot tell for this call.
    """

    ending: str = ""
    path: str = ""
    served_by: str = ""
    verdicts: dict[str, tuple[str, str | None]] = field(default_factory=dict)
    figures: dict[Key, float] = field(default_factory=lambda: defaultdict(float))
    unknown: set[str] = field(default_factory=set)

    def add(self, metric: c.Metric, value: float, *labels: str) -> None:
        """Add to a figure."""
        self.figures[(metric.name, *labels)] += value


def name_of(key: Key) -> str:
    """Return a figure's name for people."""
    return key[0] + (f"{{{', '.join(key[1:])}}}" if len(key) > 1 else "")


class Observed:
    """Listens to lz_otel: every call that ends, with the rows that went into the metrics for it.

    Attributes:
        calls: what was seen of each call, by name.
        twice: names that were seen more than once.
        busy: calls that were priced while many similar ones came per second: a matter of our own clock.
        rate: similar calls per second, now.
    """

    def __init__(self) -> None:
        self.rate: Callable[[], float] = float
        self.busy: set[str] = set()
        self.calls: dict[str, CallOutcome] = {}
        self.twice: set[str] = set()

    def listen(self, ended: EndedCall) -> None:
        """Note a call that has ended."""
        name = ended.request.headers.get("x-sim-call", "")
        if name in self.calls:
            self.twice.add(name)
        if self.rate() > BUSY:
            self.busy.add(name)
        outcome = self.calls[name] = CallOutcome(ended.ending, ended.path, ended.served_by)
        for result in ended.results:
            if result.verdict is not None:
                outcome.verdicts[result.verdict.mechanism] = (result.verdict.decision, result.verdict.reason)
        for metric, labels, value in rules.call(ended):
            if metric.name in _COMPARED_NAMES and not isinstance(value, tuple):
                extra = () if metric.name in _WITHOUT_LABELS else labels[len(c.COMMON) :]
                outcome.add(metric, float(value), *extra)


class Difference(NamedTuple):
    """One thing on which the two sides differ."""

    call: str
    what: str
    measured: Any
    truth: Any

    def __str__(self) -> str:
        return f"{self.call}: {self.what}: metrics say {self.measured}, the truth is {self.truth}"


def _near(one: float, other: float) -> bool:
    return abs(one - other) <= 1e-9 * max(abs(one), abs(other), 1e-6)


def differences(
    call: str, seen: CallOutcome, truth: CallOutcome
) -> tuple[dict[str, str], dict[str, bool], list[Difference]]:
    """Compare the two sides of one call.

    Returns:
        Mechanism: ``equal``, ``unknown`` (a miss whose reason lz_otel does not claim to know) or
        ``different``, for each that either side has a verdict of; metric: whether its figures are equal; and
        what differs.
    """
    found: list[Difference] = []
    mechanisms: dict[str, str] = {}
    for mechanism in c.MECHANISMS:
        mine, true = seen.verdicts.get(mechanism), truth.verdicts.get(mechanism)
        if mine is None and true is None:
            continue
        state = "equal"
        if mine == ("miss", "unknown") and true is not None and true[0] == "miss":
            state = "equal" if true[1] == "unknown" else "unknown"
        elif mine != true:
            state = "different"
            found.append(Difference(call, mechanism, mine, true))
        mechanisms[mechanism] = state
    metrics: dict[str, bool] = {}
    for key in seen.figures.keys() | truth.figures.keys():
        if key[0] in truth.unknown:
            continue
        mine_, true_ = seen.figures.get(key, 0.0), truth.figures.get(key, 0.0)
        if not mine_ and not true_:
            continue
        equal = _near(mine_, true_)
        metrics[key[0]] = metrics.get(key[0], True) and equal
        if not equal:
            found.append(Difference(call, name_of(key), mine_, true_))
    for what in ("ending", "path", "served_by"):
        if what not in truth.unknown:
            measured, real = getattr(seen, what), getattr(truth, what)
            metrics[what] = measured == real
            if measured != real:
                found.append(Difference(call, what, measured, real))
    return mechanisms, metrics, found


def total(outcomes: Mapping[str, CallOutcome]) -> dict[Key, float]:
    """Return all figures of all calls, added up."""
    out: dict[Key, float] = defaultdict(float)
    for outcome in outcomes.values():
        for key, value in outcome.figures.items():
            out[key] += value
    return out
