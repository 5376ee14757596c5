"""The vendor's own metrics endpoint of articles 003 and 004 (A for the names, C for the transport)."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from lz_otel.lab.simulator.scenario import Behaviour


def metrics_text(behaviour: Behaviour, layer_zero_on: bool) -> str:
    """Return what ``GET /v1/metrics`` says, in the Prometheus text format.

    Shares are 0 to 1, the decompression time is in milliseconds. With the layer switched
    off nothing is shared and no anchors are cut.

    Args:
        behaviour: what the scenario says now.
        layer_zero_on: False after ``POST /v1/layer-zero/control`` has switched it off.
    """
    part = behaviour.scheduling
    on = layer_zero_on and part.enabled
    rows = (
        ("cache_hit_rate", 'layer="zero"', part.cache_hit_rate if on else 0.0),
        ("decompression_latency_p95", 'precision="fp16"', part.decompression_ms),
        ("kv_slice_efficiency", 'block_type="anchor"', part.anchor_efficiency if on else 0.0),
    )
    return "".join(f"# TYPE {name} gauge\n{name}{{{labels}}} {value:g}\n" for name, labels, value in rows)
