"""One call through the stages, from the request on the wire to the numbers in the store.

`Pipeline` is the hub that the capture stage talks to. Every method here may raise (a fault of
ours): the shells of the capture stage catch and count it.
"""

from __future__ import annotations

import random
from collections import deque
from time import perf_counter, time
from typing import TYPE_CHECKING, Any

from lz_otel import _extract
from lz_otel._capture.calls import Call, current_call, current_operation
from lz_otel._capture.headers import is_cancellation, lower
from lz_otel._capture.observer import Observer
from lz_otel._extract import limits
from lz_otel._guard import guard
from lz_otel._measure import rules
from lz_otel.catalogue import CALL_ACTIVE, INTERNAL_ERRORS, INTERNAL_OVERHEAD, OPERATIONS
from lz_otel.model import Ending, Exchange, Request

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from lz_otel._measure.labels import Labels
    from lz_otel._measure.store import Store

__all__ = ["Pipeline"]

_REDIRECT_KEY = "lz_otel.call"
# Mechanisms whose hit makes the same usage cheaper than the table says (articles 000 and 004, A)
_CHEAPER = ("symbolic", "scheduling")
_MAX_STARTED = 10_000
_NO_NAMES: tuple[str, ...] = ()
_NO_RESULTS: tuple[Any, ...] = ()


class _Redirect:
    """Rides on a redirected request, so that the next exchange joins the same call."""

    __slots__ = ("_finish", "call")

    def __init__(self, call: Call, finish: Callable[[], None]) -> None:
        self.call = call
        self._finish = finish

    def __del__(self) -> None:
        self._finish()


