"""A loopback provider of LLM APIs: fast paths, prompt cache, faults, gateways, and a truth log.

    with running("healthy", latency_scale=0.05) as sim:
        client = anthropic.Anthropic(base_url=sim.url, api_key="any")
        ...
        print(sim.summary())

It stands for what the vendors document (D) and for what the articles state (A); see the
modules. Needs the extra ``demo`` (starlette, uvicorn), imported when it starts.
"""

from __future__ import annotations

from lz_otel.simulator._server import Simulator, running, simulate
from lz_otel.simulator.scenario import Scenario, load, names, parse

__all__ = ["Scenario", "Simulator", "load", "names", "parse", "running", "simulate"]
