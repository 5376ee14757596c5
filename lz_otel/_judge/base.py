"""The shape that all mechanisms share."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any, ClassVar

from lz_otel._ground.headers import disjoint
from lz_otel._judge.gateways import read
from lz_otel._judge.result import Result
from lz_otel.model import Verdict

if TYPE_CHECKING:
    from collections.abc import Callable

    from lz_otel._judge.request_body import CountedTokens
    from lz_otel._judge.signals import Signals
    from lz_otel._price.cost import Prices
    from lz_otel.model import EndedCall, Facts, Request

__all__ = ["Mechanism", "is_claude", "ok"]


class Mechanism:
    """One way in which a call can be served without the full price of inference.

    Args:
        signals: the table of wire markers in force.
        prices: price table, for what a hit saved; ``None``: savings stay unknown.
        counted: answers of token counting, shared by the mechanisms that use them.
        miss_reasons: whether to tell why a prompt cache was missed; of no meaning to the others.
        now: epoch seconds, for prices.

    Attributes:
        NAME: name of the mechanism, as in the catalogue.
        BEGINS: whether `begin` does anything.
    """

    NAME: ClassVar[str] = ""
    BEGINS: ClassVar[bool] = False

    def __init__(
        self,
        signals: Signals,
        *,
        prices: Prices | None = None,
        counted: CountedTokens | None = None,
        miss_reasons: bool = True,
        now: Callable[[], float] = time.time,
    ) -> None:
        self.signals = signals
        self.prices = prices
        self.counted = counted
        self.miss_reasons = miss_reasons
        self.now = now

    def begin(self, request: Request, facts: Facts) -> None:
        """The response's head has arrived, its body has not: put sinks where they are needed."""

    def judge(self, exchange: EndedCall) -> Result | None:
        """The conclusion about an ended call; ``None`` when there is nothing to say."""
        raise NotImplementedError

    def _replayed(self, exchange: EndedCall) -> bool:
        """Whether a gateway's store answered: headers and usage are those of an earlier call."""
        headers = exchange.response_headers
        if disjoint(self.signals.cache_headers, headers):
            return False
        reading = read(headers, self.signals.response_cache_header)
        return reading is not None and reading.decision == "hit"

    def _result(
        self,
        decision: str | None,
        reason: str | None = None,
        rows: tuple[tuple[Any, tuple[str, ...], float], ...] = (),
        saved: float | None = None,
    ) -> Result | None:
        if decision is None:
            return Result(None, rows) if rows else None
        return Result(Verdict(self.NAME, decision, reason), rows, saved)


def ok(exchange: EndedCall) -> bool:
    """Whether the response's status is a success."""
    status = exchange.status
    return status is not None and 200 <= status < 300


def is_claude(facts: Facts) -> bool:
    """Whether a call went to a Claude model, on whatever platform."""
    return (
        facts.provider == "anthropic"
        or "claude" in (facts.request_model or facts.response_model or "").lower()
    )
