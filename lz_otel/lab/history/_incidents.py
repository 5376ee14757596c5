"""What can go wrong in a made-up service: the state of things, and the incidents that change it."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, NamedTuple

from lz_otel import mechanisms
from lz_otel.errors import ConfigurationError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping


class Shares(NamedTuple):
    """Verdicts of one mechanism, as shares of the calls that ask for it; what is left are misses.

    Attributes:
        reason: of the fallbacks; of half of the misses, where a mechanism explains them.
    """

    hit: float
    fallback: float = 0.0
    bypass: float = 0.0
    reason: str = ""


def _healthy() -> dict[str, Shares]:
    """Return the shares of a healthy service (C), also for a mechanism that has no figures here."""
    return {
        row.name: Shares(0.2, 0.02 if row.reasons else 0.0, reason=(*row.reasons, "")[0])
        for row in mechanisms.ALL
    } | {
        "symbolic": Shares(0.807, 0.006, reason="schema_invalid"),
        "pruning": Shares(0.998, 0.002, reason="rejected"),
        "intent": Shares(0.985, 0.015, reason="silent"),
        "zeroing": Shares(0.985, 0.015, reason="triggered"),
        "scheduling": Shares(0.73, 0.02, 0.05, "served_standard"),
        "response_cache": Shares(0.34, 0.0, 0.04),
        "prompt_cache": Shares(0.82, reason="history_changed"),
    }


@dataclass(frozen=True)
class State:
    """What incidents change; the defaults are a healthy service."""

    traffic: float = 1.0
    shares: Mapping[str, Shares] = field(default_factory=_healthy)
    pruned: float = 0.32
    pruned_quality: float = 0.991  # of control's
    zeroed: float = 0.46
    ghosts: float = 0.0  # per call
    shared: float = 0.41  # the vendor's cache_hit_rate
    decompression_ms: float = 31.0
    price: float = 1.0
    unpriced: float = 0.0
    errors: float = 0.0012
    overloaded: float = 0.0
    rate_limited: float = 0.001
    headroom: float = 0.72
    cut: float = 0.0006
    slow: float = 1.0
    internal: float = 0.0
    malformed: float = 0.0002
    restart: bool = False  # the first instance starts anew, with another version


def _with(state: State, **shares: Shares) -> State:
    return replace(state, shares={**state.shares, **shares})


# What a family's calls fall back for when its layer is down; without a sign of it they are misses (C).
_DOWN = {"pruning": "rejected", "intent": "silent", "zeroing": "no_report", "scheduling": "served_standard"}


def _layer_down(state: State) -> State:
    """Let no family hit."""
    down = {}
    for name in mechanisms.FAMILIES:
        hit, fallback, bypass, reason = state.shares[name]
        if name in _DOWN:
            down[name] = Shares(0.0, hit + fallback, bypass, _DOWN[name])
        else:
            down[name] = Shares(0.0, fallback, bypass, reason)
    return _with(state, **down)


# What each incident changes. The names are those of the simulator's scenarios, and some more (C).
INCIDENTS: dict[str, Callable[[State], State]] = {
    "hit-rate-drop": lambda s: _with(s, symbolic=Shares(0.52, 0.006, reason="schema_invalid")),
    "fallback-storm": lambda s: _with(s, symbolic=Shares(0.45, 0.38, reason="schema_invalid")),
    "pruning-too-strong": lambda s: replace(s, pruned=0.52, pruned_quality=0.958),
    "intent-header-mistake": lambda s: _with(s, intent=Shares(0.04, 0.96, reason="wrong_header")),
    "over-zeroing": lambda s: replace(s, zeroed=0.78),
    "zeroing-fallback": lambda s: _with(s, zeroing=Shares(0.87, 0.13, reason="triggered")),
    "cache-share-leak": lambda s: replace(s, ghosts=0.02, shared=0.22, decompression_ms=58.0),
    "layer-down": _layer_down,
    "price-change": lambda s: replace(s, price=1.8, unpriced=0.06),
    "provider-overloaded": lambda s: replace(s, overloaded=0.55, slow=1.6),
    "rate-limited": lambda s: replace(s, rate_limited=0.14, headroom=0.04),
    "cache-broken": lambda s: _with(s, prompt_cache=Shares(0.18, reason="tools_changed")),
    "streams-cut": lambda s: replace(s, cut=0.06),
    "slow-provider": lambda s: replace(s, slow=3.5),
    "internal-errors": lambda s: replace(s, internal=0.002, malformed=0.02),
    "traffic-surge": lambda s: replace(s, traffic=3.0, headroom=0.2),
    "restart": lambda s: replace(s, restart=True),
}


def incident(name: str) -> Callable[[State], State]:
    """Return the change that an incident makes.

    Raises:
        ConfigurationError: there is no such incident.
    """
    try:
        return INCIDENTS[name]
    except KeyError:
        raise ConfigurationError("incident", name, f"one of {', '.join(INCIDENTS)}") from None
