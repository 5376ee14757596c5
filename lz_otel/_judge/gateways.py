"""What gateways and HTTP caches say in response headers: hit or miss, fallback or retry.

**D** throughout: each header is documented by its gateway (`signals.TABLE` names the sources).
``cf-cache-status`` is read nowhere: on an LLM API it tells of the CDN in front of it, not of a
cache of answers. ``Age`` alone says nothing either.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable

    from lz_otel._ground.headers import Headers

_HIT, _MISS, _BYPASS = "hit", "miss", "bypass"

# Words of the headers of one gateway each. What is not listed says nothing (DISABLED: it was not asked).
_WORDS = {
    "hit": _HIT, "semantic hit": _HIT, "miss": _MISS, "semantic miss": _MISS,
    "refresh": _BYPASS,  # Portkey: the caller asked to go past the cache
    "bypass": _BYPASS,
}  # fmt: skip
# X-Cache-Status: Kong's words, and those of nginx, which tells more kinds of hits apart.
_X_CACHE_STATUS = {
    "hit": _HIT, "stale": _HIT, "updating": _HIT, "revalidated": _HIT, "miss": _MISS, "expired": _MISS,
    "refresh": _MISS,  # Kong: found, and not good enough to be used
    "bypass": _BYPASS,
}  # fmt: skip
# RFC 9211: why a cache forwarded. `method` and `bypass` say that it had no say in the request.
_FORWARDED = {
    "uri-miss": _MISS, "vary-miss": _MISS, "miss": _MISS, "stale": _MISS, "partial": _MISS,
    "request": _BYPASS,  # the request asked to go past it
}  # fmt: skip
_MAX_HEADER = 4096
_QUOTED = re.compile(r'"(?:[^"\\]|\\.?)*(?:"|$)', re.DOTALL)


class CacheReading(NamedTuple):
    """What the most trustworthy header says.

    Attributes:
        decision: ``hit``, ``miss`` or ``bypass``.
        x_cache: whether only ``X-Cache`` says it, whose MISS may be a pass.
    """

    decision: str
    x_cache: bool = False


def cache_reading(headers: Headers, user_header: tuple[str, str] | None = None) -> CacheReading | None:
    """Read hit, miss or bypass of a response cache; ``None`` when no header says so.

    Order of trust: the user's own header, the gateway's own, ``Cache-Status`` (RFC 9211),
    ``X-Cache-Status``, ``X-Cache``.

    Args:
        headers: response headers, lower-case names.
        user_header: header of the user's own gateway and the value that means a hit, lower case.
    """
    if user_header is not None and user_header[0] in headers:
        decision = _of_user_header(headers[user_header[0]], user_header[1])
        if decision is not None:
            return CacheReading(decision)
    if headers.lacks[CACHE_HEADERS]:
        return None
    for name, decide in _BY_TRUST:
        if name in headers:
            decision = decide(headers[name])
            if decision is not None:
                return CacheReading(decision, x_cache=name == "x-cache")
    return None


def _of_user_header(value: str, hit: str) -> str | None:
    value = value.strip().lower()
    if value == hit or hit in {part.strip() for part in value.replace(";", ",").split(",")}:
        return _HIT
    decision = _WORDS.get(value)
    return decision if decision != _HIT else None


def _of_words(words: dict[str, str]) -> Callable[[str], str | None]:
    return lambda value: words.get(" ".join(value.lower().split()))


def _of_x_cache(value: str) -> str | None:
    """Read a list, one word per cache on the way ("MISS, HIT"): a hit of any of them answered."""
    words = {word[0].lower() for part in value[:_MAX_HEADER].split(",") if (word := part.split())}
    return _HIT if "hit" in words else _MISS if "miss" in words else None


def _of_cache_status(value: str) -> str | None:
    """Read a list with one member per cache (RFC 9211); one that says hit is enough.

    ``fwd=stale; fwd-status=304`` counts as a hit as well: the stored answer was good and was used.
    """
    decisions: set[str] = set()
    # Quoted strings (``key=``, ``detail=``) may hold anything and decide nothing.
    for member in _QUOTED.sub('""', value[:_MAX_HEADER]).split(","):
        given = dict(_parameter(p) for p in member.split(";")[1:])
        revalidated = given.get("fwd") == "stale" and given.get("fwd-status") == "304"
        if given.get("hit", "?0") == "?1" or revalidated:
            return _HIT
        forwarded = _FORWARDED.get(given.get("fwd", ""))
        if forwarded is not None:
            decisions.add(forwarded)
    return _MISS if _MISS in decisions else _BYPASS if decisions else None


_BY_TRUST: tuple[tuple[str, Callable[[str], str | None]], ...] = (
    ("cf-aig-cache-status", _of_words(_WORDS)),
    ("x-portkey-cache-status", _of_words(_WORDS)),
    ("x-openrouter-cache-status", _of_words(_WORDS)),
    ("helicone-cache", _of_words(_WORDS)),
    ("x-litellm-cache-key", lambda value: _HIT if value.strip() else None),  # that of the stored answer
    ("cache-status", _of_cache_status),
    ("x-cache-status", _of_words(_X_CACHE_STATUS)),
    ("x-cache", _of_x_cache),
)
CACHE_HEADERS = frozenset(name for name, _ in _BY_TRUST)
"""Every response header of the table that may hold a hit."""


def _parameter(text: str) -> tuple[str, str]:
    name, sep, value = text.strip().partition("=")
    return name.strip().lower(), value.strip().lower() if sep else "?1"


# Header, count that means nothing happened, what more of it means.
_DETOURS = (
    ("cf-aig-step", 0, "gateway_fallback"),
    ("x-litellm-attempted-fallbacks", 0, "gateway_fallback"),
    ("helicone-fallback-index", 0, "gateway_fallback"),
    ("x-litellm-attempted-retries", 0, "gateway_retry"),
    ("x-portkey-retry-attempt-count", 0, "gateway_retry"),
    ("ngrok-aig-attempts", 1, "gateway_retry"),
)
_COUNT = re.compile(r"-1|[0-9]{1,9}")
DETOUR_HEADERS = frozenset(name for name, _, _ in _DETOURS)


def gateway_detours(headers: Headers, malformed: list[str]) -> tuple[str, ...]:
    """Read what the gateway did besides: ``gateway_fallback``, ``gateway_retry``, both or nothing."""
    if headers.lacks[DETOUR_HEADERS]:
        return ()
    reasons = []
    for name, nothing, reason in _DETOURS:
        text = headers.get(name)
        if text is None:
            continue
        if _COUNT.fullmatch(text.strip()) is None:
            malformed.append("header")
        elif int(text) > nothing or int(text) < 0:  # Portkey: -1 is all retries used up
            reasons.append(reason)
    return tuple(dict.fromkeys(reasons))


def has_statement(headers: Headers, user_header: tuple[str, str] | None = None) -> bool:
    """Return whether a gateway states something of a response cache, a fallback or a retry."""
    reading = cache_reading(headers, user_header)
    if reading is not None and (reading.decision == _HIT or not reading.x_cache):
        return True
    return bool(gateway_detours(headers, []))
