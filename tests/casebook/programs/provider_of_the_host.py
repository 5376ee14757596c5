"""Forks where the host owns the MeterProvider."""

from __future__ import annotations

from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader

import lz_otel
from tests.casebook.programs.calling import calls, fork, runtime, wait

lz_otel.instrument(meter_provider=MeterProvider([InMemoryMetricReader()]), exporters="none")
calls(5)
runtime().intake.catch_up()
wait(fork(lambda: calls(2)))
