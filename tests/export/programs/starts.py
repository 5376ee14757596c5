"""Starts once for each value that a variable of OpenTelemetry may have; prints those with which that fails.

Each in a fork of its own, since parts of the SDK read variables as they are imported.
"""

from __future__ import annotations

import os
import posix
import traceback

import httpx2

import lz_otel
from lz_otel import _runtime
from lz_otel._export import otlp, prometheus  # noqa: F401 - once, not in each fork
from lz_otel.testing import Capture
from tests.wire_doubles import A_JSON, transport

BASE = {"OTEL_EXPORTER_PROMETHEUS_PORT": "0", "OTEL_TRACES_EXPORTER": "otlp", "LZ_OTEL_HTTP_SPANS": "off"}
ASK = {"model": "claude-opus-5", "messages": []}
SHARED = {
    "OTEL_METRICS_EXPORTER": "otlp prometheus console logging none otlp_proto_http otlp_proto_grpc a,otlp",
    "OTEL_TRACES_EXPORTER": "otlp console logging none otlp_proto_http otlp_proto_grpc zipkin jaeger x",
    "OTEL_LOGS_EXPORTER": "otlp none",
    "OTEL_EXPORTER_OTLP_PROTOCOL": "grpc http/protobuf http/json",
    "OTEL_EXPORTER_OTLP_ENDPOINT": "http://[::1]:1 127.0.0.1:1 https://u:p@[::1]:1/x unix:///x nonsense",
    "OTEL_EXPORTER_OTLP_TIMEOUT": "10 ten 0 -1",
    "OTEL_EXPORTER_OTLP_COMPRESSION": "gzip none deflate zstd",
    "OTEL_EXPORTER_OTLP_HEADERS": "a=b a",
    "OTEL_EXPORTER_OTLP_CERTIFICATE": "/no/such/file",
    "OTEL_EXPORTER_OTLP_METRICS_TEMPORALITY_PREFERENCE": "cumulative delta lowmemory other",
    "OTEL_EXPORTER_OTLP_METRICS_DEFAULT_HISTOGRAM_AGGREGATION": "base2_exponential_bucket_histogram other",
    "OTEL_EXPORTER_PROMETHEUS_PORT": "0 80000 x",
    "OTEL_EXPORTER_PROMETHEUS_HOST": "localhost 0.0.0.0 http://x",
    "OTEL_METRIC_EXPORT_INTERVAL": "1000 0 1s",
    "OTEL_METRIC_EXPORT_TIMEOUT": "1000 x",
    "OTEL_BSP_MAX_QUEUE_SIZE": "1 x",
    "OTEL_SPAN_ATTRIBUTE_COUNT_LIMIT": "64 x",
    "OTEL_TRACES_SAMPLER": "always_on traceidratio parentbased_always_on jaeger_remote",
    "OTEL_TRACES_SAMPLER_ARG": "0.5 x",
    "OTEL_PROPAGATORS": "tracecontext,baggage b3 none",
    "OTEL_RESOURCE_ATTRIBUTES": "service.name=x,a=b x",
    "OTEL_SERVICE_NAME": "x",
    "OTEL_PYTHON_METER_PROVIDER": "sdk_meter_provider nope",
    "OTEL_PYTHON_TRACER_PROVIDER": "sdk_tracer_provider nope",
    "OTEL_PYTHON_ID_GENERATOR": "random xray",
    "OTEL_EXPERIMENTAL_RESOURCE_DETECTORS": "otel,process nope",
    "OTEL_METRICS_EXEMPLAR_FILTER": "trace_based other",
    "OTEL_SEMCONV_STABILITY_OPT_IN": "http http/dup gen_ai_latest_experimental",
    "OTEL_SDK_DISABLED": "true false maybe",
}


def seen() -> bool:
    """Start, make a call, and return whether it was seen."""
    lz_otel.instrument()
    client = httpx2.Client(transport=transport(httpx2, lambda request: httpx2.Response(200, json=A_JSON)))
    client.post("https://api.anthropic.com/v1/messages", json=ASK)
    runtime = _runtime.current()
    return runtime is None or Capture(runtime.store).value("lz.attempts") == 1


for variable, values in SHARED.items():
    for value in values.split():
        for traces in ({}, {"OTEL_TRACES_EXPORTER": "otlp"}):
            pid = os.fork()
            if pid == 0:
                os.environ.update({"OTEL_EXPORTER_PROMETHEUS_PORT": "0", **traces, variable: value})
                good = False
                try:
                    good = seen()
                except BaseException:
                    traceback.print_exc()
                posix._exit(not good)
            if os.waitpid(pid, 0)[1]:
                print(variable, value, traces)
