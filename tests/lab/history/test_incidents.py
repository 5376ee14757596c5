"""Incidents: each is seen where an operator would look."""

from __future__ import annotations

import dataclasses

import pytest

from lz_otel.lab.history import history
from tests.lab.history.conftest import SHORT


def total(made: history.History, name: str, **labels: str) -> float:
    """Sum of the last samples of the series with these labels."""
    chosen = [s for s in made.series if {("__name__", name), *labels.items()} <= set(s.labels)]
    return sum(s.values[-1] for s in chosen)


EFFECTS = {  # incident -> (counter, labels) that grow with it
    "hit-rate-drop": ("lz_fast_path_calls_total", {"mechanism": "symbolic", "verdict": "miss"}),
    "fallback-storm": ("lz_fast_path_fallbacks_total", {"mechanism": "symbolic", "reason": "schema_invalid"}),
    "pruning-too-strong": ("lz_pruning_pruned_tokens_total", {}),
    "intent-header-mistake": ("lz_fast_path_fallbacks_total", {"reason": "wrong_header"}),
    "over-zeroing": ("lz_zeroing_layers_total", {"state": "zeroed"}),
    "zeroing-fallback": ("lz_fast_path_fallbacks_total", {"mechanism": "zeroing", "reason": "triggered"}),
    "cache-share-leak": ("lz_scheduling_ghost_entities_total", {}),
    "layer-down": ("lz_fast_path_calls_total", {"mechanism": "intent", "verdict": "fallback"}),
    "price-change": ("lz_cost_unpriced_total", {}),
    "provider-overloaded": ("lz_attempts_total", {"status": "529"}),
    "rate-limited": ("lz_attempts_total", {"status": "429"}),
    "cache-broken": ("lz_prompt_cache_misses_total", {"reason": "tools_changed"}),
    "streams-cut": ("gen_ai_client_inference_duration_seconds_count", {"lz_ending": "incomplete"}),
    "slow-provider": ("gen_ai_client_inference_duration_seconds_sum", {"lz_path": "full", "lz_ending": "ok"}),
    "internal-errors": ("lz_internal_errors_total", {"where": "extract"}),
    "traffic-surge": ("gen_ai_client_inference_duration_seconds_count", {}),
}


@pytest.mark.parametrize("name", [n for n in history.INCIDENTS if n != "restart"])
def test_incidents_do_something(made: history.History, name: str) -> None:
    """Each incident moves the counter that one would look at, by half at least."""
    counter, labels = EFFECTS[name]
    staged = history.generate(dataclasses.replace(SHORT, incidents=(history.Incident(name, 0, 9999),)))
    assert total(staged, counter, job="support-bot", **labels) > 1.5 * total(
        made, counter, job="support-bot", **labels
    )
    plain = {"job": "plain-chat"}
    assert total(staged, counter, **plain, **labels) == total(made, counter, **plain, **labels)


def test_layer_down_is_no_user_error(made: history.History) -> None:
    """When the layer is down everything falls back, and no more calls fail than before."""
    down = history.generate(dataclasses.replace(SHORT, incidents=(history.Incident("layer-down", 0, 9999),)))
    calls = "gen_ai_client_inference_duration_seconds_count"
    assert total(down, calls, lz_ending="error") == total(made, calls, lz_ending="error")
    assert total(down, "lz_fast_path_calls_total", mechanism="symbolic", verdict="hit") == 0
