"""What can go wrong in a pretend service: the knobs and the incidents that turn them."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from lz_otel.errors import ConfigurationError

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["INCIDENTS", "State", "incident"]


@dataclass(frozen=True)
class State:
    """The knobs that incidents turn; the defaults are a healthy service."""

    traffic: float = 1.0
    symbolic_hit: float = 0.807
    symbolic_fallback: float = 0.006
    pruned: float = 0.32
    pruned_quality: float = 0.991  # of control's
    intent_ok: float = 0.985
    intent_reason: str = "silent"
    zeroed: float = 0.46
    zeroing_fallback: float = 0.015
    served: float = 0.93
    layer_up: bool = True
    ghosts: float = 0.0  # per call
    shared: float = 0.41  # the vendor's cache_hit_rate
    decompression_ms: float = 31.0
    price: float = 1.0
    unpriced: float = 0.0
    cache_read: float = 0.82
    miss_reason: str = "history_changed"
    errors: float = 0.0012
    overloaded: float = 0.0
    rate_limited: float = 0.001
    headroom: float = 0.72
    cut: float = 0.0006
    slow: float = 1.0
    internal: float = 0.0
    malformed: float = 0.0002
    restart: bool = False  # the first instance starts anew, with another version


# What each incident changes. The names are those of the simulator's scenarios, and some more (C).
INCIDENTS: dict[str, Callable[[State], State]] = {
    "hit-rate-drop": lambda s: replace(s, symbolic_hit=0.52),
    "fallback-storm": lambda s: replace(s, symbolic_hit=0.45, symbolic_fallback=0.38),
    "pruning-too-strong": lambda s: replace(s, pruned=0.52, pruned_quality=0.958),
    "intent-header-mistake": lambda s: replace(s, intent_ok=0.04, intent_reason="wrong_header"),
    "over-zeroing": lambda s: replace(s, zeroed=0.78),
    "zeroing-fallback": lambda s: replace(s, zeroing_fallback=0.13),
    "cache-share-leak": lambda s: replace(s, ghosts=0.02, shared=0.22, decompression_ms=58.0),
    "layer-down": lambda s: replace(s, layer_up=False),
    "price-change": lambda s: replace(s, price=1.8, unpriced=0.06),
    "provider-overloaded": lambda s: replace(s, overloaded=0.55, slow=1.6),
    "rate-limited": lambda s: replace(s, rate_limited=0.14, headroom=0.04),
    "cache-broken": lambda s: replace(s, cache_read=0.18, miss_reason="tools_changed"),
    "streams-cut": lambda s: replace(s, cut=0.06),
    "slow-provider": lambda s: replace(s, slow=3.5),
    "internal-errors": lambda s: replace(s, internal=0.002, malformed=0.02),
    "traffic-surge": lambda s: replace(s, traffic=3.0, headroom=0.2),
    "restart": lambda s: replace(s, restart=True),
}


def incident(name: str) -> Callable[[State], State]:
    """The change that an incident makes.

    Raises:
        ConfigurationError: there is no such incident.
    """
    try:
        return INCIDENTS[name]
    except KeyError:
        raise ConfigurationError("incident", name, f"one of {', '.join(INCIDENTS)}") from None
