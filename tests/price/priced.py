"""Facts for the tests of money."""

from __future__ import annotations

import datetime
from typing import Any

from lz_otel.model import Facts


def epoch(day: str) -> float:
    """Noon (UTC) of a day."""
    return datetime.datetime.fromisoformat(f"{day}T12:00:00+00:00").timestamp()


NOW = epoch("2026-11-29")


def facts(model: str, provider: str = "anthropic", **known: Any) -> Facts:
    """Facts of one answer."""
    out = Facts(provider, "chat", inference=True, llm_call=True)
    out.request_model = out.response_model = model
    for name, value in known.items():
        setattr(out, name, value)
    return out
