"""What may be spent: one row per promise, checked against what was measured."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable

    from benchmarks.results import Measured


class Budget(NamedTuple):
    """One promise.

    Attributes:
        promise: in words.
        limit: highest value allowed.
        unit: of limit and value; "×" for a ratio to the bare client in the same run.
        value: what was measured; ``None`` when this run did not measure it.
    """

    promise: str
    limit: float
    unit: str
    value: Callable[[Measured], float | None]


def _ratio(case: str, variant: str = "prometheus") -> Callable[[Measured], float | None]:
    return lambda m: m.ratio(case, variant)


def _added(case: str, variant: str = "prometheus", per: int = 1) -> Callable[[Measured], float | None]:
    def value(measured: Measured) -> float | None:
        added = measured.added(case, variant)
        return None if added is None else added * 1e6 / per

    return value


def _figure(name: str, key: str) -> Callable[[Measured], float | None]:
    return lambda m: m.figures.get(name, {}).get(key)


def _times_added(case: str, variant: str, base: str) -> Callable[[Measured], float | None]:
    """How many times of what `base` adds to a bare call `variant` adds."""

    def value(measured: Measured) -> float | None:
        one, other = measured.added(case, variant), measured.added(case, base)
        return None if one is None or not other or other <= 0 else one / other

    return value


def _beyond(case: str, variant: str, base: str) -> Callable[[Measured], float | None]:
    """By how much the ratio of `variant` is above that of `base`."""

    def value(measured: Measured) -> float | None:
        one, other = measured.ratio(case, variant), measured.ratio(case, base)
        return None if one is None or other is None else one - other

    return value


BUDGETS = (
    Budget("SDK, 1 KB answer", 1.05, "×", _ratio("sdk_1k")),
    Budget("SDK, 1 KB answer, added per call", 100, "µs", _added("sdk_1k")),
    Budget("SDK, 50 KB answer", 1.05, "×", _ratio("sdk_50k")),
    Budget("SDK, 110 KB request", 1.05, "×", _ratio("sdk_110k_request", "no_reasons")),
    Budget("SDK, 110 KB request, with miss reasons", 1.10, "×", _ratio("sdk_110k_request")),
    Budget("SDK, stream of 50 events", 1.06, "×", _ratio("sdk_s50")),
    Budget("SDK, stream of 2,000 events", 1.05, "×", _ratio("sdk_s2000")),
    Budget("SDK, stream of 2,000 events, added per event", 2, "µs", _added("sdk_s2000", per=2000)),
    Budget("SDK, 32 calls in flight, 1 KB", 1.06, "×", _ratio("sdk_async_1k")),
    Budget("plain httpx2, 1 KB", 1.20, "×", _ratio("httpx2_1k")),
    Budget("SDK, 1 KB, a span more", 1.15, "×", _ratio("sdk_1k_spans")),
    Budget(
        "SDK, 1 KB, worker of several, beyond one",
        0.05,
        "×",
        _beyond("sdk_1k", "shared_folder", "prometheus"),
    ),
    Budget("SDK, 1 KB, by OTLP instead", 1.15, "×", _ratio("sdk_1k", "otlp")),
    Budget(
        "every mechanism on, against what is added with none",
        2,
        "times",
        _times_added("sdk_1k", "every_mechanism", "no_mechanism"),
    ),
    Budget("import lz_otel, beyond its dependencies' import", 60, "ms", _figure("import", "import_ms")),
    Budget("instrument()", 100, "ms", _figure("import", "instrument_ms")),
    Budget("memory beyond the dependencies'", 6, "MB", _figure("memory", "mb")),
    Budget("growth of memory over the calls below", 1, "MB", _figure("growth", "mb")),
)
