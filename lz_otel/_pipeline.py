"""One call through the stages, from the request on the wire to the numbers in the store.

`Pipeline` is the hub that the capture stage talks to. Every method here may raise (a fault of
ours): the shells of the capture stage catch and count it.
"""

from __future__ import annotations

import random
from collections import deque
from time import perf_counter
from typing import TYPE_CHECKING, Any

from lz_otel import _extract
from lz_otel._capture.attempt import Attempt
from lz_otel._capture.bodies import forget
from lz_otel._capture.calls import Call, current_call, current_operation, current_trace
from lz_otel._ground import gc_phase
from lz_otel._ground.guard import guard
from lz_otel._ground.headers import is_cancellation, read
from lz_otel._ground.turn import Turn
from lz_otel._later import Conclusions
from lz_otel.catalogue import CALL_ACTIVE, INTERNAL_ERRORS
from lz_otel.model import Ending, Request

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from lz_otel._measure.labels import Labels
    from lz_otel._measure.store import Store

__all__ = ["Pipeline"]

_REDIRECT_KEY = "lz_otel.call"
# What has ended is worked off so many at a time, or when it holds so many bytes: with 1 MiB, freeing a batch made
# the allocator shrink its heap, and the host's next calls paid 11 page faults each (C)
_BATCH = 256
_MAX_WEIGHT = 524_288
_MAX_BACKLOG = 4 * _BATCH  # from here on a call waits for its turn, so that what waits does not grow for ever
_MAX_KNOWN, _MAX_PATH = 1024, 512
_PATIENCE = 1.0  # seconds to wait for another thread's turn: longer than any takes (C)


