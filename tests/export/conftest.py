"""Fixtures of the exporters' tests."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from collections.abc import Iterator

    from lz_otel._export.prometheus import PrometheusExporter


@pytest.fixture
def exporter() -> Iterator[PrometheusExporter]:
    """A Prometheus exporter over a full store that listens on a free port."""
    from lz_otel._export.prometheus import PrometheusExporter
    from tests.export.filling import filled
    from tests.export.scraping import registry

    prometheus = PrometheusExporter(filled(), "127.0.0.1", 0, registry())
    prometheus.start()
    yield prometheus
    prometheus.stop()
