"""Kinds of values in a scenario file, and what each allows."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Literal

import msgspec
from msgspec import Meta

_BAND = "two numbers >= 0, the lower first"


class ScenarioTable(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A table of a scenario file: immutable, unknown keys are refused."""


class ScenarioRange(msgspec.Struct, frozen=True, array_like=True, forbid_unknown_fields=True):
    """Two numbers, between which a value is drawn; ``[low, high]`` in a file."""

    low: float
    high: float

    def __post_init__(self) -> None:
        if not 0.0 <= self.low <= self.high:
            raise ValueError(_BAND)


Band = Annotated[ScenarioRange, Meta(extra={"allowed": _BAND})]
Share = Annotated[float, Meta(ge=0.0, le=1.0, extra={"allowed": "a share between 0 and 1"})]
Number = Annotated[float, Meta(ge=0.0, le=1e9)]
Count = Annotated[int, Meta(ge=1, le=10**9)]
Names = tuple[Annotated[str, Meta(min_length=1, extra={"allowed": "a non-empty text"})], ...]
Weight = Annotated[float, Meta(ge=0.0, extra={"allowed": "a weight >= 0"})]
Weights = Mapping[str, Weight]
Intents = Mapping[Literal["deterministic", "creative", "balanced"], Weight]