class _Redirect:
    """Rides on a redirected request, so that the next exchange joins the same call."""

    __slots__ = ("_finish", "_hub", "call")

    def __init__(self, hub: Pipeline, call: Call, finish: Callable[[], None]) -> None:
        self._hub = hub
        self.call = call
        self._finish = finish

    def __del__(self) -> None:
        try:
            self._finish()
        except Exception as fault:  # noqa: BLE001 - what a finalizer raises is printed
            guard.fault("capture", fault)
            if hasattr(self, "_finish"):
                forget(self._hub, self.call)


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
        prompt: count every call as soon as it ends, and calls in flight as they begin: for worker processes
            whose numbers others read from files.
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
        prompt: bool = False,
    ) -> None:
        self.store = store
        self.judges = judges
        self.spans = spans
        self.providers = dict(providers or {})
        self.conclusions = Conclusions(
            store, labels, judges=judges, prices=prices, spans=spans, legacy=legacy
        )
        self.overhead_sample = overhead_sample
        self.prompt = prompt
        self.generation = 0
        self.dropped: deque[Any] = deque()  # found by the garbage collector, which must not report
        self._waiting: deque[Attempt | Call] = deque()  # ended, and not read yet
        self._weight = 0
        self._turn = Turn()  # who works off what waits
        self._open: set[Call] = set()
        self._active: set[tuple[str, ...]] = set()
        # Addresses that have spoken an LLM API: host, path and what they may speak
        self._places: dict[tuple[bytes, bytes], tuple[str, str, Any]] = {}
        self._random = random.Random().random  # noqa: S311 - sampling, not secrecy
        store.before_snapshot.append(self.catch_up)

    # --- while the host waits ---------------------------------------------------------------

    def begin(self, http_request: Any, started_at: float | None = None) -> Attempt | None:
        """A request is about to leave; an observer if it is an LLM call."""
        url = http_request.url
        raw_path, _, query = url.raw_path.partition(b"?")  # a query may hold a key: it is not remembered
        address = url.raw_host, raw_path
        place = self._places.get(address)
        known = place is not None
        if place is None:
            path = raw_path.decode("latin-1")
            candidates = _extract.candidate("POST", path)
            if candidates is None:
                return None
            place = url.host, path, candidates
        now = perf_counter() if started_at is None else started_at
        try:
            body = http_request.content
        except Exception:  # noqa: BLE001 - a streamed body: each package has its own class for that
            body = None
        host, path, candidates = place
        headers = read(http_request.headers)
        request = Request("POST", host, path, query.decode("latin-1") if query else "", headers, body)
        call = current_call.get()
        if call is None or call.exited or call.generation != self.generation or call.ended:
            call = self._call_of(http_request, now)
        observer = Attempt(self, call, request, candidates, now)
        prompt = call.prompt or self._is_prompt(call)
        if (prompt or not known) and not self.ready(observer):
            return None
        if not known and len(self._places) < _MAX_KNOWN and len(raw_path) < _MAX_PATH:
            self._places[address] = place
        try:
            call.open += 1
            call.attempts += 1
            if prompt:
                self._prompt_attempt(call, observer)
            elif call.attempts == 1:
                call.first = observer
                self._open.add(call)
            if not call.sdk:
                observer.extensions = http_request.extensions
            if self.overhead_sample and self._random() < self.overhead_sample:
                call.overhead = (call.overhead or 0.0) + perf_counter() - now
        except Exception:
            self.lost(call)
            raise
        return observer

    def _is_prompt(self, call: Call) -> bool:
        """Whether somebody wants to know at once: spans, an operation, a log, other processes' scrapes."""
        call.prompt = (
            self.prompt
            or call.operation is not None
            or bool(self.conclusions.call_listeners)
            or (
                not call.sdk and self.spans is not None and self.spans.active()
            )  # an SDK's hook has asked that
        )
        return call.prompt

    def _call_of(self, http_request: Any, started_at: float) -> Call:
        """The call of a request that no SDK's hook has announced."""
        held = http_request.extensions.get(_REDIRECT_KEY)
        if held is not None and not held.call.ended and held.call.generation == self.generation:
            redirected: Call = held.call
            return redirected
        call = Call(started_at, sdk=False, operation=current_operation.get())
        call.generation = self.generation
        return call

    def lost(self, call: Call) -> None:
        """A fault of ours has lost track of a call: it is not counted, and not held for ever either."""
        self._open.discard(call)
        if not call.end_once():
            return
        call.first = call.last = None
        if self.prompt and call.common is not None:
            self.store.add(((CALL_ACTIVE, call.common, -1.0),))
        self._release(call)

    @staticmethod
    def _release(call: Call) -> None:
        """Its operation must not wait for a call that will not be reported."""
        operation, call.operation = call.operation, None
        if operation is not None:
            operation.call_lost()

    def _prompt_attempt(self, call: Call, observer: Attempt) -> None:
        """An attempt of a call that somebody waits for."""
        if not observer.facts.llm_call:
            return  # counting tokens and the like: nobody waits for it as a call
        if call.attempts == 1:
            if call.operation is not None:
                call.operation.call_begun()
            if self.conclusions.call_listeners:
                call.trace_id = current_trace()
            if self.prompt:
                self.store.add(((CALL_ACTIVE, self.conclusions.name(call, observer.facts), 1.0),))
            else:
                call.first = observer
                self._open.add(call)
        if self.spans is not None:
            self.spans.attempt_begun(call, observer)

    def ready(self, observer: Attempt) -> bool:
        """Make sure that there is a reader; False when the request is no LLM call after all."""
        if observer.reader is None:
            observer.reader = _extract.identify(observer.candidates, observer.request, self.providers)
        return observer.reader is not None

    def head_arrived(self, observer: Attempt) -> None:
        """The response head is known: mechanisms may ask for what they need of the body."""
        if self.judges is not None and observer.facts.llm_call:
            try:
                self.judges.begin(observer.request, observer.facts, observer.headers)
            except Exception as fault:  # noqa: BLE001 - a mechanism's fault must not lose the call
                guard.fault("judge", fault)

    def attempt_ended(self, observer: Attempt) -> None:
        """An attempt has ended, in whatever way."""
        if observer.generation != self.generation:
            return  # begun in the parent of a forked child: the parent reports it
        call = observer.call
        call.open -= 1
        call.last = observer
        self._waiting.append(observer)
        self._weight += observer.weight
        if call.open <= 0:
            status = observer.status
            if status is not None and 300 <= status < 400 and not call.sdk and "location" in observer.headers:
                self._wait_for_redirect(call, observer)
            elif call.exited or (call.prompt and self._answered(call, observer)):
                self._call_over(call)
        if call.prompt or call.exited:  # else its SDK goes on, or leaves: `call_left`
            self._take_turn(call.prompt)

    def _answered(self, call: Call, observer: Attempt) -> bool:
        """An SDK that traces ends its span right after a good answer: what we add must be there before."""
        if self.spans is None or not self.spans.borrowed(call) or gc_phase.inside():
            return False
        self.catch_up()
        return observer.ending == Ending.OK and observer.status is not None and observer.status < 300

    def _wait_for_redirect(self, call: Call, observer: Attempt) -> None:
        """The client may follow: the next exchange joins this call; if none comes, it ends as it is."""

        def finish() -> None:
            if not call.ended and call.open <= 0 and call.last is observer:
                self.dropped.append(call)

        extensions, observer.extensions = observer.extensions, None  # only the request itself may hold it
        if isinstance(extensions, dict):
            extensions[_REDIRECT_KEY] = _Redirect(self, call, finish)
        else:
            self._call_over(call)

    def call_left(self, call: Call, error: BaseException | None) -> None:
        """The SDK's request method was left: by its result, or by an exception."""
        call.exited = True
        if call.attempts == 0 or call.generation != self.generation:
            return
        if error is not None and is_cancellation(error):
            call.cancelled_at = perf_counter()
        if call.open <= 0:
            self._call_over(call)
            self._take_turn(call.prompt)

    def _call_over(self, call: Call) -> None:
        if call.end_once():
            self._open.discard(call)
            self._waiting.append(call)

    # --- later: many at a time, or at once where somebody wants to know ------------------------------

    def _take_turn(self, prompt: bool) -> None:
        if gc_phase.inside():
            return
        if self.dropped:
            self._collect_dropped()
        waiting = len(self._waiting)
        if prompt or waiting >= _BATCH or self._weight >= _MAX_WEIGHT:
            self._turn.run(self._work, _PATIENCE if prompt or waiting >= _MAX_BACKLOG else 0.0)

    def catch_up(self) -> None:
        """Work off everything that waits; called before anybody reads the numbers."""
        if gc_phase.inside():
            return
        self._collect_dropped()
        self._turn.run(self._work, _PATIENCE)
        for step in (self.conclusions.read_limits, self._count_active):
            try:
                step()
            except Exception as fault:  # noqa: BLE001 - what can be read must be readable
                guard.fault("measure", fault)

    def _collect_dropped(self) -> None:
        while self.dropped:
            try:
                item = self.dropped.popleft()
            except IndexError:
                return
            try:
                if isinstance(item, Call):
                    self._call_over(item)
                else:
                    item.finish_dropped()
            except Exception as fault:  # noqa: BLE001 - runs in the host's threads
                guard.fault("capture", fault)
                forget(self, item if isinstance(item, Call) else item.call)

    def _work(self) -> None:
        """Read and count what has ended by now, in order; what ends meanwhile is the next one's."""
        rows: list[Any] = []
        waiting, generation = self._waiting, self.generation
        self._weight = 0
        try:
            for _ in range(len(waiting)):
                try:
                    item = waiting.popleft()
                except IndexError:
                    break
                self._read(item, rows)
        finally:  # a signal's handler may have left by an exception, or have forked
            if rows and generation == self.generation:
                self.store.add(rows)

    def _read(self, item: Attempt | Call, rows: list[Any]) -> None:
        try:
            if isinstance(item, Call):
                self._count_call(item, rows)
            elif self.ready(item):
                self.conclusions.attempt(item, rows)
        except Exception as fault:  # noqa: BLE001 - one odd call must not lose the others
            if isinstance(item, Call):
                self._release(item)
            guard.fault("measure", fault)
        finally:
            if isinstance(item, Call):
                item.first = item.last = None  # no cycle: else the garbage collector would have to find them

    def _count_call(self, call: Call, rows: list[Any]) -> None:
        if call.common is not None:
            if self.prompt:
                rows.append((CALL_ACTIVE, call.common, -1.0))
            elif len(self._active) < self.store.max_series:
                self._active.add(call.common)
        self.conclusions.call(call, rows)

    def _count_active(self) -> None:
        """Calls begun and not ended, counted when somebody asks."""
        if self.prompt:
            return
        counts: dict[tuple[str, ...], int] = dict.fromkeys(self._active, 0)
        for call in list(self._open):
            common = call.common or self._name(call)
            if common is not None:
                counts[common] = counts.get(common, 0) + 1
        for common in counts:
            if len(self._active) < self.store.max_series:
                self._active.add(common)
        self.store.put(CALL_ACTIVE, counts)

    def _name(self, call: Call) -> tuple[str, ...] | None:
        """The common attributes of a call in flight. Its reader is not ours to set: the host's thread may be at it."""
        first = call.first
        if first is None:
            return None
        reader = first.reader or _extract.identify(first.candidates, first.request, self.providers)
        return (
            self.conclusions.name(call, reader.facts)
            if reader is not None and reader.facts.llm_call
            else None
        )

    # --- faults, fork ---------------------------------------------------------------------

    def count_fault(self, where: str) -> None:
        """Count a swallowed fault; called by the guard."""
        self.store.add(((INTERNAL_ERRORS, (where,), 1.0),))

    def after_fork_in_child(self) -> None:
        """Forget what belongs to the parent: its numbers and its calls in flight."""
        self.generation += 1
        self.dropped.clear()
        self._waiting.clear()
        self._open.clear()
        self._active.clear()
        self._turn = Turn()
        self.conclusions.after_fork_in_child()
        self.store.clear()
