"""The mechanisms in force, asked in one order about each call.

In ``auto`` a mechanism wakes up when one of its markers is first seen; before that it says nothing
and has no series. All are made (and imported) at start-up: nothing is imported on the hot path.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from lz_otel._ground.guard import guard
from lz_otel._judge import judge_class
from lz_otel._judge.base import Judge
from lz_otel._judge.request_body import CountedTokens
from lz_otel._judge.result import Result
from lz_otel.mechanisms import NAMES, REPLAYS, of_effect

if TYPE_CHECKING:
    from collections.abc import Iterable

    from lz_otel._ground.headers import Headers
    from lz_otel._judge.signals import Signals
    from lz_otel._price.cost import Prices
    from lz_otel.model import EndedCall, Facts, Request


class MechanismsInForce:
    """All mechanisms of this process.

    Those that replay stored answers are asked first: where one of them says hit, no other has a verdict, and
    where it is switched off it silences the others all the same. Those that no marker could wake are asked
    always, and last.

    Args:
        mechanisms: ``("auto",)`` or the names that are on.
        miss_reasons: whether the prompt cache compares digests to tell why it was missed.

    Attributes:
        awake: names of the mechanisms that have something to say, in the table's order; replaced
            by a new tuple when one wakes up, never changed.
        by_name: judges of the mechanisms that are on, awake or not.
    """

    def __init__(
        self, signals: Signals, mechanisms: tuple[str, ...], prices: Prices, *, miss_reasons: bool = True
    ) -> None:
        self._signals = signals
        self._auto = mechanisms == ("auto",)
        self._prices = prices
        self._miss_reasons = miss_reasons
        self._environment = signals.awake_environment(os.environ)
        self._on = NAMES if self._auto else mechanisms
        self._make()

    def _make(self) -> None:
        self._counted = CountedTokens()
        judges = [
            judge_class(name)(
                self._signals, prices=self._prices, counted=self._counted, miss_reasons=self._miss_reasons
            )
            for name in NAMES
            if name in self._on or name in of_effect(REPLAYS)
        ]
        self.by_name = {judge.NAME: judge for judge in judges if judge.NAME in self._on}
        self._in_order = sorted(judges, key=self._place)
        self._sleeping = frozenset(self.by_name) if self._auto else frozenset()
        self.awake: tuple[str, ...] = ()
        self._wake(self._environment if self._auto else self.by_name)

    def _place(self, judge: Judge) -> tuple[bool, bool, bool]:
        return not judge.replays, judge.NAME not in self._on, judge.ASKED_ALWAYS

    def _wake(self, names: Iterable[str]) -> None:
        woken = set(self.awake) | (set(names) & set(self.by_name))
        self._active = tuple(
            judge
            for judge in self._in_order
            if judge.NAME in woken or judge.ASKED_ALWAYS or judge.NAME not in self._on
        )
        self._beginners = tuple(judge for judge in self._active if type(judge).begin is not Judge.begin)
        self.awake = tuple(name for name in NAMES if name in woken)
        if self._auto:
            # Last, and from all: what another thread woke at the same time wakes again at its next marker
            self._sleeping = frozenset(self.by_name) - woken

    def begin(self, request: Request, facts: Facts, headers: Headers) -> None:
        """Let mechanisms ask for what they need of the body: the response's head has arrived."""
        if self._sleeping:
            found = self._signals.awake(request, headers, facts)
            if found and not self._sleeping.isdisjoint(found):
                self._wake(found)
        for judge in self._beginners:
            judge.begin(request, facts)

    def judge(self, call: EndedCall) -> list[Result]:
        """Return what the mechanisms conclude about an ended call."""
        facts = call.facts
        if self._sleeping and facts.layer_zero:
            found = self._signals.awake(call.request, call.response_headers, facts)
            if not self._sleeping.isdisjoint(found):
                self._wake(found)
        results: list[Result] = []
        for judge in self._active:
            if call.stored and not judge.COUNTS_STORED:
                continue
            try:
                result = judge.judge(call)
            except Exception as fault:  # noqa: BLE001 - one that fails must not silence the others
                guard.fault("judge", fault)
                continue
            if result is None:
                continue
            name = judge.NAME
            if judge.replays and result.is_hit:
                call.stored, results = True, []
            elif call.stored:
                result = Result(None, result.measurements)
            if name in self.by_name and (result.verdict is not None or result.measurements):
                results.append(result)
                if name not in self.awake:
                    self._wake((name,))
        return results

    def counted(self, call: EndedCall) -> None:
        """Remember the answer of a request that counted tokens, which is no call to be judged."""
        self._counted.remember(call)

    def after_fork_in_child(self) -> None:
        """Start without the parent's memory."""
        self._make()
