"""What a mechanism concludes about one call."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple, TypeAlias

if TYPE_CHECKING:
    from lz_otel.catalogue import Metric
    from lz_otel.model import Verdict

MetricRow: TypeAlias = "tuple[Metric, tuple[str, ...], float]"
"""A metric, the values of its attributes *after* the common ones in the catalogue's order, and the number.

The rules put the common values in front.
"""


class Result(NamedTuple):
    """One mechanism's conclusion about one call.

    Attributes:
        verdict: hit, miss, fallback or bypass; ``None`` when there is only something to count.
        measurements: the mechanism's own numbers.
        saved_usd: USD that the call would have cost more at full price; ``None`` when unknown.
    """

    verdict: Verdict | None
    measurements: tuple[MetricRow, ...] = ()
    saved_usd: float | None = None

    @property
    def is_hit(self) -> bool:
        """Return whether the mechanism has served the call."""
        return self.verdict is not None and self.verdict.decision == "hit"
