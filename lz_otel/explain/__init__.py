"""Why a request misses the symbolic engine (article 000): local estimates, for the author of a prompt.

``explain(request)`` estimates the four conditions and names what speaks against a hit. Nothing here runs on
the path of a request, nothing is sent, and nothing holds a text. Thresholds and causes are **A** (articles
000 and 001), the estimators **C**.
"""

from __future__ import annotations

from lz_otel.explain.causes import Cause, courtesy_phrases
from lz_otel.explain.conditions import ConditionEstimate, Conditions, RequestHistory, explain

__all__ = ["Cause", "ConditionEstimate", "Conditions", "RequestHistory", "courtesy_phrases", "explain"]
