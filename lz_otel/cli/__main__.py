"""Run the command as ``python -m lz_otel.cli``."""

from __future__ import annotations

from lz_otel.cli import main

main()
