"""What gateways and HTTP caches say in response headers: hit or miss, fallback or retry.

**D** throughout: each header is documented by its gateway (`signals.TABLE` names the sources).
``cf-cache-status`` is read nowhere: on an LLM API it tells of the CDN in front of it, not of a
cache of answers. ``Age`` alone says nothing either.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, NamedTuple

from lz_otel._ground.headers import disjoint

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = [
    "CACHE_HEADERS",
    "DETOUR_HEADERS",
    "CacheReading",
    "cache_reading",
    "gateway_detours",
    "has_statement",
]

_HIT, _MISS, _BYPASS = "hit", "miss", "bypass"

# Words of the headers of one gateway each. What is not listed says nothing (DISABLED: nobody asked).
_WORDS = {
    "hit": _HIT,
    "semantic hit": _HIT,
    "miss": _MISS,
    "semantic miss": _MISS,
    "refresh": _BYPASS,  # Portkey: the caller asked to go past the cache
    "bypass": _BYPASS,
}
_OWN = ("cf-aig-cache-status", "x-portkey-cache-status", "x-openrouter-cache-status", "helicone-cache")
_LITELLM = "x-litellm-cache-key"
# X-Cache-Status: Kong's words, and those of nginx, which tells more kinds of hits apart.
_X_CACHE_STATUS = {
    "hit": _HIT,
    "stale": _HIT,
    "updating": _HIT,
    "revalidated": _HIT,
    "miss": _MISS,
    "expired": _MISS,
    "refresh": _MISS,  # Kong: found, and not good enough to be used
    "bypass": _BYPASS,
}
CACHE_HEADERS = frozenset((*_OWN, _LITELLM, "cache-status", "x-cache-status", "x-cache"))
"""Every response header of the table that can tell a hit."""

# RFC 9211: why a cache forwarded. `method` and `bypass` say that it had no say in the request.
_FORWARDED = {
    "uri-miss": _MISS,
    "vary-miss": _MISS,
    "miss": _MISS,
    "stale": _MISS,
    "partial": _MISS,
    "request": _BYPASS,  # the request asked to go past it
}
_MAX_HEADER = 4096


class CacheReading(NamedTuple):
    """What the most trustworthy header says.

    Attributes:
        decision: ``hit``, ``miss`` or ``bypass``.
        x_cache: whether only ``X-Cache`` says it, whose MISS may be a pass.
    """

    decision: str
    x_cache: bool = False


def cache_reading(headers: Mapping[str, str], own: tuple[str, str] | None = None) -> CacheReading | None:
    """Hit, miss or bypass of a response cache; ``None`` when no header says so.

    Order of trust: the user's own header, the gateway's own, ``Cache-Status`` (RFC 9211),
    ``X-Cache-Status``, ``X-Cache``.

    Args:
        headers: response headers, lower-case names.
        own: header of the user's own gateway and the value that means a hit, lower case.
    """
    if own is not None and own[0] in headers:
        said = _own(headers[own[0]], own[1])
        if said is not None:
            return CacheReading(said)
    if disjoint(CACHE_HEADERS, headers):
        return None
    for name in _OWN:
        if name in headers:
            said = _WORDS.get(" ".join(headers[name].lower().split()))
            if said is not None:
                return CacheReading(said)
    if headers.get(_LITELLM, "").strip():
        return CacheReading(_HIT)
    if "cache-status" in headers:
        said = _cache_status(headers["cache-status"])
        if said is not None:
            return CacheReading(said)
    if "x-cache-status" in headers:
        said = _X_CACHE_STATUS.get(headers["x-cache-status"].strip().lower())
        if said is not None:
            return CacheReading(said)
    if "x-cache" in headers:
        said = _x_cache(headers["x-cache"])
        if said is not None:
            return CacheReading(said, x_cache=True)
    return None


def _own(value: str, hit: str) -> str | None:
    value = value.strip().lower()
    if value == hit or hit in {part.strip() for part in value.replace(";", ",").split(",")}:
        return _HIT
    return _WORDS.get(value) if _WORDS.get(value) != _HIT else None


def _x_cache(value: str) -> str | None:
    """A list, one word per cache on the way ("MISS, HIT"): a hit of any of them answered."""
    said = {word[0].lower() for part in value[:_MAX_HEADER].split(",") if (word := part.split())}
    return _HIT if "hit" in said else _MISS if "miss" in said else None


def _cache_status(value: str) -> str | None:
    """RFC 9211: a list with one member per cache; one that says hit is enough.

    ``fwd=stale; fwd-status=304`` counts as a hit as well: the stored answer was good and was used.
    """
    said: set[str] = set()
    for member in _split(value[:_MAX_HEADER], ","):
        parameters = [_parameter(p) for p in _split(member, ";")[1:]]
        given = dict(parameters)
        if given.get("hit", "?0") == "?1" or (
            given.get("fwd") == "stale" and given.get("fwd-status") == "304"
        ):
            return _HIT
        forwarded = _FORWARDED.get(given.get("fwd", ""))
        if forwarded is not None:
            said.add(forwarded)
    return _MISS if _MISS in said else _BYPASS if said else None


def _parameter(text: str) -> tuple[str, str]:
    name, sep, value = text.strip().partition("=")
    return name.strip().lower(), value.strip().lower() if sep else "?1"


def _split(text: str, separator: str) -> list[str]:
    """Split outside quoted strings (``key=``, ``detail=`` may hold anything)."""
    if '"' not in text:
        return text.split(separator)
    parts, start, quoted, at = [], 0, False, 0
    while at < len(text):
        char = text[at]
        if char == "\\" and quoted:
            at += 1
        elif char == '"':
            quoted = not quoted
        elif char == separator and not quoted:
            parts.append(text[start:at])
            start = at + 1
        at += 1
    return [*parts, text[start:]]


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


def gateway_detours(headers: Mapping[str, str], malformed: list[str]) -> tuple[str, ...]:
    """What the gateway did besides: ``gateway_fallback``, ``gateway_retry``, both or nothing."""
    if disjoint(DETOUR_HEADERS, headers):
        return ()
    out = []
    for name, nothing, reason in _DETOURS:
        text = headers.get(name)
        if text is None:
            continue
        if _COUNT.fullmatch(text.strip()) is None:
            malformed.append("header")
        elif int(text) > nothing or int(text) < 0:  # Portkey: -1 is all retries used up
            out.append(reason)
    return tuple(dict.fromkeys(out))


def has_statement(headers: Mapping[str, str], own: tuple[str, str] | None = None) -> bool:
    """Whether a gateway says something of a response cache, a fallback or a retry."""
    reading = cache_reading(headers, own)
    if reading is not None and (reading.decision == _HIT or not reading.x_cache):
        return True
    return bool(gateway_detours(headers, []))
