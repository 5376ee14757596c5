"""The store in the data model of the OpenTelemetry SDK."""

from __future__ import annotations

from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.util.instrumentation import InstrumentationScope

from lz_otel._export._convert import metrics_data
from lz_otel._export._label_values import LabelValues
from lz_otel._export.prometheus import StoreCollector
from tests.export.filling import filled, from_sdk, from_text


def test_the_same_numbers_as_on_the_page() -> None:
    """Every point of the store is there, once, with the labels and the value of its sample."""
    store = filled()
    scope = InstrumentationScope("lz_otel", "1")
    data = metrics_data(store.snapshot(), Resource({"a": "b"}), scope, (5, 7), LabelValues())
    assert from_sdk(data) == from_text(StoreCollector(store).text())


def test_when_and_who() -> None:
    """All points are cumulative between the two times, of one resource and one scope."""
    scope, resource = InstrumentationScope("lz_otel", "1"), Resource({"a": "b"})
    data = metrics_data(filled().snapshot(), resource, scope, (5, 7), LabelValues())
    [of_resource] = data.resource_metrics
    [of_scope] = of_resource.scope_metrics
    assert (of_resource.resource, of_scope.scope) == (resource, scope)
    points = [point for metric in of_scope.metrics for point in metric.data.data_points]
    assert {(point.start_time_unix_nano, point.time_unix_nano) for point in points} == {(5, 7)}
