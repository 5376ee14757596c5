"""A loopback provider of LLM APIs: fast paths, prompt cache, faults, gateways, and a truth log.

    with running("healthy", latency_scale=0.05) as sim:
        client = anthropic.Anthropic(base_url=sim.url, api_key="any")
        ...
        print(sim.summary())

Endpoints: ``/v1/messages``, ``/v1/messages/count_tokens``, ``/v1/chat/completions``,
``/v1/responses``, ``/v1/embeddings``, ``/v1/metrics``, ``/v1/layer-zero/control``; and of its own
``GET /__truth`` (JSON lines), ``GET /__truth/summary``, ``POST /__reset``, ``POST /__clock``.

Request headers that it understands and a real provider ignores:

* ``x-sim-call``: name of the call, echoed in the truth log; all draws depend on it and on the
  attempt instead of the order of arrival.
* ``x-sim-route``: name of the operation; a miss of the prompt cache is explained within it.
* ``x-sim-force``: outcomes, as in ``fault=429,529; symbolic=hit; output=20``. Names: ``fault`` (a kind
  or a status per attempt, in order), ``retry-after-ms``, ``symbolic`` (hit, miss, contradiction),
  ``pruning`` (usage, header, count, reject), ``intent`` (silent), ``zeroing`` (hit, fallback,
  no_report, malformed), ``scheduling`` (zero, standard, none), ``tool`` (1), ``output`` (tokens),
  ``latency`` (ms).

It stands for what the vendors document (D) and for what the articles state (A); see the
modules. Needs the extra ``demo`` (starlette, uvicorn), imported when it starts.
"""

from __future__ import annotations

from lz_otel.lab.simulator._server import Simulator, running, simulate
from lz_otel.lab.simulator.scenario import Scenario, load, names, parse

__all__ = ["Scenario", "Simulator", "load", "names", "parse", "running", "simulate"]
