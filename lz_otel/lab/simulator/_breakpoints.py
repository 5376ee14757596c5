"""Breakpoints of Anthropic's prompt cache: where they stand, and how short a prefix may be (D)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from lz_otel.lab.simulator._tokens import ttl_of

if TYPE_CHECKING:
    from lz_otel.lab.simulator._tokens import Block

_MINIMUM = {
    512: ("claude-fable-5", "claude-mythos-5", "claude-opus-5", "claude-sonnet-5-5", "claude-haiku-5-5"),
    2048: ("claude-opus-4-7", "claude-mythos-preview", "claude-3-5-haiku", "claude-haiku-3-5"),
    4096: ("claude-opus-4-6", "claude-opus-4-5", "claude-haiku-4-5"),
}


def minimum_tokens(model: str) -> int:
    """Shortest prefix that is cached, tokens (D; 1024 for all models not in the vendor's table)."""
    return next((tokens for tokens, prefixes in _MINIMUM.items() if model.startswith(prefixes)), 1024)


class BreakpointError(ValueError):
    """The breakpoints break a rule of the vendor; the text is the vendor's error message."""


def breakpoints(request: dict[str, Any], blocks: list[Block]) -> list[int]:
    """Return positions of the breakpoints, the automatic one included, in order.

    Raises:
        BreakpointError: more than four, or a one-hour breakpoint behind a five-minute one.
    """
    ttl = ttl_of(request)
    last = next((block for block in reversed(blocks) if block.cacheable), None) if ttl else None
    if last is not None:
        if last.ttl and last.ttl != ttl:
            raise BreakpointError("cache_control: the automatic and the explicit ttl of one block differ")
        last.ttl = ttl
    found = [i for i, block in enumerate(blocks) if block.ttl and block.cacheable]
    if len(found) > 4:
        raise BreakpointError(
            f"A maximum of 4 blocks with cache_control may be provided. Found {len(found)}."
        )
    lifetimes = [blocks[i].ttl for i in found]
    if lifetimes != sorted(lifetimes):  # "1h" before "5m"
        raise BreakpointError("cache_control: a ttl='1h' block must not come after a ttl='5m' block")
    return found
