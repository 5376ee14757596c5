"""What becomes of an attempt and of a call that have ended: read, judged, priced, counted.

Runs later than the host's request, many calls at a time (or at once where somebody wants to
know). Only one thread at a time is here. What fails here is counted by the hub, call by call.
"""

from __future__ import annotations

from time import perf_counter, time
from typing import TYPE_CHECKING, Any

from lz_otel._extract import limits
from lz_otel._ground.guard import guard
from lz_otel._ground.headers import disjoint
from lz_otel._measure import rules
from lz_otel.catalogue import INTERNAL_OVERHEAD, MALFORMED, OPERATIONS
from lz_otel.model import EndedCall, Ending

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from lz_otel._capture.attempt import Attempt
    from lz_otel._capture.calls import Call
    from lz_otel._measure.labels import Labels
    from lz_otel._measure.store import Store
    from lz_otel.model import Facts, Request

__all__ = ["Conclusions"]

_MAX_STARTED = 10_000
_NO_NAMES: tuple[str, ...] = ()
_NO_RESULTS: tuple[Any, ...] = ()
# Mechanisms whose hit makes the same usage cheaper than the table says (articles 000 and 004, A)
_CHEAPER = ("symbolic", "scheduling")


class Conclusions:
    """Extract, judge and measure, for calls that have ended.

    Args:
        store: where numbers go.
        labels: caps on open attributes.
        judges: the mechanisms (`_judge.judges.Judges`), or ``None`` for none.
        prices: `_judge.cost.Prices`, or ``None``.
        spans: `_measure.spans.Spans`, or ``None`` when nobody traces.
        legacy: record the older conventions too.
    """

    def __init__(
        self, store: Store, labels: Labels, *, judges: Any, prices: Any, spans: Any, legacy: bool
    ) -> None:
        self.store = store
        self.labels = labels
        self.judges = judges
        self.prices = prices
        self.spans = spans
        self.legacy = legacy
        self.call_listeners: list[Callable[[Any, EndedCall | None], None]] = []
        self._limits: dict[tuple[str, ...], tuple[Mapping[str, str], float]] = {}
        self._started: dict[tuple[str, ...], tuple[str, ...]] = {}  # common values: mechanisms at 0

    def attempt(self, observer: Attempt, rows: list[Any]) -> None:
        call = observer.call
        started = perf_counter() if call.overhead is not None else 0.0
        observer.conclude()
        if not observer.reader.facts.llm_call:
            if self.judges is not None:
                self.judges.counted(self._exchange(call, observer, observer.ending, observer.error_type))
            return
        common = self.name(call, observer.facts)
        rows += rules.attempt(common, observer.attempt_status, self._retry_reason(call, observer))
        call.last_status = observer.attempt_status
        if call.overhead is not None:
            call.overhead += perf_counter() - started

    def _retry_reason(self, call: Call, observer: Attempt) -> str | None:
        """Why this attempt is a retry; ``None`` when it is none (first, redirect, another helper's request)."""
        text = observer.request.headers.get("x-stainless-retry-count")
        count = int(text) if text is not None and text.isdecimal() and len(text) < 6 else None
        previous = call.last_status
        if count is None:
            return None if previous is None or previous == "3xx" else previous
        seen = call.seen_counts
        if seen is None:
            call.seen_counts = [count]
            again = False
        else:
            again = count in seen
            seen.append(count)
        if count == 0 or again:
            return None
        return previous or "unknown"

    def call(self, call: Call, rows: list[Any]) -> None:
        observer = call.last
        if (
            observer is None
            or observer.reader is None
            or not observer.reader.facts.llm_call
            or call.common is None
        ):
            return  # no LLM call after all
        started = perf_counter() if call.overhead is not None else 0.0
        ended = self._conclude(call, observer)
        rows += rules.call(ended, self.legacy)
        if call.overhead is not None:
            rows.append((INTERNAL_OVERHEAD, (), call.overhead + perf_counter() - started))

    def _conclude(self, call: Call, observer: Attempt) -> rules.Ended:
        """Judge and price a call, and tell those who listen."""
        common = call.common
        assert common is not None
        facts = observer.reader.facts
        ending, error_type, ended_at = observer.ending, observer.error_type, observer.ended_at
        if call.cancelled_at is not None and ending != Ending.CANCELLED:
            ending, error_type, ended_at = Ending.CANCELLED, "", call.cancelled_at
        exchange: EndedCall | None = None
        results: Any = _NO_RESULTS
        if self.judges is not None or self.call_listeners:
            exchange = self._exchange(call, observer, ending, error_type)
        if self.judges is not None:
            results = self.judges.judge(exchange)
            self._start_at_zero(common)
        labels = self.labels
        ended = rules.Ended(
            facts,
            common,
            call.started_at,
            ended_at,
            observer.first_byte_at,
            ending,
            labels.error_type(error_type) if error_type else "",
            observer.status,
            labels.response_model(facts.response_model or ""),
            observer.encoding_failed,
            results,
        )
        if self.prices is not None:
            self._price(ended, observer.request, None if exchange is None else exchange.cost)
        if not ended.cached and not disjoint(limits.MARKERS, observer.headers):
            self._limits[common[:3]] = (observer.headers, time())
        operation, call.operation = call.operation, None  # told once, whatever fails from here on
        if operation is not None:
            operation.call_ended(ended)
        if self.spans is not None:
            self.spans.call_ended(call, observer, ended)
        for listener in self.call_listeners:
            try:
                listener(ended, exchange)
            except Exception as fault:  # noqa: BLE001 - a log that cannot be written must not lose the call
                guard.fault("audit", fault)
        return ended

    def name(self, call: Call, facts: Facts) -> tuple[str, ...]:
        """The common attributes of a call, from its first attempt."""
        if call.common is None:
            operation = call.operation
            call.common = self.labels.common(
                facts.operation if facts.operation in OPERATIONS else "other",
                facts.provider,
                facts.request_model or "",
                "" if operation is None else operation.name,
                "" if operation is None else operation.group,
            )
            if facts.llm_call:
                self._start_at_zero(call.common)
        return call.common

    def _start_at_zero(self, common: tuple[str, ...]) -> None:
        """Counters of closed lists start at 0 with the first call, and with the mechanism they belong to."""
        awake = _NO_NAMES if self.judges is None else self.judges.awake
        done = self._started.get(common)
        if done is awake:
            return
        if len(self._started) < _MAX_STARTED or done is not None:
            self._started[common] = awake
        for metric, sets in rules.zeros(
            common, [n for n in awake if n not in (done or ())], first=done is None
        ):
            self.store.touch(metric, sets)

    def read_limits(self) -> None:
        """Read the last rate-limit headers of each model: only when somebody asks for the numbers."""
        while self._limits:
            try:
                common, (headers, when) = self._limits.popitem()
            except KeyError:
                return
            unreadable: list[str] = []
            self.store.add(rules.limits(common, limits.read(headers, when, unreadable)))
            self.store.add([(MALFORMED, (*common, "", "", signal), 1.0) for signal in unreadable])

    def _price(self, ended: rules.Ended, request: Request, cost: Any) -> None:
        """The cost of a call, if it is not known yet; what a fast path saved is taken off the table's price."""
        try:
            if ended.cached or not ended.facts.llm_call:
                return
            if cost is None:
                cost = self.prices.price(ended.facts, time(), request)
                if cost is None:
                    return
            cheaper = [
                r for r in ended.results if r.saved_usd and r.verdict and r.verdict.mechanism in _CHEAPER
            ]
            if cheaper:
                # One mechanism has served the call, the first in the contract's order: its price holds
                cost = cost._replace(usd=max(0.0, cost.usd - cheaper[0].saved_usd))
                if len(cheaper) > 1:
                    ended.results = [
                        r._replace(saved_usd=None) if r in cheaper[1:] else r for r in ended.results
                    ]
            ended.cost = cost
        except Exception as fault:  # noqa: BLE001 - an odd price must not lose the call
            guard.fault("judge", fault)

    def _exchange(self, call: Call, observer: Attempt, ending: str, error_type: str) -> EndedCall:
        exchange = EndedCall(
            observer.request,
            observer.reader.facts,
            observer.status,
            observer.headers,
            ending,
            call.started_at,
            observer.ended_at,
            observer.first_byte_at,
            error_type,
        )
        exchange.trace_id = call.trace_id
        operation = call.operation
        if operation is not None:
            exchange.route, exchange.group, exchange.session = (
                operation.name,
                operation.group,
                operation.session,
            )
        return exchange

    def after_fork_in_child(self) -> None:
        """Forget what belongs to the parent."""
        self._limits.clear()
        self._started.clear()
