"""What a mechanism hands back for one call."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from lz_otel.catalogue import Metric
    from lz_otel.model import Verdict

__all__ = ["Result"]


class Result(NamedTuple):
    """One mechanism's conclusion about one call.

    Attributes:
        verdict: hit, miss, fallback or bypass; ``None`` when there is only something to count.
        measurements: ``(metric, values, number)``, where ``values`` are those of the metric's
            attributes *after* the common ones, in the catalogue's order; the pipeline puts the
            common ones in front.
        saved_usd: USD that the call would have cost more at full price; ``None`` when unknown.
    """

    verdict: Verdict | None
    measurements: tuple[tuple[Metric, tuple[str, ...], float], ...] = ()
    saved_usd: float | None = None
