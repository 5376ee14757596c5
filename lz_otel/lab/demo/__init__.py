"""The demo: an official SDK calls a loopback simulator, observed by lz_otel, beside the simulator's truth."""

from __future__ import annotations

from lz_otel.lab.demo.run import run

__all__ = ["run"]
