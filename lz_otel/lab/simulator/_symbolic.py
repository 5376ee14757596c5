"""Article 000 (A): answers that a symbolic engine gives without a model."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lz_otel._ground.memory import BoundedSet
from lz_otel.lab.simulator._truth import Mechanism

if TYPE_CHECKING:
    from lz_otel.lab.simulator._context import Context


class Symbolic:
    """The engine, with its memory of compiled requests."""

    def __init__(self) -> None:
        self._compiled: BoundedSet[bytes] = BoundedSet(50_000)
        self.reset = self._compiled.clear

    def serve(self, ctx: Context, fingerprint: bytes) -> str:
        """Decide, and add the headers of a hit; equal fingerprints are one request to the engine.

        Returns:
            ``hit``, ``contradiction`` (a hit that still bills output), ``zero_output`` (no hit, yet no
            output billed), or nothing.
        """
        part = ctx.behaviour.symbolic
        if not part.enabled:
            return ""
        forced = ctx.force.get("symbolic", "")
        region = ctx.header(b"anthropic-region")
        served = forced in ("hit", "contradiction") or (
            forced != "miss"
            and region in ("", "us-east-1")
            and ctx.draw.chance("symbolic.hit", part.hit_rate)
        )
        if not served:
            zero = ctx.draw.chance("symbolic.zero", part.zero_output_rate)
            ctx.verdict("symbolic", Mechanism("miss", facts={"zero_output": True} if zero else {}))
            return "zero_output" if zero else ""
        cold = not self._compiled.add(fingerprint)
        engine = round(ctx.draw.band("symbolic.engine", part.engine_ms) + (part.cold_ms if cold else 0.0), 1)
        ctx.extra += [(b"x-anthropic-layer", b"zero"), (b"x-anthropic-zero-latency", str(engine).encode())]
        contradiction = forced == "contradiction" or ctx.draw.chance(
            "symbolic.contradiction", part.contradiction_rate
        )
        ctx.record.engine_ms, ctx.record.cold = engine, cold
        slow = ctx.draw.chance("symbolic.slow", part.slow_rate)
        ctx.faster("symbolic.total", part.slow_ms if slow else ctx.behaviour.latency.fast_ms)
        if cold and ctx.total_ms is not None:
            ctx.total_ms += part.cold_ms
        facts = {"engine_ms": engine, "cold": cold, "contradiction": contradiction, "slow": slow}
        ctx.verdict("symbolic", Mechanism("hit", facts=facts))
        return "contradiction" if contradiction else "hit"
