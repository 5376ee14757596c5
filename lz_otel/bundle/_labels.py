"""Labels, and groups of their values, that queries of rules and dashboards select by."""

from __future__ import annotations

from lz_otel import mechanisms
from lz_otel.mechanisms import FAMILIES

__all__ = [
    "ASKED", "ELIGIBLE", "ERROR", "FAILED_ENDINGS", "FAMILIES", "FINISHED_ENDINGS", "MODEL", "NO_FAMILIES",
    "PROVIDER", "ROUTE", "SERVING", "SHORTENING", "VARIABLES",
]  # fmt: skip

MODEL, PROVIDER, ROUTE = "gen_ai_request_model", "gen_ai_provider_name", "lz_route"
ERROR = "error_type"
# The dashboards' variables, each with the label that it filters by.
VARIABLES = {"job": "job", "instance": "instance", "provider": PROVIDER, "model": MODEL, "route": ROUTE}

# Verdicts: of calls that could have hit, and of those that asked for the fast path.
ELIGIBLE = ("hit", "miss", "fallback")
ASKED = ("hit", "fallback")

# Endings: what the caller gave up is in neither.
FINISHED_ENDINGS = ("ok", "error", "incomplete")
FAILED_ENDINGS = ("error", "incomplete")

# Mechanisms by what a hit means.
SERVING = mechanisms.of_effect(mechanisms.REPLACES)
SHORTENING = tuple(sorted(mechanisms.of_effect(mechanisms.SHORTENS)))
NO_FAMILIES = tuple(name for name in mechanisms.NAMES if name not in FAMILIES)
