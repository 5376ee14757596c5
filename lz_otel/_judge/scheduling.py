"""Mechanism ``scheduling`` (article 004): a scheduler in front of the model that shares work between calls.

How it is asked for is **A** (stated in article 004 only); the header that says which layer served
is **C** (`signals`). Sharing between similar requests may leak between them, so two things are
watched besides: calls that resemble a recent one, and answers that name something of another request.
"""

from __future__ import annotations

from collections import deque
from time import monotonic, perf_counter
from typing import TYPE_CHECKING

import msgspec

from lz_otel import catalogue as c
from lz_otel._ground.memory import BoundedSet
from lz_otel._ground.unreadable import UNREADABLE
from lz_otel._judge.answer_text import AnswerText, answer_text
from lz_otel._judge.base import Judge, succeeded
from lz_otel._judge.entities import entities
from lz_otel._judge.request_body import MAX_TEXT, prompt_text, request_fields
from lz_otel._judge.simhash import Shape, resembles, shape

if TYPE_CHECKING:
    from collections.abc import Callable

    from lz_otel._judge.result import MetricRow, Result
    from lz_otel.model import EndedCall, Facts, Request

SIMILARITY = 0.92  # (A)
RECENT = 100  # prompts (A)
MAX_ENTITIES = 10_000
_BLOCKS = ("anchor_blocks", "drift_blocks", "transient_blocks")


class Budget:
    """Time that may be spent on looking at texts: a share of wall time, saved up to a limit.

    Args:
        share: of one core, on the average.
        limit: seconds saved up, and there at the start: that long a burst is looked at in full.
    """

    def __init__(
        self, share: float = 0.05, limit: float = 2.0, clock: Callable[[], float] = monotonic
    ) -> None:
        self._share, self._limit, self._clock = share, limit, clock
        self._saved, self._at = limit, clock()

    def left(self) -> bool:
        """Return whether there is time for one more."""
        now = self._clock()
        self._saved = min(self._limit, self._saved + (now - self._at) * self._share)
        self._at = now
        return self._saved > 0

    def spend(self, seconds: float) -> None:
        """Take off what one look has cost."""
        self._saved -= seconds


class SchedulingJudge(Judge):
    """Hit: ``x-anthropic-layer-served: zero``. Fallback: asked for, and ``served_standard`` or, without
    that header, ``not_served``. Miss: the header says ``standard``, not asked for. Bypass: hint ``legacy``.

    Similarity is the cosine of word counts (C; the article names the number, not the measure); entities are
    e-mail addresses, phone, order and account numbers, UUIDs, IBANs in the first 64 Ki characters. Both take
    at most 5 % of one core (`Budget`): at a rate above that, the counts are those of a sample, a lower bound.

    What it cannot know: whether two prompts shared work; names, addresses and other entities without a
    pattern; requests of other processes, and those still running. Where a prompt is longer than is looked at,
    its answer is not searched for entities.

    Memory: for 100 prompts a digest of 8 bytes per word, of at most 1,024 words each (0.8 MB); 10,000
    digests of entities (1.9 MB).
    """

    NAME = "scheduling"
    COUNTS_STORED = True

    def prepare(self) -> None:
        """Make the memory, as the class says."""
        self.budget = Budget()
        self._recent: deque[Shape] = deque(maxlen=RECENT)
        self._similar_at: deque[float] = deque(maxlen=64)
        self._entities: BoundedSet[int] = BoundedSet(MAX_ENTITIES)

    def begin(self, request: Request, facts: Facts) -> None:
        """Keep the answer's text, to be searched for entities."""
        if facts.inference and self._concerns(request):
            answer_text(facts).want_text(MAX_TEXT)

    def _concerns(self, request: Request) -> bool:
        return self.markers["hint"] in request.headers or self.markers["cache_policy"] in request.headers

    def judge(self, call: EndedCall) -> Result | None:
        """Conclude as the class says. ``saved_usd``: 28 %, 62.5 % or 68 % of the price (A)."""
        facts, request = call.facts, call.request
        if not facts.inference or not facts.llm_call:
            return None
        hint = request.headers.get(self.markers["hint"], "").split(";", 1)[0].strip().lower()
        served = call.response_headers.get(self.markers["served"], "").strip().lower()
        rows: list[MetricRow] = []
        if not self._policy_is_good(request):
            facts.malformed.append("header")
        if hint != "legacy" and (self._concerns(request) or served) and self.budget.left():
            started = perf_counter()
            self._look(call, rows)
            self.budget.spend(perf_counter() - started)
        if call.stored or not succeeded(call):
            return self._result(None, rows=rows)
        if served == "zero":
            return self._result("hit", None, rows, self._saved(call))
        if hint == "legacy":
            return self._result("bypass", rows=rows)
        if hint == "zero-latency":
            reason = "served_standard" if served == "standard" else "not_served"
            return self._result("fallback", reason, rows)
        return self._result("miss" if served == "standard" else None, rows=rows)

    def _policy_is_good(self, request: Request) -> bool:
        text = request.headers.get(self.markers["cache_policy"])
        if text is None:
            return True
        try:
            policy = msgspec.json.decode(text)
        except UNREADABLE:
            return False
        lists = [policy.get(key, []) for key in _BLOCKS] if isinstance(policy, dict) else [None]
        return all(isinstance(ids, list) and all(isinstance(b, str) for b in ids) for ids in lists)

    def _look(self, call: EndedCall, rows: list[MetricRow]) -> None:
        """Compare the prompt with recent ones, and the answer's entities with those of other requests."""
        facts = call.facts
        top = request_fields(facts)
        if top is None:
            return
        text, cut = prompt_text(top)
        words = shape(text)
        if words is not None:
            if resembles(words, tuple(self._recent), SIMILARITY):
                rows.append((c.SIMILAR_CALLS, (), 1.0))
                self._similar_at.append(call.ended_at)
            self._recent.append(words)
        named = {e.digest for e in entities(text)}
        sink = facts.text_sink
        if not (cut or call.stored) and isinstance(sink, AnswerText) and len(self._entities):
            ghosts = self._ghosts(sink.text(), named, call.request.body or b"")
            if ghosts:
                rows.append((c.GHOST_ENTITIES, (), float(ghosts)))
        for entity in named:
            self._entities.add(entity)

    def _ghosts(self, answer: str, named: set[int], body: bytes) -> int:
        """Count the entities that another request named and this one did not, in any spelling."""
        others = (e for e in entities(answer) if e.digest not in named and e.digest in self._entities)
        return sum(1 for e in others if e.text.encode() not in body)

    def _similar_rate(self) -> float:
        """Return the similar calls per second, over the last 64 of them."""
        times = tuple(self._similar_at)
        if len(times) < 2:
            return 0.0
        return (len(times) - 1) / max(times[-1] - times[0], 1e-3)

    def _saved(self, call: EndedCall) -> float | None:
        if self.prices is None:
            return None
        price = self.prices.scheduling_price(call.facts, self.now(), self._similar_rate(), call.request)
        return None if price is None else price.saved_usd
