"""The mechanisms in force, asked in one order about each call.

In ``auto`` a mechanism wakes up when one of its markers is first seen; before that it says nothing
and has no series. All are made (and imported) at start-up: nothing is imported on the hot path.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

from lz_otel._ground.guard import guard
from lz_otel._judge import MECHANISMS
from lz_otel._judge.request_body import CountedTokens
from lz_otel.catalogue import MECHANISMS as ORDER

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from lz_otel._judge.result import Result
    from lz_otel._judge.signals import Signals
    from lz_otel._price.cost import Prices
    from lz_otel.model import EndedCall, Facts, Request

__all__ = ["Judges"]

_PROMPT_CACHE = "prompt_cache"


class Judges:
    """All mechanisms of this process.

    Args:
        signals: the table of wire markers in force.
        mechanisms: ``("auto",)`` or the names that are on.
        prices: for what a hit saved.
        miss_reasons: whether the prompt cache compares digests to tell why it was missed.

    Attributes:
        awake: names of the mechanisms that have something to say, in the catalogue's order; replaced
            by a new tuple when one wakes up, never changed.
        by_name: the mechanisms that are on, awake or not.
    """

    def __init__(
        self, signals: Signals, mechanisms: tuple[str, ...], prices: Prices, *, miss_reasons: bool = True
    ) -> None:
        self._signals = signals
        self._auto = mechanisms == ("auto",)
        self._prices = prices
        self._miss_reasons = miss_reasons
        self._environment = signals.awake_environment(os.environ)
        self._on = tuple(ORDER) if self._auto else mechanisms
        self.awake: tuple[str, ...] = ()
        self._make()

    def _make(self) -> None:
        self._counted = CountedTokens()
        self.by_name: dict[str, Any] = {}
        for name in ORDER:
            if name in self._on:
                self.by_name[name] = MECHANISMS[name](
                    self._signals, prices=self._prices, counted=self._counted, miss_reasons=self._miss_reasons
                )
        self._sleeping = frozenset(self.by_name) if self._auto else frozenset()
        self.awake = ()
        self._active: tuple[Any, ...] = ()
        self._beginners: tuple[Any, ...] = ()
        self._prompt_cache = self.by_name.get(_PROMPT_CACHE)
        self._wake(self._environment if self._auto else self.by_name)

    def _wake(self, names: Iterable[str]) -> None:
        woken = set(self.awake) | (set(names) & set(self.by_name))
        active = [self.by_name[n] for n in ORDER if n in woken and n != _PROMPT_CACHE]
        if self._prompt_cache is not None:
            active.append(
                self._prompt_cache
            )  # no marker could wake it: it is asked always, and after all others
        self._active = tuple(active)
        self._beginners = tuple(m for m in self._active if m.BEGINS)
        self.awake = tuple(n for n in ORDER if n in woken)
        if (
            self._auto
        ):  # last, and from all: what another thread woke at the same time wakes again at its next marker
            self._sleeping = frozenset(self.by_name) - woken

    def begin(self, request: Request, facts: Facts, headers: Mapping[str, str]) -> None:
        """The response's head has arrived: let mechanisms ask for what they need of the body."""
        if self._sleeping:
            found = self._signals.awake(request, headers, facts)
            if found and not self._sleeping.isdisjoint(found):
                self._wake(found)
        for mechanism in self._beginners:
            mechanism.begin(request, facts)

    def judge(self, exchange: EndedCall) -> list[Result]:
        """What the mechanisms say about an ended call."""
        facts = exchange.facts
        if self._sleeping and facts.layer_zero:
            found = self._signals.awake(exchange.request, exchange.response_headers, facts)
            if not self._sleeping.isdisjoint(found):
                self._wake(found)
        results: list[Result] = []
        for mechanism in self._active:
            if mechanism is self._prompt_cache and results and any(map(_answered_by_cache, results)):
                continue
            try:
                result = mechanism.judge(exchange)
            except Exception as fault:  # noqa: BLE001 - one mechanism must not silence the others
                guard.fault("judge", fault)
                continue
            if result is not None:
                results.append(result)
                if mechanism.NAME not in self.awake:
                    self._wake((mechanism.NAME,))
        return results

    def counted(self, exchange: EndedCall) -> None:
        """An exchange that counted tokens: no call, but the mechanisms may remember its answer."""
        self._counted.remember(exchange)

    def after_fork_in_child(self) -> None:
        """Start without the parent's memory."""
        self._make()


def _answered_by_cache(result: Result) -> bool:
    verdict = result.verdict
    return verdict is not None and verdict.mechanism == "response_cache" and verdict.decision == "hit"
