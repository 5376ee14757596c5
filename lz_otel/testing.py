"""For tests, of services and of lz_otel itself: observe without exporting, and read the numbers.

with lz_otel.testing.capture() as seen:
    client.messages.create(...)
    assert seen.value("gen_ai.client.inference.usage.input_tokens") == 2104
"""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Unpack

from lz_otel import _runtime, catalogue
from lz_otel._ground.guard import guard
from lz_otel.errors import ConfigurationError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from lz_otel._config import InstrumentSettings
    from lz_otel._measure.store import HistogramValue, Store

__all__ = ["Capture", "capture"]


class Capture:
    """The numbers of an instrumentation under test."""

    def __init__(self, store: Store) -> None:
        self.store = store

    def value(self, metric: str, **labels: str) -> float:
        """Sum over the points of a counter or gauge whose labels match.

        Args:
            metric: OpenTelemetry or Prometheus name.
            **labels: label values by Prometheus label name, as ``lz_ending="ok"``.

        Raises:
            CatalogueError: there is no such metric.
        """
        self.store.snapshot()
        value: Any = self.store.value(catalogue.by_name(metric), **labels)
        return float(value) if isinstance(value, (int, float)) else float(value.count)

    def histogram(self, metric: str, **labels: str) -> HistogramValue:
        """Merged histogram of the points whose labels match: ``counts``, ``sum``, ``count``."""
        self.store.snapshot()
        value: HistogramValue = self.store.value(catalogue.by_name(metric), **labels)
        return value

    def points(self, metric: str) -> dict[tuple[str, ...], Any]:
        """Return all points of a metric by their label values, zeros left out."""
        wanted = catalogue.by_name(metric)
        for series in self.store.snapshot():
            if series.metric is wanted:
                return {labels: value for labels, value in series.points if value != 0}
        return {}


@contextmanager
def capture(*, strict: bool = False, **settings: Unpack[InstrumentSettings]) -> Iterator[Capture]:
    """Instrument for the time of a ``with`` block, exporting nothing.

    Args:
        strict: raise faults of lz_otel instead of swallowing them.
        **settings: as for ``lz_otel.instrument``.

    Raises:
        ConfigurationError: a setting cannot be used, or all is switched off.
    """
    _runtime.uninstrument()
    settings.setdefault("exporters", "none")
    _runtime.instrument(**settings)
    runtime = _runtime.current()
    if runtime is None:
        raise ConfigurationError("OTEL_SDK_DISABLED", "true", "not set, where calls are to be captured")
    before, guard.strict = guard.strict, strict
    try:
        yield Capture(runtime.store)
    finally:
        guard.strict = before
        _runtime.uninstrument()
