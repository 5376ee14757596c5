"""Where numbers and spans go: Prometheus, OTLP, a MeterProvider, logs of calls."""
