"""A store with every metric of the catalogue in it, and what its series look like in each exposition."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING, Any

from prometheus_client.parser import text_string_to_metric_families

from lz_otel import catalogue
from lz_otel._measure.store import Store

if TYPE_CHECKING:
    from collections.abc import Iterable

    from lz_otel.catalogue import Attribute, Metric

# A sample: its name and labels. Empty labels are left out, since to Prometheus they are the same as none.
Key = tuple[str, frozenset[tuple[str, str]]]

OPEN_VALUES = ("claude-sonnet-5", 'quote " and \\ backslash', "größe/模型", "a:b@c")


def label(rng: random.Random, attribute: Attribute) -> str:
    """A valid value of an attribute."""
    if attribute.values:
        return rng.choice(attribute.values)
    return rng.choice(("", *OPEN_VALUES) if attribute.optional else OPEN_VALUES)


def value(rng: random.Random, metric: Metric) -> Any:
    """A valid value of a metric: samples on a bound, between bounds and above all; prepared ones too."""
    if metric.kind == catalogue.HISTOGRAM:
        if rng.random() < 0.3:
            samples = [rng.uniform(0, 1.5 * metric.buckets[-1]) for _ in range(5)]
            cells = Store([metric])
            labels = ("",) * len(metric.attributes)
            cells.add([(metric, labels, sample) for sample in samples])
            state = cells.snapshot()[0].points[0][1]
            return (state.counts, state.sum, state.count)
        return rng.choice((*metric.buckets, rng.uniform(0, 1.5 * metric.buckets[-1])))
    if metric.kind == catalogue.UP_DOWN:
        return rng.choice((1, 1, -1))
    return rng.choice((rng.randrange(1, 10**7), rng.random()))


def measurements(
    seed: int, metrics: Iterable[Metric], per_metric: int = 6
) -> list[tuple[Metric, tuple[str, ...], Any]]:
    """The same random measurements for the same seed."""
    rng = random.Random(seed)
    return [
        (metric, tuple(label(rng, a) for a in metric.attributes), value(rng, metric))
        for metric in metrics
        for _ in range(per_metric)
    ]


def filled(conventions: str = "both", seed: int = 1) -> Store:
    """A store in which every metric of the conventions has points."""
    store = Store(catalogue.selected(conventions))
    store.add(measurements(seed, store.metrics))
    return store


def key(name: str, labels: dict[str, str]) -> Key:
    """A sample's identity; bounds of buckets are compared as numbers."""
    pairs = {k: (repr(float(v)) if k == "le" else v) for k, v in labels.items() if v != ""}
    return name, frozenset(pairs.items())


def from_text(text: str) -> dict[Key, float]:
    """All samples of a Prometheus text exposition."""
    out: dict[Key, float] = {}
    for family in text_string_to_metric_families(text):
        for sample in family.samples:
            one = key(sample.name, sample.labels)
            assert one not in out, f"twice: {one}"
            out[one] = sample.value
    return out


def from_sdk(metrics_data: Any) -> dict[Key, float]:
    """All samples of data of the OpenTelemetry SDK, by the standard translation to Prometheus."""
    out: dict[Key, float] = {}
    for resource in metrics_data.resource_metrics:
        for scope in resource.scope_metrics:
            for metric in scope.metrics:
                kind = type(metric.data).__name__
                monotonic = getattr(metric.data, "is_monotonic", False)
                name = catalogue.prometheus_name(
                    metric.name, metric.unit, catalogue.COUNTER if monotonic else kind
                )
                for point in metric.data.data_points:
                    labels = {catalogue.label_name(k): v for k, v in point.attributes.items()}
                    if kind != "Histogram":
                        out[key(name, labels)] = point.value
                        continue
                    total = 0
                    for bound, n in zip((*point.explicit_bounds, "+Inf"), point.bucket_counts, strict=True):
                        total += n
                        out[key(f"{name}_bucket", {**labels, "le": str(bound)})] = total
                    out[key(f"{name}_count", labels)] = point.count
                    out[key(f"{name}_sum", labels)] = point.sum
    return out
