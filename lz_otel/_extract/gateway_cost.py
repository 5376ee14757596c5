"""What a gateway says a call cost, and whether another target answered than the one that was asked (D).

Sources: docs.litellm.ai proxy/response_headers; Cloudflare AI Gateway; Helicone. ``x-litellm-key-spend`` is
the running total of a key and no call's cost.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from lz_otel._ground.headers import Headers
    from lz_otel.model import Facts

_COST = "x-litellm-response-cost"
_CACHED = "x-litellm-cache-key"
_FALLBACKS = ("x-litellm-attempted-fallbacks", "cf-aig-step", "helicone-fallback-index")
HEADERS = frozenset({_COST, _CACHED, *_FALLBACKS})
"""The header names that are read. A response that `lacks` them all says nothing of this."""
MAX_USD = 1e6
_VERSION = re.compile(r"[-@:](?:latest|v?\d[\d.:-]*)$").match


def read(headers: Headers, facts: Facts) -> None:
    """Put what the head of an answer says of its cost into the facts.

    A gateway's figure wins over the provider's own. A stream's head is sent before its usage is known: a 0
    there says nothing. After a fallback the model in the body may be the one that was asked for: only another
    name says who answered.
    """
    stated = _number(headers.get(_COST))
    if stated is not None and (stated > 0 or not facts.stream):
        facts.cost_reported = stated
    if any((_number(headers.get(name)) or 0) > 0 for name in _FALLBACKS):
        asked, answered = facts.request_model, facts.response_model
        facts.gateway_fell_back = not answered or not asked or _same(asked, answered)


def from_cache(headers: Headers) -> bool:
    """Return whether the gateway's store answered: what its headers say was spent was spent before."""
    return bool((headers.get(_CACHED) or "").strip())


def _same(asked: str, answered: str) -> bool:
    """Return whether an answer may only echo the name that was asked for, with a version or without."""
    short, long = sorted((name.rpartition("/")[2].lower() for name in (asked, answered)), key=len)
    return long == short or (long.startswith(short) and _VERSION(long, len(short)) is not None)


def _number(text: str | None) -> float | None:
    if text is None or len(text) > 32:
        return None
    try:
        value = float(text)
    except ValueError:
        return None
    return value if 0.0 <= value <= MAX_USD else None
