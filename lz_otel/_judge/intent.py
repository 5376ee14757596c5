"""Mechanism ``intent`` (article 002): sampling moved into the model, asked for by intent.

All of it is **A**: stated in article 002 only; no vendor documents it.
"""

from __future__ import annotations

import os
import re
from typing import TYPE_CHECKING, Any

from lz_otel import catalogue as c
from lz_otel._extract.request import user_id
from lz_otel._ground.memory import BoundedMap, digest
from lz_otel._judge.answer_text import TextSink, text_sink
from lz_otel._judge.base import Mechanism, ok
from lz_otel._judge.request_body import fields

if TYPE_CHECKING:
    from lz_otel._judge.result import Result
    from lz_otel.model import EndedCall, Facts, Request

__all__ = ["NAME", "Intent", "unsupported_model"]

NAME = "intent"
BETA = "tools-2024-08-06"
FIRST_MODEL = "20240620"  # claude-3-5-sonnet-20240620
INTENTS = ("deterministic", "creative", "balanced")
MAX_REQUESTS = 10_000
MAX_SESSIONS = 10_000

# Families before claude-3-5, whatever their date; other names are told by their date alone.
_OLD = re.compile(r"claude-(?:instant|v?[12](?![0-9])|3-(?:opus|sonnet|haiku))")
_DATE = re.compile(r"(?<![0-9])(20[0-9]{6})(?![0-9])")


def unsupported_model(model: str | None) -> bool:
    """Whether a model's name says that it is older than claude-3-5-sonnet-20240620 (A)."""
    if not model or "claude" not in model:
        return False
    date = _DATE.search(model)
    return _OLD.search(model) is not None or (date is not None and date[1] < FIRST_MODEL)


class Intent(Mechanism):
    """Hit: response header ``x-anthropic-layer-zero: true``. Fallback: asked, a success, and no such header.

    The reason is the first that applies: ``wrong_header``, ``no_beta``, ``not_streaming``,
    ``unsupported_model``, ``silent``; ``temperature_rejected`` for the 400 that says so.

    Besides: calls per intent, outputs of repeated requests compared by digest, and changes of
    intent within a session. What it cannot know: whether ``logprobs`` are missing because of
    the sampling or because nobody asked; whether another process sent the same request before.

    Memory: digests of the last 10,000 requests with that of their answer, and of 10,000 sessions.
    """

    NAME = NAME
    BEGINS = True

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        name = self.signals.name
        self._asked, self._wrong = name(NAME, "asked"), name(NAME, "wrong_header")
        self._beta, self._hit = name(NAME, "beta"), name(NAME, "hit")
        self._served = name(NAME, "served_intent")
        self._salt = os.urandom(16)
        self._outputs: BoundedMap[int, bytes] = BoundedMap(MAX_REQUESTS)
        self._sessions: BoundedMap[int, str] = BoundedMap(MAX_SESSIONS)

    def begin(self, request: Request, facts: Facts) -> None:
        """The output's digest is needed for calls that state an intent."""
        if self._asked in request.headers or self._wrong in request.headers:
            text_sink(facts).want_digest()

    def judge(self, exchange: EndedCall) -> Result | None:
        """See the class."""
        facts, headers = exchange.facts, exchange.request.headers
        if not facts.inference or not facts.llm_call:
            return None
        asked = headers.get(self._asked)
        wrong = asked is None and self._wrong in headers
        stated = headers[self._wrong] if wrong else asked
        hit = exchange.response_headers.get(self._hit, "").strip().lower() == "true"
        if stated is None:
            if not hit or not ok(exchange) or self._replayed(exchange):
                return None
            intent = _closed(exchange.response_headers.get(self._served, ""))
            return self._result("hit", rows=((c.INTENT_CALLS, (intent,), 1.0),))
        intent = _closed(stated)
        rows: list[tuple[Any, tuple[str, ...], float]] = [(c.INTENT_CALLS, (intent,), 1.0)]
        changed = self._transition(exchange, intent)
        if changed is not None:
            rows.append((c.INTENT_TRANSITIONS, ("true" if changed else "false",), 1.0))
        if self._replayed(exchange):
            return self._result(None, rows=tuple(rows))
        repeated = self._repeat(exchange, intent)
        if repeated is not None:
            rows.append((c.INTENT_REPEATS, (intent, repeated), 1.0))
        if ok(exchange):
            reason = None if hit else self._reason(exchange, wrong)
            return self._result("hit" if hit else "fallback", reason, tuple(rows))
        if exchange.status == 400 and _temperature(facts.error_message):
            return self._result("fallback", "temperature_rejected", tuple(rows))
        return self._result(None, rows=tuple(rows))

    def _reason(self, exchange: EndedCall, wrong: bool) -> str:
        """Why a call was served the old way without a word: the first reason that applies."""
        if wrong:
            return "wrong_header"
        betas = exchange.request.headers.get(self._beta, "")
        if BETA not in [b.strip() for b in betas.split(",")]:
            return "no_beta"
        if not exchange.facts.stream:
            return "not_streaming"
        return "unsupported_model" if unsupported_model(exchange.facts.request_model) else "silent"

    def _repeat(self, exchange: EndedCall, intent: str) -> str | None:
        """The output against that of the same request before; ``None`` when there is none, or no output."""
        sink, request = exchange.facts.text_sink, exchange.request
        if exchange.ending != "ok" or not ok(exchange) or not request.body or not isinstance(sink, TextSink):
            return None
        output = sink.digest()
        if output is None:
            return None
        head = f"{intent}\0{exchange.facts.request_model}\0{request.path}\0".encode("utf-8", "surrogatepass")
        before = self._outputs.put(digest(head + request.body), output)
        if before is None:
            return None
        return "same" if before == output else "different"

    def _transition(self, exchange: EndedCall, intent: str) -> bool | None:
        """Whether the session's intent changed; ``None`` for its first call or without a session."""
        session = exchange.session
        if session is None:
            top = fields(exchange.facts)
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
