"""What an attempt came to: the rest of its body is read, then its ending, error type and status are told."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from lz_otel._extract.reading import Reading
from lz_otel._ground.guard import guard
from lz_otel.catalogue import STATUSES
from lz_otel.model import Ending

if TYPE_CHECKING:
    from lz_otel._capture.attempt import Attempt
    from lz_otel.model import Facts

# Codes that mean "the money is gone": waiting and retrying does not help (Anthropic, OpenAI; D).
SPEND_LIMIT_CODES = frozenset(
    [
    "enforced_spend_limit_reached", "contract_spend_limit_reached", "ramp_limit_exceeded",
    "credit_balance_exhausted", "organization_spend_limit_exceeded", "project_spend_limit_exceeded",
    "organization_usage_limit_exceeded", "insufficient_quota", "billing_hard_limit_reached",
]
)  # fmt: skip
# Parts of an error type to values of the catalogue's list of reasons, the first that fits.
_REASONS = (
    ("overloaded", "overloaded"), ("529", "overloaded"), ("rate_limit", "rate_limited"),
    ("ratelimit", "rate_limited"), ("429", "rate_limited"), ("timeout", "timeout"),
    ("connect", "connection"), ("protocolerror", "connection"), ("readerror", "connection"),
    ("writeerror", "connection"), ("ssl", "connection"),
    ("server_error", "server_error"), ("api_error", "server_error"),
    ("unavailable", "server_error"), ("not_found", "client_error"), ("invalid", "client_error"),
    ("permission", "client_error"), ("authentication", "client_error"),
)  # fmt: skip
_STATUS = {int(status): status for status in STATUSES if status.isdigit()}


# Reasons of an end that say that the model or its provider failed (OpenRouter, Mistral, watsonx, Cohere; D)
_FAILED = frozenset({"error", "ERROR", "ERROR_TOXIC", "ERROR_LIMIT"})
_ENCODED = frozenset({"content-encoding"})


class Outcome(NamedTuple):
    """What an attempt came to.

    Attributes:
        ending: one of `Ending`.
        error_type: the provider's error type, or the class of the exception; empty on success.
        status: value of the catalogue's closed list of attempts.
        encoding_failed: the body came in an encoding that could not be undone.
    """

    ending: str
    error_type: str
    status: str
    encoding_failed: bool


def outcome_of(attempt: Attempt) -> Outcome:
    """Read what was kept of the body of an attempt that has ended, and return what the attempt came to."""
    try:
        _read_rest(attempt)
    except Exception as fault:  # noqa: BLE001 - a fault of ours must not lose the call
        guard.fault("extract", fault)
    attempt.pieces = []
    reading, status, facts = attempt.body, attempt.status, attempt.reader.facts
    encoding_failed = isinstance(reading, Reading) and reading.encoding_failed
    label = "other_error" if status is None else _label(status)
    ending, error_type = Ending.OK, ""
    if attempt.failure is not None:
        error_type, label = attempt.failure
        ending = Ending.ERROR if error_type else Ending.CANCELLED
    elif status is not None and status >= 300:  # a redirect that nobody follows is no answer either
        ending, error_type = Ending.ERROR, _provider_error(facts) or str(status)
    elif isinstance(reading, Reading) and reading.undecodable:
        ending, error_type, label = Ending.ERROR, "DecodingError", "decode_error"
    elif (
        facts.error_type
        or facts.error_code
        or facts.error_message
        or not _FAILED.isdisjoint(facts.finish_reasons)
    ):
        ending, error_type = Ending.ERROR, _provider_error(facts) or _failed_by(facts)
    elif attempt.how == "closed" and not (facts.terminal or _settled(facts) or attempt.fully_read()):
        ending = Ending.ABANDONED
    elif (
        facts.stream and not (facts.terminal or attempt.how == "closed" or encoding_failed) and facts.llm_call
    ):
        ending = Ending.INCOMPLETE
    return Outcome(ending, error_type, label, encoding_failed)


def _settled(facts: Facts) -> bool:
    """Return whether the model has ended and its tokens are stated: who leaves then has the whole answer."""
    return bool(facts.finish_reasons) and facts.output_final


def _read_rest(attempt: Attempt) -> None:
    reader, status, headers, pieces = attempt.reader, attempt.status, attempt.headers, attempt.pieces
    complete = attempt.how == "eof" or (attempt.how == "closed" and attempt.fully_read())
    if attempt.body is None and status is not None:
        body = pieces[0] if len(pieces) == 1 else b"".join(pieces)
        if headers.lacks[_ENCODED] and reader.answer(status, headers, body, complete):
            return
        reading = attempt.body = Reading(reader, status, headers)
        reading.pieces(pieces, attempt.last_byte_at or 0.0)
    if complete and isinstance(attempt.body, Reading):
        attempt.body.ended()
    reader.finish(complete)


def _failed_by(facts: Facts) -> str:
    """Return the reason of an end that is an error, where the provider names no type."""
    return next((reason for reason in facts.finish_reasons if reason in _FAILED), "_OTHER")


def _label(status: int) -> str:
    """Return an HTTP status as a value of the closed list: statuses outside of it fall into their class."""
    label = _STATUS.get(status)
    return label or (f"{status // 100}xx" if 100 <= status <= 599 else "5xx")


def _provider_error(facts: Facts) -> str:
    if facts.error_code in SPEND_LIMIT_CODES:
        return facts.error_code or ""
    return facts.error_type or facts.error_code or ""


def failure_reason(error_type: str) -> str:
    """Return why a model failed, as a value of the catalogue's closed list of model fallbacks."""
    if error_type in SPEND_LIMIT_CODES:
        return "spend_limit"
    lowered = error_type.lower()
    for word, reason in _REASONS:
        if word in lowered:
            return reason
    if lowered.isdecimal():
        return "server_error" if lowered >= "500" else "client_error"
    return "other"
