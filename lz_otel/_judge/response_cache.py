"""Mechanism ``response_cache`` (**D**): a gateway answered from its own store, no model ran."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lz_otel import catalogue as c
from lz_otel._ground.memory import BoundedSet
from lz_otel._judge.base import Judge, succeeded
from lz_otel._judge.gateways import cache_reading, gateway_detours

if TYPE_CHECKING:
    from lz_otel._judge.result import Result
    from lz_otel.model import EndedCall

MAX_HOSTS = 256


class ResponseCacheJudge(Judge):
    """Hit, miss and bypass as the gateway's header says them; fallback where it fell back or retried.

    What it cannot know: a miss that the gateway does not state (LiteLLM states hits only), and
    whether ``X-Cache: MISS`` was a miss or a pass: it is a miss only for hosts that have hit before.
    Fallbacks and retries inside gateways that state neither stay unseen.

    Memory: the names of the last 256 hosts whose ``X-Cache`` has hit.
    """

    NAME = "response_cache"

    def prepare(self) -> None:
        """Make the memory, as the class says."""
        self._hosts: BoundedSet[str] = BoundedSet(MAX_HOSTS)

    def judge(self, call: EndedCall) -> Result | None:
        """Conclude as the class says. ``saved_usd``: what the stored answer's usage would have cost."""
        facts = call.facts
        if not facts.llm_call:
            return None
        decision, x_cache = None, False
        if succeeded(call):
            reading = cache_reading(call.response_headers, self.signals.response_cache_header)
            decision, x_cache = reading or (None, False)
        if x_cache:
            if decision == "hit":
                self._hosts.add(call.request.host)
            elif call.request.host not in self._hosts:
                decision = None
        if decision == "hit":
            # The detours in a stored answer's headers are those of the call that was stored.
            return self._result("hit", saved=self._saved(call))
        detours = gateway_detours(call.response_headers, facts.malformed)
        if not detours:
            return self._result(decision)
        more = tuple((c.FAST_PATH_FALLBACKS, (self.NAME, reason), 1.0) for reason in detours[1:])
        return self._result("fallback", detours[0], more)

    def _saved(self, call: EndedCall) -> float | None:
        if self.prices is None:
            return None
        price = self.prices.response_cache_price(call.facts, self.now(), call.request)
        return None if price is None else price.saved_usd