class Pipeline:
    """The stages, wired.

    Args:
        store: where numbers go.
        labels: caps on open attributes.
        judges: the mechanisms (`_judge.Judges`), or ``None`` for none.
        prices: `_judge.cost.Prices`, or ``None``.
        spans: `_measure.spans.Spans`, or ``None`` when nobody traces.
        providers: host to provider name, of the user.
        legacy: record the older conventions too.
        overhead_sample: share of calls whose overhead is measured.
    """

    def __init__(
        self,
        store: Store,
        labels: Labels,
        *,
        judges: Any = None,
        prices: Any = None,
        spans: Any = None,
        providers: Mapping[str, str] | None = None,
        legacy: bool = False,
        overhead_sample: float = 0.0,
    ) -> None:
        self.store = store
        self.labels = labels
        self.judges = judges
        self.prices = prices
        self.spans = spans
        self.providers = dict(providers or {})
        self.legacy = legacy
        self.overhead_sample = overhead_sample
        self.generation = 0
        self.deferred: deque[Any] = deque()
        self.call_listeners: list[Callable[[Any, Exchange | None], None]] = []
        self._started: dict[tuple[str, ...], tuple[str, ...]] = {}  # common values: mechanisms at 0
        self._random = random.Random().random  # noqa: S311 - sampling, not secrecy
        store.before_snapshot.append(self.drain)

    # --- capture -> extract -------------------------------------------------------------

    def begin(self, http_request: Any, started_at: float | None = None) -> Observer | None:
        """A request is about to leave; an observer if it is an LLM call."""
        now = perf_counter()
        url = http_request.url
        path, _, query = url.raw_path.decode("latin-1").partition("?")
        candidates = _extract.candidate("POST", path)
        if candidates is None:
            return None
        if self.deferred:
            self.drain()
        try:
            body = http_request.content
        except Exception:  # noqa: BLE001 - a streamed body: each package has its own class for that
            body = None
        request = Request("POST", url.host, path, query, lower(http_request.headers.raw), body)
        reader = _extract.identify(candidates, request, self.providers)
        if reader is None:
            return None
        call = self._call_of(http_request, started_at or now)
        observer = Observer(self, call, request, reader, started_at or now)
        self._attempt_begun(call, observer, http_request)
        if self.overhead_sample and self._random() < self.overhead_sample:
            call.overhead = (call.overhead or 0.0) + perf_counter() - now
        return observer

    def _call_of(self, http_request: Any, started_at: float) -> Call:
        call = current_call.get()
        if call is not None and not call.exited and not call.ended and call.generation == self.generation:
            return call
        held = http_request.extensions.get(_REDIRECT_KEY)
        if held is not None and not held.call.ended and held.call.generation == self.generation:
            redirected: Call = held.call
            return redirected
        call = Call(started_at, sdk=False, operation=current_operation.get())
        call.generation = self.generation
        return call

    def _attempt_begun(self, call: Call, observer: Observer, http_request: Any) -> None:
        call.open += 1
        call.attempts += 1
        facts = observer.facts
        if call.common is None:
            operation = call.operation
            if operation is None:
                route = group = ""
            else:
                route, group = operation.name, operation.group
            call.common = self.labels.common(
                facts.operation if facts.operation in OPERATIONS else "other",
                facts.provider,
                facts.request_model or "",
                route,
                group,
            )
            if facts.llm_call:
                self._start_at_zero(call.common)
                self.store.add(((CALL_ACTIVE, call.common, 1.0),))
                if operation is not None:
                    operation.call_begun()
        if self.spans is not None and facts.llm_call:
            self.spans.attempt_begun(call, observer)
        observer.extensions = None if call.sdk else http_request.extensions

    def _start_at_zero(self, common: tuple[str, ...]) -> None:
        """Counters of closed lists start at 0 with the first call, and with the mechanism they belong to."""
        awake = _NO_NAMES if self.judges is None else self.judges.awake
        done = self._started.get(common)
        if done is awake:
            return
        if len(self._started) < _MAX_STARTED or done is not None:
            self._started[common] = awake
        for metric, sets in rules.zeros(common, [n for n in awake if n not in (done or ())], first=done is None):
            self.store.touch(metric, sets)

    def head_arrived(self, observer: Observer) -> None:
        """The response head is known: mechanisms may ask for what they need of the body."""
        if self.judges is not None and observer.facts.llm_call:
            try:
                self.judges.begin(observer.request, observer.facts, observer.headers)
            except Exception as fault:  # noqa: BLE001 - a mechanism's fault must not lose the call
                guard.fault("judge", fault)

    # --- the end of an attempt, and of a call --------------------------------------------

    def attempt_ended(self, observer: Observer) -> None:
        """An attempt has ended, in whatever way."""
        if observer.generation != self.generation:
            return  # begun in the parent of a forked child: the parent reports it
        started = perf_counter()
        call = observer.call
        call.open -= 1
        call.last = observer
        if not observer.facts.llm_call:
            if self.judges is not None:
                self.judges.counted(self._exchange(call, observer, observer.ending, observer.error_type))
            return
        assert call.common is not None
        self.store.add(rules.attempt(call.common, observer.attempt_status, self._retry_reason(call, observer)))
        call.last_status = observer.attempt_status
        status = observer.status
        if status is not None and 300 <= status < 400 and not call.sdk and "location" in observer.headers:
            self._wait_for_redirect(call, observer)
        elif call.open <= 0 and (call.exited or self._answered(call, observer)):
            self.end_call(call)
        if call.overhead is not None:
            call.overhead += perf_counter() - started

    def _answered(self, call: Call, observer: Observer) -> bool:
        """An SDK that traces ends its span right after a good answer: what we add must be there before."""
        return (
            self.spans is not None
            and observer.ending == Ending.OK
            and observer.status is not None
            and observer.status < 300
            and self.spans.borrowed(call)
        )

    def _retry_reason(self, call: Call, observer: Observer) -> str | None:
        """Why this attempt is a retry; ``None`` when it is none (first, redirect, another helper's request)."""
        text = observer.request.headers.get("x-stainless-retry-count")
        count = int(text) if text is not None and text.isdecimal() and len(text) < 6 else None
        previous = call.last_status
        if count is None:
            return None if previous is None or previous == "3xx" else previous
        seen = call.seen_counts
        again = count in seen
        seen.append(count)
        if count == 0 or again:
            return None
        return previous or "unknown"

    def _wait_for_redirect(self, call: Call, observer: Observer) -> None:
        """The client may follow: the next exchange joins this call; if none comes, it ends as it is."""

        def finish() -> None:
            if not call.ended and call.open <= 0 and call.last is observer:
                self.deferred.append(call)

        extensions = observer.extensions
        if isinstance(extensions, dict):
            extensions[_REDIRECT_KEY] = _Redirect(call, finish)
        else:
            self.end_call(call)

    def call_left(self, call: Call, error: BaseException | None) -> None:
        """The SDK's request method was left: by its result, or by an exception."""
        call.exited = True
        if call.attempts == 0 or call.generation != self.generation:
            return
        if error is not None and is_cancellation(error):
            call.exit_cancelled = True
        if call.open <= 0 and call.last is not None and call.last.facts.llm_call:
            self.end_call(call)

    def drain(self) -> None:
        """Report what the garbage collector found dropped."""
        while self.deferred:
            try:
                item = self.deferred.popleft()
            except IndexError:
                return
            try:
                if isinstance(item, Call):
                    self.end_call(item)
                else:
                    item.finish_dropped()
            except Exception as fault:  # noqa: BLE001 - runs in the host's threads
                guard.fault("capture", fault)

    def end_call(self, call: Call) -> None:
        """Report a call, once."""
        observer = call.last
        if observer is None or not call.end_once():
            return
        assert call.common is not None
        rows: list[Any] = [(CALL_ACTIVE, call.common, -1.0)]
        try:
            self._conclude(call, observer, rows)
        except Exception as fault:  # noqa: BLE001 - a fault in judging must not leave the call active
            guard.fault("measure", fault)
        self.store.add(rows)

    def _conclude(self, call: Call, observer: Observer, rows: list[Any]) -> None:
        common = call.common
        assert common is not None
        facts = observer.facts
        ending, error_type, ended_at = observer.ending, observer.error_type, observer.ended_at
        if call.exit_cancelled and ending != Ending.CANCELLED:
            ending, error_type, ended_at = Ending.CANCELLED, "", perf_counter()
        exchange: Exchange | None = None
        results: Any = _NO_RESULTS
        if self.judges is not None:
            exchange = self._exchange(call, observer, ending, error_type)
            results = self.judges.judge(exchange)
            self._start_at_zero(common)
        labels = self.labels
        ended = rules.Ended(
            facts,
            common,
            started_at=call.started_at,
            ended_at=ended_at,
            first_byte_at=observer.first_byte_at,
            ending=ending,
            error_type=labels.error_type(error_type),
            status=observer.status,
            response_model=labels.response_model(facts.response_model or ""),
            compressed=observer.encoding_failed,
            results=results,
        )
        if self.prices is not None:
            self._price(ended, observer.request)
        rows += rules.call(ended, self.legacy)
        if not ended.cached and observer.headers:
            rows += rules.limits(common, limits.read(observer.headers, time()))
        if call.overhead is not None:
            rows.append((INTERNAL_OVERHEAD, (), call.overhead))
        if call.operation is not None:
            call.operation.call_ended(ended)
        if self.spans is not None:
            self.spans.call_ended(call, observer, ended)
        for listener in self.call_listeners:
            listener(ended, exchange)

    def _price(self, ended: rules.Ended, request: Request) -> None:
        """The cost of a call; what a fast path saved is taken off the table's price."""
        try:
            if ended.cached or not ended.facts.llm_call:
                return
            cost = self.prices.price(ended.facts, time(), request)
            if cost is None:
                return
            for result in ended.results:
                verdict = result.verdict
                if verdict is not None and verdict.mechanism in _CHEAPER and result.saved_usd:
                    cost = cost._replace(usd=max(0.0, cost.usd - result.saved_usd))
            ended.cost = cost
        except Exception as fault:  # noqa: BLE001 - an odd price must not lose the call
            guard.fault("judge", fault)

    def _exchange(self, call: Call, observer: Observer, ending: str, error_type: str) -> Exchange:
        operation = call.operation
        return Exchange(
            observer.request,
            observer.facts,
            status=observer.status,
            response_headers=observer.headers,
            ending=ending,
            error_type=error_type,
            started_at=call.started_at,
            first_byte_at=observer.first_byte_at,
            last_byte_at=observer.ended_at,
            route="" if operation is None else operation.name,
            group="" if operation is None else operation.group,
            session=None if operation is None else operation.session,
        )

    # --- faults, fork ---------------------------------------------------------------------

    def count_fault(self, where: str) -> None:
        """Count a swallowed fault; called by the guard."""
        self.store.add(((INTERNAL_ERRORS, (where,), 1.0),))

    def after_fork_in_child(self) -> None:
        """Forget what belongs to the parent: its numbers and its calls in flight."""
        self.generation += 1
        self.deferred.clear()
        self._started.clear()
        self.store.clear()
