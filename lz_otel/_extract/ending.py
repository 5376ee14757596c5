"""What an attempt came to: its ending, its error type and its status, from the notes and what was read."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

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
    ("overloaded", "overloaded"),
    ("529", "overloaded"),
    ("rate_limit", "rate_limited"),
    ("ratelimit", "rate_limited"),
    ("429", "rate_limited"),
    ("timeout", "timeout"),
    ("connect", "connection"),
    ("protocolerror", "connection"),
    ("readerror", "connection"),
    ("writeerror", "connection"),
    ("server_error", "server_error"),
    ("api_error", "server_error"),
    ("unavailable", "server_error"),
    ("not_found", "client_error"),
    ("invalid", "client_error"),
    ("permission", "client_error"),
    ("authentication", "client_error"),
)
_STATUS = {int(status): status for status in STATUSES if status.isdigit()}


class Outcome(NamedTuple):
    """What an attempt came to.

    Attributes:
        ending: one of `Ending`.
        error_type: the provider's error type, or the class of the exception; empty on success.
        status: value of the catalogue's closed list of attempts.
    """

    ending: str
    error_type: str
    status: str


def outcome_of(attempt: Attempt, facts: Facts, *, encoding_failed: bool) -> Outcome:
    """Return what an attempt came to, once its body has been read."""
    status = attempt.status
    if attempt.failure is not None:
        name, transport = attempt.failure
        return Outcome(Ending.ERROR if name else Ending.CANCELLED, name, transport)
    label = "other_error" if status is None else _label(status)
    if status is not None and status >= 400:
        return Outcome(Ending.ERROR, _provider_error(facts) or str(status), label)
    if facts.error_type or facts.error_code:
        return Outcome(Ending.ERROR, _provider_error(facts) or "_OTHER", label)
    if attempt.how == "closed" and not (facts.terminal or attempt.fully_read()):
        return Outcome(Ending.ABANDONED, "", label)
    if facts.stream and not facts.terminal and not encoding_failed and facts.llm_call:
        return Outcome(Ending.INCOMPLETE, "", label)
    return Outcome(Ending.OK, "", label)


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
