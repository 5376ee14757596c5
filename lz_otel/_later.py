"""What becomes of attempts and calls that have ended: read, judged, priced, counted, one under the other.

Runs later than the host's request, many calls at a time, or at once where they are wanted, in one thread.
"""

from __future__ import annotations

from functools import partial
from time import perf_counter, time
from typing import TYPE_CHECKING, Any

from lz_otel import _extract
from lz_otel._extract import gateway_cost, limits
from lz_otel._extract.elsewhere import LinesReader
from lz_otel._extract.ending import outcome_of
from lz_otel._extract.reading import Reading
from lz_otel._ground.guard import guard, guarded
from lz_otel._ground.headers import NO_HEADERS
from lz_otel._measure import rules
from lz_otel._measure.awaited import Awaited, Begun
from lz_otel._measure.headroom import MAX_READINGS, Headroom
from lz_otel.catalogue import ACCOUNT, GENAI_OPERATIONS, INTERNAL_OVERHEAD, MALFORMED
from lz_otel.mechanisms import REPLACES, of_effect
from lz_otel.model import EndedCall, Ending, Facts, Request

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from lz_otel._capture.attempt import Attempt
    from lz_otel._capture.call import Call
    from lz_otel._extract.elsewhere import Told
    from lz_otel._judge.in_force import MechanismsInForce
    from lz_otel._measure.labels import Labels
    from lz_otel._measure.spans import Spans
    from lz_otel._measure.store import Store
    from lz_otel._price.cost import Prices

_MAX_STARTED = 10_000
_REPLACING = of_effect(REPLACES)
_NO_NAMES: tuple[str, ...] = ()
_NOT_NAMED = ("", "", "", "", "")
_RETRY = frozenset({"x-stainless-retry-count"})
_NO_REQUEST = Request("", "", "")
_NO_FACTS = Facts("", "", inference=False, llm_call=False)


