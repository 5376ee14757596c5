"""What lz_otel costs: `make bench`. See `benchmarks.__main__`."""
