"""Mechanism ``symbolic`` (article 000): answers of a symbolic engine in front of the model.

All of it is **A**: stated in article 000 only; no vendor documents it.

The response header decides. That an answer states 0 output tokens, or that its input tokens
agree with the client's own count, is counted as evidence and never makes a hit. Fallbacks
(output failed validation, hedge lost, time limit) are the application's and come from its operation.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from lz_otel import catalogue as c
from lz_otel._ground.memory import BoundedSet, digest
from lz_otel._ground.once import Once
from lz_otel._judge.base import Judge, is_claude, succeeded
from lz_otel._judge.request_body import header_number, request_fields
from lz_otel._judge.result import Result
from lz_otel.model import Verdict

if TYPE_CHECKING:
    from lz_otel.model import EndedCall

_LOG = logging.getLogger("lz_otel")
INPUT_TOLERANCE = 3  # tokens (A)
MAX_FINGERPRINTS = 10_000


class SymbolicJudge(Judge):
    """Hit: ``x-anthropic-layer: zero`` on a success. Miss: any other success of a Claude call.

    What it cannot know: whether another process has paid for the cold start of a fingerprint;
    which of the four conditions a miss failed (`lz_otel.explain` estimates that, off the hot path).

    Memory: digests of the last 10,000 requests that hit.
    """

    NAME = "symbolic"

    def prepare(self) -> None:
        """Make the memory, as the class says."""
        self._hits: BoundedSet[int] = BoundedSet(MAX_FINGERPRINTS)
        self._unlogged = Once()

    def judge(self, call: EndedCall) -> Result | None:
        """Conclude as the class says. ``saved_usd``: input at 1/5 of its price, output free (A)."""
        facts = call.facts
        if not facts.inference or not facts.llm_call or not succeeded(call):
            return None
        headers = call.response_headers
        hit = headers.get(self.markers["layer"], "").strip().lower() == "zero"
        if not hit and not is_claude(facts):
            return None
        rows = [(c.SYMBOLIC_EVIDENCE, (signal,), 1.0) for signal in self._evidence(call, hit)]
        if not hit:
            return self._result("miss", rows=rows)
        engine = header_number(headers, self.markers["engine_ms"], facts.malformed)
        price = None if self.prices is None else self.prices.symbolic_price(facts, self.now(), call.request)
        verdict = Verdict(self.NAME, "hit", None, None if engine is None else engine / 1000, self._cold(call))
        return Result(verdict, tuple(rows), None if price is None else price.saved_usd)

    def _evidence(self, call: EndedCall, hit: bool) -> list[str]:
        facts = call.facts
        evidence = ["header"] if hit else []
        if facts.usage_seen and facts.output_tokens and hit:
            evidence.append("contradiction")
            self._log_once()
        # A cache pre-warm (max_tokens 0) answers without any content.
        if not facts.usage_seen or facts.output_tokens != 0 or not facts.has_content:
            return evidence
        top = request_fields(facts)
        if top is not None and top.max_tokens == 0:
            return evidence
        evidence.append("zero_output")
        counted = self.counted.of(top) if top is not None and self.counted is not None else None
        stated = facts.input_tokens
        if counted is not None and stated is not None and abs(counted - stated) <= INPUT_TOLERANCE:
            evidence.append("input_match")
        return evidence

    def _log_once(self) -> None:
        if next(self._unlogged, False):
            _LOG.warning(
                "lz_otel: a response with %s: zero bills output tokens, which contradicts article 000; "
                "counted in lz.symbolic.evidence (logged once)",
                self.markers["layer"],
            )

    def _cold(self, call: EndedCall) -> bool:
        request = call.request
        if request.body is None:
            return False
        return not self._hits.add(digest(request.path.encode() + b"\0" + request.body))
