"""Rate-limit headers of all vendors, in one shape.

Anthropic: ``anthropic-ratelimit-*``, ``anthropic-priority-*``, ``anthropic-fast-*``; the reset is
an RFC 3339 time (D). OpenAI and its look-alikes: ``x-ratelimit-*``; the reset is a Go duration
(D), at Azure an integer of seconds (D). −1 means unknown (D for Azure's Responses API).
``retry-after`` is an order to wait, no limit.
"""

from __future__ import annotations

import re
from datetime import datetime
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Mapping

MAX_COUNT = 1 << 53
MAX_RESET = 366 * 86_400.0
"""Longest reset that is believed, seconds (C)."""


class Limit(NamedTuple):
    """One limit as last said; a field that was not said is ``None``.

    Attributes:
        resource: what is limited, a value of the catalogue's ``resource``.
        limit: the limit per window.
        remaining: what is left of it.
        reset_seconds: seconds until it is refilled.
    """

    resource: str
    limit: int | None
    remaining: int | None
    reset_seconds: float | None


_ANTHROPIC = {
    "anthropic-ratelimit-requests-": "requests", "anthropic-ratelimit-tokens-": "tokens",
    "anthropic-ratelimit-input-tokens-": "input_tokens",
    "anthropic-ratelimit-output-tokens-": "output_tokens",
    "anthropic-priority-input-tokens-": "priority_input_tokens",
    "anthropic-priority-output-tokens-": "priority_output_tokens",
    "anthropic-fast-input-tokens-": "fast_input_tokens",
    "anthropic-fast-output-tokens-": "fast_output_tokens",
}  # fmt: skip
_OPENAI = {
    "requests": "requests", "tokens": "tokens", "project-tokens": "project_tokens",
    "input-tokens": "input_tokens", "output-tokens": "output_tokens",
}  # fmt: skip
_PARTS = ("limit", "remaining", "reset")

# Header name -> (resource, which of the three).
_HEADERS: dict[str, tuple[str, int]] = {}
for _index, _part in enumerate(_PARTS):
    _HEADERS |= {prefix + _part: (resource, _index) for prefix, resource in _ANTHROPIC.items()}
    _HEADERS |= {f"x-ratelimit-{_part}-{suffix}": (name, _index) for suffix, name in _OPENAI.items()}

MARKERS = frozenset(_HEADERS)
"""The header names that are read; a response without any of them states no limit."""

# Who has the limit, the finer name first: headers of answers and requests (D); and of requests the key
_ACCOUNTS = ("openai-project", "openai-organization", "anthropic-organization-id")
_KEYS = ("authorization", "x-api-key", "api-key", "x-goog-api-key")


def whose(request: Mapping[str, str], response: Mapping[str, str]) -> tuple[str, int]:
    """Return the project or organisation that headers name (else empty), and a number for the key.

    The number means nothing outside of this process. A person's own organisation (``user-…``) is not named.
    """
    found = (headers.get(name) for name in _ACCOUNTS for headers in (response, request))
    account = next((name for name in found if name), "")
    return "" if account.startswith("user-") else account, hash(tuple(request.get(name) for name in _KEYS))


_DURATION = re.compile(r"(?:\d{1,9}(?:\.\d{1,9})?(?:h|ms|m|s|us|µs|ns))+").fullmatch
_STEP = re.compile(r"(\d{1,9}(?:\.\d{1,9})?)(h|ms|m|s|us|µs|ns)").findall
_UNITS = {"h": 3600.0, "m": 60.0, "s": 1.0, "ms": 1e-3, "us": 1e-6, "µs": 1e-6, "ns": 1e-9}
_NUMBER = re.compile(r"\d{1,15}(?:\.\d{1,9})?").fullmatch


def read(headers: Mapping[str, str], now_epoch: float, malformed: list[str] | None = None) -> list[Limit]:
    """Return the limits that a response states.

    Args:
        headers: response headers, lower-case names.
        now_epoch: the time, seconds since the epoch, against which times of reset are taken.
        malformed: gets ``limit`` for each value that could not be read.
    """
    found: dict[str, list[str]] = {}
    for header in headers:
        place = _HEADERS.get(header)
        if place is not None:
            found.setdefault(place[0], ["", "", ""])[place[1]] = headers[header]
    if not found:
        return []
    limits = []
    resets: dict[str, float | None] = {"": None}  # several resources often share one time
    for resource, (limit, remaining, reset) in found.items():
        if reset not in resets:
            resets[reset] = _seconds(reset, now_epoch, malformed)
        seconds = resets[reset]
        one = Limit(resource, _count(limit, malformed), _count(remaining, malformed), seconds)
        if one.limit is not None or one.remaining is not None or (seconds and "-1" not in (limit, remaining)):
            limits.append(one)
    return limits


def _count(value: str, malformed: list[str] | None) -> int | None:
    if value.isdecimal() and len(value) <= 15:
        return int(value)
    value = value.strip()
    if not value or value == "-1":
        return None
    if _NUMBER(value):
        number = float(value)
        if number <= MAX_COUNT:
            return int(number)
    _bad(malformed)
    return None


def _seconds(value: str, now: float, malformed: list[str] | None) -> float | None:
    """Return seconds until a reset given as a Go duration, as seconds, or as a time."""
    value = value.strip()
    if not value or value == "-1":
        return None
    seconds: float | None = None
    if len(value) > 64:
        pass
    elif _NUMBER(value):
        seconds = float(value)
    elif _DURATION(value):
        seconds = sum(float(number) * _UNITS[unit] for number, unit in _STEP(value))
    elif "T" in value or "t" in value:
        seconds = _until(value, now)
    if seconds is None or seconds > MAX_RESET:
        _bad(malformed)
        return None
    return seconds


def _until(value: str, now: float) -> float | None:
    try:
        time = datetime.fromisoformat(value.upper())
        if time.tzinfo is None:
            return None
        return max(time.timestamp() - now, 0.0)
    except (ValueError, OverflowError, OSError):
        return None


def _bad(malformed: list[str] | None) -> None:
    if malformed is not None and len(malformed) < 16:
        malformed.append("limit")
