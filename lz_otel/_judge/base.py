"""The shape that the judges of all mechanisms share."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, ClassVar

from lz_otel._judge.result import Result
from lz_otel.mechanisms import BY_NAME, REPLAYS
from lz_otel.model import Verdict

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from lz_otel._judge.request_body import CountedTokens
    from lz_otel._judge.result import MetricRow
    from lz_otel._judge.signals import Signals
    from lz_otel._price.cost import Prices
    from lz_otel.model import EndedCall, Facts, Request


class Judge:
    """Tells of each call whether one mechanism has served it.

    Args:
        prices: price table, for what a hit saved; ``None``: savings stay unknown.
        counted: answers of token counting, shared by the mechanisms that use them.
        miss_reasons: whether to tell why a prompt cache was missed; of no meaning to the others.
        now: epoch seconds, for prices.

    Attributes:
        NAME: name of the mechanism, as in `lz_otel.mechanisms`.
        ASKED_ALWAYS: whether it has no marker that could wake it: it is asked about every call, and last.
        COUNTS_STORED: whether it counts what a request asked for where a stored answer came; never a verdict.
        markers: names of its markers on the wire, by key (`Signals.name`).
        replays: whether its hit is a stored answer: the headers and the usage of the call are those of an
            earlier one, so no other mechanism is asked about it.
    """

    NAME: ClassVar[str] = ""
    ASKED_ALWAYS: ClassVar[bool] = False
    COUNTS_STORED: ClassVar[bool] = False

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
        keys = [row.key for row in signals.rows if row.mechanism == self.NAME]
        self.markers = {key: signals.name(self.NAME, key) for key in keys}
        self.prices = prices
        self.counted = counted
        self.miss_reasons = miss_reasons
        self.now = now
        self.replays = BY_NAME[self.NAME].effect == REPLAYS
        self.prepare()

    def prepare(self) -> None:
        """Make the memory, empty: the end of ``__init__``."""

    def begin(self, request: Request, facts: Facts) -> None:
        """Put sinks where they are needed: the response's head has arrived, its body has not."""

    def judge(self, call: EndedCall) -> Result | None:
        """Conclude about an ended call; ``None`` when there is nothing to say."""
        raise NotImplementedError

    def _result(
        self,
        decision: str | None,
        reason: str | None = None,
        rows: Iterable[MetricRow] = (),
        saved: float | None = None,
    ) -> Result | None:
        rows = tuple(rows)
        if decision is not None:
            return Result(Verdict(self.NAME, decision, reason), rows, saved)
        return Result(None, rows) if rows else None


def succeeded(call: EndedCall) -> bool:
    """Return whether the response's status is a success."""
    status = call.status
    return status is not None and 200 <= status < 300


def is_claude(facts: Facts) -> bool:
    """Return whether a call went to a Claude model, on whatever platform."""
    model = facts.request_model or facts.response_model or ""
    return facts.provider == "anthropic" or "claude" in model.lower()