class Later:
    """Reads, judges, prices and counts what has ended.

    Args:
        store: where numbers go.
        labels: caps on open attributes.
        judges: the mechanisms, or ``None`` for none.
        prices: the price table, or ``None``.
        spans: ``None`` where nothing is traced.
        providers: host to provider name, of the user.
        legacy: record the older conventions too.

    Attributes:
        listeners: handed each ended call (audit log, tests).
        limits: response headers with rate limits, the last of each model and key, not read yet.
    """

    def __init__(
        self,
        store: Store,
        labels: Labels,
        *,
        judges: MechanismsInForce | None = None,
        prices: Prices | None = None,
        spans: Spans | None = None,
        providers: Mapping[str, str] | None = None,
        legacy: bool = False,
    ) -> None:
        self.store = store
        self.labels = labels
        self.judges = judges
        self.prices = prices
        self.spans = spans
        self.providers = dict(providers or {})
        self.legacy = legacy
        self.listeners: list[Callable[[EndedCall], None]] = []
        self.limits: dict[tuple[tuple[str, ...], int], tuple[Mapping[str, str], float]] = {}
        self.headroom = Headroom()
        self.awaited = Awaited()
        self._started: dict[tuple[str, ...], tuple[str, ...]] = {}  # common values: mechanisms at 0

    # --- reading -----------------------------------------------------------------------------

    def identify(self, attempt: Attempt) -> bool:
        """Find what reads the answer; ``False`` when the request is no LLM call after all."""
        if attempt.reader is None:
            attempt.reader = _extract.identify(attempt.candidates, attempt.request, self.providers)
        return attempt.reader is not None

    def read_along(self, attempt: Attempt) -> Reading | None:
        """Begin to read a body while the host does, after what was kept of it."""
        if not self.identify(attempt):
            return None
        self._open(attempt)
        reading = attempt.body = Reading(attempt.reader, attempt.status or 0, attempt.headers)
        reading.pieces(attempt.pieces, attempt.last_byte_at or 0.0)
        return reading

    def _open(self, attempt: Attempt) -> None:
        """Let mechanisms ask for what they need of the body."""
        facts = attempt.reader.facts
        if self.judges is not None and facts.llm_call:
            try:
                self.judges.begin(attempt.request, facts, attempt.headers)
            except Exception as fault:  # noqa: BLE001 - a mechanism's fault must not lose the call
                guard.fault("judge", fault)
        elif isinstance(attempt.reader, LinesReader):
            attempt.reader.sink = partial(self._lines, attempt)

    def attempt(self, attempt: Attempt, rows: list[Any]) -> None:
        """Read an attempt that has ended, say what it came to, and count it."""
        if not self.identify(attempt):
            return
        call, facts = attempt.call, attempt.reader.facts
        started = perf_counter() if call.overhead is not None else 0.0
        if attempt.body is None and attempt.status is not None:
            self._open(attempt)
        outcome = attempt.outcome = outcome_of(attempt)
        if not facts.llm_call:
            if told := getattr(attempt.reader, "told", None):
                self._told(attempt, rows, told())
            elif self.judges is not None:
                self.judges.counted(self._ended(call, attempt, _NOT_NAMED))
            return
        common = self.name(call, facts)
        rows += rules.attempt(common, outcome.status, _retry_reason(call, attempt))
        call.last_status = outcome.status
        if call.overhead is not None:
            call.overhead += perf_counter() - started

    # --- judging, pricing, counting ------------------------------------------------------------

    def call(self, call: Call, rows: list[Any]) -> None:
        """Judge, price and count a call that has ended."""
        attempt = call.last
        if attempt is None or attempt.reader is None or not attempt.reader.facts.llm_call:
            return  # no LLM call after all
        try:
            if call.common is not None:  # else a fault has kept its attempts from being counted
                self._count(call, attempt, call.common, rows)
        finally:
            self.release(call)

    def _count(self, call: Call, attempt: Attempt, common: tuple[str, ...], rows: list[Any]) -> None:
        started = perf_counter() if call.overhead is not None else 0.0
        if not attempt.headers.lacks[gateway_cost.HEADERS]:
            gateway_cost.read(attempt.headers, attempt.reader.facts)
        ended = self._ended(call, attempt, common)
        if attempt.reader.background and ended.facts.response_id:
            self._may_come_again(attempt, ended)
        if self.judges is not None:
            ended.results = self.judges.judge(ended)
            self._start_at_zero(common)
            if ended.results:
                ended.path, ended.served_by, ended.stored = rules.path_of(ended.results)
            else:
                ended.stored = False
        if not ended.stored:
            try:
                self._price(ended)
            except Exception as fault:  # noqa: BLE001 - an odd price must not lose the call
                guard.fault("judge", fault)
            if not attempt.headers.lacks[limits.MARKERS]:
                account, key = limits.whose(attempt.request.headers, attempt.headers)
                names = (*common[:3], self.labels.other("lz.account", ACCOUNT.cap, account))
                if len(self.limits) < MAX_READINGS:
                    self.limits[names, key] = (attempt.headers, time())
        operation, call.operation = call.operation, None  # once, whatever fails from here on
        if operation is not None:
            operation.call_ended(ended)
        if call.span is not None and self.spans is not None:
            self.spans.call_ended(call, ended)
        for listener in self.listeners:
            with guarded("audit"):  # a log that cannot be written must not lose the call
                listener(ended)
        rows += rules.call(ended, self.legacy)
        if operation is not None:  # it keeps the call, and no content
            ended.request, ended.facts, ended.response_headers, ended.results = (
                _NO_REQUEST,
                _NO_FACTS,
                NO_HEADERS,
                (),
            )
        if call.overhead is not None:
            rows.append((INTERNAL_OVERHEAD, (), max(0.0, call.overhead + perf_counter() - started)))

    def _ended(self, call: Call, attempt: Attempt, common: tuple[str, ...]) -> EndedCall:
        """Put together what is known of a call, as far as this attempt."""
        facts, operation = attempt.reader.facts, call.operation
        ending, error_type, _, encoding_failed = attempt.outcome
        ended_at = attempt.ended_at
        if call.cancelled_at is not None and ending != Ending.CANCELLED:
            ending, error_type, ended_at = Ending.CANCELLED, "", call.cancelled_at
        elif call.raised:
            ending, error_type = Ending.ERROR, call.raised
        labels = self.labels
        ended = EndedCall(
            attempt.request,
            facts,
            call.started_at,
            ended_at,
            attempt.status,
            attempt.headers,
            ending,
            attempt.first_byte_at,
            labels.error_type(error_type) if error_type else "",
            common,
            labels.response_model(facts.response_model or ""),
            call.attempts,
            encoding_failed,
            trace_id=call.trace_id,
        )
        if operation is not None:
            ended.route, ended.group, ended.session = operation.name, operation.group, operation.session
        return ended

    def _price(self, ended: EndedCall) -> None:
        """Set the cost of a call; what a fast path saved is taken off the table's price."""
        prices = self.prices
        cost = ended.cost  # a mechanism may have asked the table already
        if cost is None and prices is not None and ended.facts.llm_call:
            headers = ended.response_headers
            if not headers.lacks[gateway_cost.HEADERS] and gateway_cost.from_cache(
                headers
            ):  # and no mechanism is on that would know
                return
            cost = prices.whole(ended.facts, time(), ended.request)
            if isinstance(cost, str):
                if ended.status is not None and ended.status < 300:
                    ended.unpriced = cost
                return
        if cost is None:
            return
        cheaper = [
            r for r in ended.results if r.saved_usd and r.verdict and r.verdict.mechanism in _REPLACING
        ]
        if cheaper:
            # One mechanism has served the call, the first in the table's order: its price holds
            cost = cost._replace(usd=max(0.0, cost.usd - cheaper[0].saved_usd))
            if len(cheaper) > 1:
                ended.results = [r._replace(saved_usd=None) if r in cheaper[1:] else r for r in ended.results]
        ended.cost = cost

    # --- what is stated elsewhere ----------------------------------------------------------------

    def _may_come_again(self, attempt: Attempt, ended: EndedCall) -> None:
        """Remember a call that other exchanges tell of: its end, or once more what has been counted here."""
        host, name = attempt.request.host, ended.facts.response_id or ""
        if ended.facts.awaited:
            ended.timed = False
            self.awaited.begin(host, name, Begun(ended.started_at, ended.common))
        else:
            self.awaited.first(host, name)

    def _lines(self, attempt: Attempt, told: list[Told]) -> None:
        """Count what lines of a file tell, while the file passes."""
        rows: list[Any] = []
        self._told(attempt, rows, told)
        self.store.add(rows)

    def _told(self, attempt: Attempt, rows: list[Any], told: list[Told]) -> None:
        """Count what an exchange tells of calls that began in others, each once."""
        host, awaited = attempt.request.host, self.awaited
        for one in told:
            begun = awaited.known(host, one.begun)
            if one.facts.awaited:
                common = self._common_of(attempt, one, None)
                rows.append(rules.usage_awaited(common, one.facts.awaited))
                awaited.begin(host, one.begun, Begun(attempt.call.started_at, common))
            elif one.also:
                if begun is not None:
                    for name in one.also:
                        awaited.begin(host, name, begun)
            elif (one.sure or begun is not None) and awaited.first(host, one.key, one.index):
                self._count_told(attempt, rows, one, begun)

    def _count_told(self, attempt: Attempt, rows: list[Any], told: Told, begun: Begun | None) -> None:
        facts, labels = told.facts, self.labels
        ended = EndedCall(
            attempt.request,
            facts,
            attempt.call.started_at if begun is None else begun.started_at,
            attempt.ended_at if attempt.over else perf_counter(),
            attempt.status,
            ending=told.ending,
            error_type=labels.error_type(told.error_type) if told.error_type else "",
            common=self._common_of(attempt, told, begun),
            response_model=labels.response_model(facts.response_model or ""),
            attempts=0,
            timed=begun is not None,
        )
        with guarded("judge"):
            self._price(ended)
        rows += rules.call(ended, self.legacy)

    def _common_of(self, attempt: Attempt, told: Told, begun: Begun | None) -> tuple[str, ...]:
        """Return the common attributes of a call that began elsewhere, in this process or not."""
        if begun is not None and not told.batch:
            return begun.common
        facts, operation = told.facts, attempt.call.operation
        common = self.labels.commons[
            facts.operation,
            facts.provider,
            facts.request_model or facts.response_model or "",
            "" if operation is None else operation.name,
            "" if operation is None else operation.group,
        ]
        if begun is not None:
            common = (*common[:3], *begun.common[3:])
        self._start_at_zero(common)
        return common

    # --- names, zeros, limits ------------------------------------------------------------------

    def name(self, call: Call, facts: Facts) -> tuple[str, ...]:
        """Return the common attributes of a call, from its first attempt."""
        common = call.common
        if common is None:
            operation = call.operation
            common = call.common = self.labels.commons[
                facts.operation if facts.operation in GENAI_OPERATIONS else "other",
                facts.provider,
                facts.request_model or "",
                "" if operation is None else operation.name,
                "" if operation is None else operation.group,
            ]
            if facts.llm_call:
                self._start_at_zero(common)
        return common

    def name_in_flight(self, call: Call) -> tuple[str, ...] | None:
        """Return the common attributes of a call in flight, whose reader the host's thread may be setting."""
        first = call.first
        if first is None:
            return None
        reader = first.reader or _extract.identify(first.candidates, first.request, self.providers)
        return self.name(call, reader.facts) if reader is not None and reader.facts.llm_call else None

    def _start_at_zero(self, common: tuple[str, ...]) -> None:
        """Start counters of closed lists at 0 with the first call, and with the mechanism they belong to."""
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
        """Read the last rate-limit headers of each model and key, and end what has passed."""
        with self.headroom.lock:
            while self.limits:
                try:
                    (names, key), (headers, when) = self.limits.popitem()
                except KeyError:
                    break
                unreadable: list[str] = []
                self.headroom.take(names, key, limits.read(headers, when, unreadable), when)
                self.store.add([(MALFORMED, (*names[:3], "", "", signal), 1.0) for signal in unreadable])
            rows, ended = self.headroom.shown(time())
            if rows:
                self.store.add(rows)
            if ended:
                self.store.drop(ended)

    @staticmethod
    def release(call: Call) -> None:
        """Let the operation of a call wait no more for it: it will not be reported."""
        operation, call.operation = call.operation, None
        if operation is not None:
            operation.call_lost()

    def after_fork_in_child(self) -> None:
        """Forget what belongs to the parent."""
        self.limits.clear()
        self.awaited.clear()
        self.headroom.clear()
        self._started.clear()


def _retry_reason(call: Call, attempt: Attempt) -> str | None:
    """Return why this attempt is a retry; ``None`` when it is none (the first, or after a redirect)."""
    headers = attempt.request.headers
    text = None if headers.lacks[_RETRY] else headers["x-stainless-retry-count"]
    count = int(text) if text is not None and text.isdecimal() and len(text) < 6 else None
    previous = call.last_status
    if previous is None:  # the first that was seen here; the SDK may have counted more
        return "unknown" if count else None
    return None if previous == "3xx" else previous
