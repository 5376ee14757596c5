"""Simulator, demo and made-up history: what shows lz_otel at work without a provider."""
