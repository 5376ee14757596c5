"""Mechanism ``intent`` (article 002): sampling moved into the model, asked for by intent.

All of it is **A**: stated in article 002 only; no vendor documents it.
"""

from __future__ import annotations

import os
import re
from typing import TYPE_CHECKING

from lz_otel import catalogue as c
from lz_otel._extract.request import user_id
from lz_otel._ground.memory import BoundedMap, digest
from lz_otel._judge.answer_text import AnswerText, answer_text
from lz_otel._judge.base import Judge, succeeded
from lz_otel._judge.request_body import request_fields

if TYPE_CHECKING:
    from lz_otel._judge.result import MetricRow, Result
    from lz_otel.model import EndedCall, Facts, Request

BETA = "tools-2024-08-06"
FIRST_MODEL = "20240620"  # claude-3-5-sonnet-20240620
INTENTS = ("deterministic", "creative", "balanced")
MAX_REQUESTS = 10_000
MAX_SESSIONS = 10_000

# Families before claude-3-5, whatever their date; other names are told by their date alone.
_OLD = re.compile(r"claude-(?:instant|v?[12](?![0-9])|3-(?:opus|sonnet|haiku))")
_DATE = re.compile(r"(?<![0-9])(20[0-9]{6})(?![0-9])")


def unsupported_model(model: str | None) -> bool:
    """Return whether a model's name says that it is older than claude-3-5-sonnet-20240620 (A)."""
    if not model or "claude" not in model:
        return False
    date = _DATE.search(model)
    return _OLD.search(model) is not None or (date is not None and date[1] < FIRST_MODEL)


class IntentJudge(Judge):
    """Hit: response header ``x-anthropic-layer-zero: true``. Fallback: asked, a success, and no such header.

    The reason is the first that applies: ``wrong_header``, ``no_beta``, ``not_streaming``,
    ``unsupported_model``, ``silent``; ``temperature_rejected`` for the 400 that says so.

    Besides: calls per intent, outputs of repeated requests compared by digest, and changes of
    intent within a session. What it cannot know: whether ``logprobs`` are missing because of
    the sampling or were not asked for; whether another process sent the same request before.

    Memory: digests of the last 10,000 requests with that of their answer, and of 10,000 sessions.
    """

    NAME = "intent"
    COUNTS_STORED = True

    def prepare(self) -> None:
        """Make the memory, as the class says."""
        self._salt = os.urandom(16)
        self._outputs: BoundedMap[int, bytes] = BoundedMap(MAX_REQUESTS)
        self._sessions: BoundedMap[int, str] = BoundedMap(MAX_SESSIONS)

    def begin(self, request: Request, facts: Facts) -> None:
        """Digest the output of calls that state an intent."""
        if self.markers["asked"] in request.headers or self.markers["wrong_header"] in request.headers:
            answer_text(facts).want_digest()

    def judge(self, call: EndedCall) -> Result | None:
        """Conclude as the class says."""
        facts, headers = call.facts, call.request.headers
        if not facts.inference or not facts.llm_call:
            return None
        asked = headers.get(self.markers["asked"])
        wrong = asked is None and self.markers["wrong_header"] in headers
        stated = headers[self.markers["wrong_header"]] if wrong else asked
        hit = call.response_headers.get(self.markers["hit"], "").strip().lower() == "true"
        if stated is None:
            if not hit or call.stored or not succeeded(call):
                return None
            intent = _closed(call.response_headers.get(self.markers["served_intent"], ""))
            return self._result("hit", rows=((c.INTENT_CALLS, (intent,), 1.0),))
        intent = _closed(stated)
        rows: list[MetricRow] = [(c.INTENT_CALLS, (intent,), 1.0)]
        changed = self._transition(call, intent)
        if changed is not None:
            rows.append((c.INTENT_TRANSITIONS, ("true" if changed else "false",), 1.0))
        if call.stored:  # what was asked for counts, whatever answered
            return self._result(None, rows=rows)
        repeated = self._repeat(call, intent)
        if repeated is not None:
            rows.append((c.INTENT_REPEATS, (intent, repeated), 1.0))
        if succeeded(call):
            reason = None if hit else self._reason(call, wrong)
            return self._result("hit" if hit else "fallback", reason, rows)
        if call.status == 400 and _temperature(facts.error_message):
            return self._result("fallback", "temperature_rejected", rows)
        return self._result(None, rows=rows)

    def _reason(self, call: EndedCall, wrong: bool) -> str:
        """Return why a call was served the old way: the first reason that applies."""
        if wrong:
            return "wrong_header"
        betas = call.request.headers.get(self.markers["beta"], "")
        if BETA not in [b.strip() for b in betas.split(",")]:
            return "no_beta"
        if not call.facts.stream:
            return "not_streaming"
        return "unsupported_model" if unsupported_model(call.facts.request_model) else "silent"

    def _repeat(self, call: EndedCall, intent: str) -> str | None:
        """Compare the output with that of the same request before; ``None`` where either is missing."""
        sink, request = call.facts.text_sink, call.request
        if call.ending != "ok" or not succeeded(call) or not request.body or not isinstance(sink, AnswerText):
            return None
        output = sink.digest()
        if output is None:
            return None
        head = f"{intent}\0{call.facts.request_model}\0{request.path}\0".encode("utf-8", "surrogatepass")
        before = self._outputs.put(digest(head + request.body), output)
        return None if before is None else "same" if before == output else "different"

    def _transition(self, call: EndedCall, intent: str) -> bool | None:
        """Return whether the session's intent changed; ``None`` for its first call or without a session."""
        session = call.session
        if session is None:
            top = request_fields(call.facts)
            session = user_id(top) if top is not None else None
            if not session:
                return None
        before = self._sessions.put(digest(self._salt + session.encode("utf-8", "surrogatepass")), intent)
        return None if before is None else before != intent


def _closed(intent: str) -> str:
    intent = intent.strip().lower()
    return intent if intent in INTENTS else "other"


def _temperature(message: str | None) -> bool:
    text = (message or "").lower()
    return "temperature" in text and "deprecated" in text and "zero-layer" in text
