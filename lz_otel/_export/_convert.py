"""A snapshot of the store in the data model of the OpenTelemetry SDK."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from opentelemetry.sdk.metrics.export import (
    AggregationTemporality,
    Gauge,
    Histogram,
    HistogramDataPoint,
    Metric,
    MetricsData,
    NumberDataPoint,
    ResourceMetrics,
    ScopeMetrics,
    Sum,
)

from lz_otel.catalogue import COUNTER, GAUGE, HISTOGRAM

if TYPE_CHECKING:
    from collections.abc import Sequence

    from opentelemetry.sdk.resources import Resource
    from opentelemetry.sdk.util.instrumentation import InstrumentationScope

    from lz_otel._export._label_values import LabelValues
    from lz_otel._measure.store import Series

# The extremes are not kept: a bucket in a dictionary has none, and Prometheus would not show them.
_UNKNOWN: Any = (None, None)


def metrics_data(
    series: Sequence[Series],
    resource: Resource,
    scope: InstrumentationScope,
    span: tuple[int, int],
    values: LabelValues,
) -> MetricsData:
    """Return all points of a `Store.snapshot`, cumulative over a span (begin and end, Unix nanoseconds).

    An attribute without a value is left out: the conventions forbid an empty ``error.type`` (D).
    """
    metrics = [Metric(s.metric.name, s.metric.doc, s.metric.unit, _data(s, span, values)) for s in series]
    return MetricsData([ResourceMetrics(resource, [ScopeMetrics(scope, metrics, "")], "")])


def _data(series: Series, span: tuple[int, int], values: LabelValues) -> Sum | Gauge | Histogram:
    metric = series.metric
    names = tuple(a.name for a in metric.attributes)
    cumulative = AggregationTemporality.CUMULATIVE
    points = [
        ({name: values[label] for name, label in zip(names, labels, strict=True) if label}, value)
        for labels, value in series.points
    ]
    if metric.kind == HISTOGRAM:
        return Histogram(
            [
                HistogramDataPoint(
                    pairs, *span, value.count, value.sum, value.counts, metric.buckets, *_UNKNOWN
                )
                for pairs, value in points
            ],
            cumulative,
        )
    numbers = [NumberDataPoint(attributes, *span, value) for attributes, value in points]
    if metric.kind == GAUGE:
        return Gauge(numbers)
    return Sum(numbers, cumulative, is_monotonic=metric.kind == COUNTER)
