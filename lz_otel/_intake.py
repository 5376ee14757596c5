"""What is done while the host waits: attempts begin and end, calls open and are left. Nothing is read here.

Every method may raise (a fault of ours): those of the capture stage who call them catch and count it.
"""

from __future__ import annotations

import random
from operator import length_hint
from time import perf_counter
from typing import TYPE_CHECKING, Any

from lz_otel import _extract
from lz_otel._backlog import BATCH, MAX_WEIGHT, Backlog
from lz_otel._capture.attempt import Attempt, Handed
from lz_otel._capture.call import Call, current_call, current_operation, current_send, current_trace
from lz_otel._ground.gc_phase import COLLECTING
from lz_otel._ground.guard import guard, guarded
from lz_otel._ground.headers import is_cancellation, read
from lz_otel._ground.once import Once
from lz_otel.catalogue import CALL_ACTIVE
from lz_otel.model import Ending, Request

if TYPE_CHECKING:
    from lz_otel._later import Later
    from lz_otel._measure.spans import Spans
    from lz_otel._measure.store import Store

_MAX_KNOWN, _MAX_PATH = 1024, 512


class Intake:
    """Takes in attempts and calls, and queues what has ended.

    Args:
        store: where numbers go.
        later: reads and counts what has ended.
        spans: `_measure.spans.Spans`, or ``None`` where nothing is traced.
        overhead_sample: share of calls whose overhead is measured.
        at_once: count every call as soon as it is over: for worker processes, whose numbers others read from
            files, and which may be killed.
    """

    def __init__(
        self,
        store: Store,
        later: Later,
        *,
        spans: Spans | None = None,
        overhead_sample: float = 0.0,
        at_once: bool = False,
    ) -> None:
        self.store = store
        self.later = later
        self.spans = spans
        self.overhead_sample = overhead_sample
        self.at_once = at_once
        self.generation = 0
        self.backlog = Backlog(self._work, self._left_behind, self.lost)
        self.connect()
        self._open: set[Call] = set()
        self._active: set[tuple[str, ...]] = set()
        self._put: dict[tuple[str, ...], int] = {}  # as the store has them
        # Addresses that have spoken an LLM API: host, path and what they may speak
        self._places: dict[tuple[bytes, bytes], tuple[str, str, Any]] = {}
        self._first = Once()
        self._random = random.Random().random  # noqa: S311 - sampling, not secrecy
        store.before_snapshot.append(self.catch_up)

    def connect(self) -> None:
        """Make what attempts are handed."""
        self.handed = Handed(
            self.later.read_along, self.attempt_ended, self.backlog.dropped.append, self.lost
        )

    # --- attempts ----------------------------------------------------------------------------

    def begin(self, http_request: Any, started_at: float | None = None) -> Attempt | None:
        """Take in a request that is about to leave; ``None`` if it is no LLM call."""
        url = http_request.url
        raw_path, _, query = url.raw_path.partition(b"?")  # a query may hold a key: it is not remembered
        address = url.raw_host, raw_path
        method = http_request.method
        runs = method == "POST"  # a model; else an answer may be read again, at a path of its own
        place = self._places.get(address) if runs else None
        known = place is not None
        if place is None:
            path = raw_path.decode("latin-1")
            candidates = _extract.candidate(method, path)
            if candidates is None:
                runs, candidates = False, _extract.again(method, path)
            if candidates is None:
                return self._followed()
            place = url.host, path, candidates
        now = perf_counter() if started_at is None else started_at
        try:
            body = http_request.content
        except Exception:  # noqa: BLE001 - a streamed body: each package has its own class for that
            body = None
        host, path, candidates = place
        headers = read(http_request.headers)
        request = Request(method, host, path, query.decode("latin-1") if query else "", headers, body)
        call = current_call.get()
        if call is None or call.exited or call.generation != self.generation or not length_hint(call.once):
            call = self._call_of(now)
        attempt = Attempt(self.handed, call, request, candidates, now, now)
        urgent = call.urgent or self._is_urgent(call, now)
        if (urgent or not known) and not self.later.identify(attempt):
            return None
        if not runs and hasattr(attempt.reader, "sink"):
            self.backlog.take_turn(urgent=True)  # what the file belongs to may wait to be read
        if runs and not known and len(self._places) < _MAX_KNOWN and len(raw_path) < _MAX_PATH:
            self._places[address] = place
        if not known and next(self._first, False):
            self.store.add(())  # what waits for the first call may begin, such as threads
        try:
            call.open += 1
            call.attempts += 1
            if urgent:
                self._urgent_attempt(call, attempt)
            elif call.attempts == 1:
                call.first = attempt
                self._open.add(call)
            if self.overhead_sample and self._random() < self.overhead_sample:
                call.overhead = (call.overhead or 0.0) + perf_counter() - now
        except Exception:
            self.lost(call)
            raise
        return attempt

    def _followed(self) -> Attempt | None:
        """Return the attempt that follows a redirect to another kind of path: it is of the same call."""
        call, send = current_call.get(), current_send.get()
        if (call is None or call.exited) and send is not None:
            call = send.call
        if call is None or call.exited or call.open or call.last is None or not length_hint(call.once):
            return None
        last = call.last
        if call.generation != self.generation or not 300 <= (last.status or 0) < 400:
            return None
        now = perf_counter()
        attempt = Attempt(self.handed, call, last.request, last.candidates, now, now)
        call.open += 1
        call.attempts += 1
        if call.urgent:
            self.later.identify(attempt)
        return attempt

    def _is_urgent(self, call: Call, now: float) -> bool:
        """Return whether its attempts must be known as they begin and end: for spans, operations, logs."""
        spans = self.spans
        call.urgent = (
            call.operation is not None
            or bool(self.later.listeners)
            or (
                not call.sdk and spans is not None and now >= spans.quiet_until and spans.active()
            )  # of an SDK: see `call_opened`
        )
        return call.urgent

    def _call_of(self, started_at: float) -> Call:
        """Return the call of a request that no SDK's hook has announced: its client's, if one is at work."""
        send = current_send.get()
        if send is None or send.token is None:
            return Call(started_at, False, True, self.generation, current_operation.get())
        call: Call | None = send.call
        if call is None or call.generation != self.generation or not length_hint(call.once):
            call = send.call = Call(started_at, False, False, self.generation, current_operation.get())
        return call

    def _urgent_attempt(self, call: Call, attempt: Attempt) -> None:
        """Note an attempt of a call whose numbers are wanted at once."""
        facts = attempt.reader.facts
        if not facts.llm_call:
            return  # counting tokens and the like are no calls
        if call.attempts == 1:
            if call.operation is not None:
                call.operation.call_begun()
            if self.later.listeners:
                call.trace_id = current_trace()
            call.first = attempt
            self._open.add(call)
        if self.spans is not None:
            self.spans.attempt_begun(call, facts)

    def attempt_ended(self, attempt: Attempt) -> None:
        """Queue an attempt that has ended, in whatever way, and its call where that is over too."""
        call = attempt.call
        if call.generation != self.generation:
            return  # begun in the parent of a forked child: the parent reports it
        backlog = self.backlog
        call.open -= 1
        call.last = attempt
        backlog.waiting.append(attempt)
        backlog.weight += attempt.weight
        if call.open <= 0 and (call.exited or (call.urgent and self._answered(call, attempt))):
            self._call_over(call)
        if call.urgent or call.exited:  # of other calls: see `call_left`
            self._turn(call.urgent or self.at_once)

    def _turn(self, at_once: bool) -> None:
        backlog = self.backlog
        if at_once or len(backlog.waiting) >= BATCH or backlog.weight >= MAX_WEIGHT:
            backlog.take_turn(urgent=at_once)
        elif backlog.dropped and not COLLECTING:
            backlog.collect_dropped()

    def _answered(self, call: Call, attempt: Attempt) -> bool:
        """Return whether a good answer ended the call: an SDK that traces ends its span right after that."""
        if self.spans is None or not self.spans.borrowed(call) or COLLECTING:
            return False
        self.backlog.catch_up()
        outcome = attempt.outcome
        return outcome is not None and outcome.ending == Ending.OK and (attempt.status or 500) < 300

    # --- calls of SDKs -------------------------------------------------------------------------

    def call_opened(self, started_at: float, client: Any, options: Any) -> Call:
        """Open a call: an SDK's request method was entered."""
        call = Call(started_at, True, False, self.generation, current_operation.get())
        spans = self.spans
        if spans is not None and started_at >= spans.quiet_until and spans.active():
            call.urgent = True
            call.span_token = spans.sdk_begun(call, client, options)
        return call

    def call_entered(self, call: Call) -> None:
        """Look for the SDK's own span, from inside its request method."""
        if self.spans is not None:
            self.spans.sdk_span(call)

    def call_left(self, call: Call, error: BaseException | None) -> None:
        """Note that the request method, or the client's ``send``, was left: by a result or an exception."""
        call.exited = True
        if call.attempts == 0 or call.generation != self.generation:
            return
        if error is not None:
            if is_cancellation(error):
                call.cancelled_at = perf_counter()
            elif call.last is not None and 300 <= (call.last.status or 0) < 400:
                call.raised = type(error).__name__  # too many redirects, or one that cannot be followed
        if call.open <= 0:
            self._call_over(call)
            self._turn(call.urgent or self.at_once)

    def _call_over(self, call: Call) -> None:
        if next(call.once, False):
            self._open.discard(call)
            self.backlog.waiting.append(call)

    def _left_behind(self, item: Attempt | Call) -> None:
        """End what a finalizer has found."""
        if isinstance(item, Call):
            self._call_over(item)
        else:
            item.finish("closed")

    def lost(self, call: Call) -> None:
        """Let go of a call that a fault of ours has lost track of: it counts as lost, and as nothing else."""
        self._open.discard(call)
        if not next(call.once, False):
            return
        call.first = call.last = None
        guard.lost("fault")
        self.later.release(call)

    def end_all(self, _: float = 0.0) -> None:
        """End the calls in flight as the process ends: nobody will read on, and none would be counted."""
        for call in list(self._open):
            with guarded("capture"):
                first = call.first
                call.exited = True
                if first is not None and not first.over:
                    first.finish("closed")
                self._call_over(call)

    # --- working it off ------------------------------------------------------------------------

    def catch_up(self) -> None:
        """Bring in everything that has ended, and the calls in flight, before the numbers are read."""
        if COLLECTING:
            return
        self.backlog.catch_up()
        if self.later.limits or self.later.headroom.readings:
            with guarded("measure"):
                self.later.read_limits()
        try:
            active = self._count_active()
            if active != self._put:
                self.store.put(CALL_ACTIVE, active)
                self._put = active
        except Exception as fault:  # noqa: BLE001 - what can be read must be readable
            guard.fault("measure", fault)

    def _work(self) -> None:
        """Read and count what has ended by now, in order; what ends meanwhile is the next turn's."""
        rows: list[Any] = []
        generation, waiting, later = self.generation, self.backlog.waiting, self.later
        self.backlog.weight = 0
        try:
            for _ in range(len(waiting)):
                try:
                    item = waiting.popleft()
                except IndexError:
                    break
                try:
                    if isinstance(item, Call):
                        self._count_call(item, rows)
                    else:
                        later.attempt(item, rows)
                except Exception as fault:  # noqa: BLE001 - one odd call must not lose the others
                    guard.fault("measure", fault)
        finally:  # a signal's handler may have left by an exception, or have forked
            if rows and generation == self.generation:
                self.store.add(rows)

    def _count_call(self, call: Call, rows: list[Any]) -> None:
        try:
            if call.common is not None and len(self._active) < self.store.max_series:
                self._active.add(call.common)
            self.later.call(call, rows)
        finally:
            call.first = call.last = None  # no cycle: else the garbage collector would have to find them

    def _count_active(self) -> dict[tuple[str, ...], int]:
        """Count the calls begun and not ended, by their common attributes."""
        counts: dict[tuple[str, ...], int] = dict.fromkeys(self._active, 0)
        for call in list(self._open):
            common = call.common or self.later.name_in_flight(call)
            if common is not None:
                counts[common] = counts.get(common, 0) + 1
        for common in counts:
            if len(self._active) < self.store.max_series:
                self._active.add(common)
        return counts

    def after_fork_in_child(self) -> None:
        """Forget what belongs to the parent: its numbers and its calls in flight."""
        self.generation += 1
        self.backlog.after_fork_in_child()
        self._open.clear()
        self._active.clear()
        self._put.clear()
        self.later.after_fork_in_child()
        self.store.clear()
        self._places.clear()
        self._first = Once()
