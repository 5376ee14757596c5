"""Made-up calls: shares add up, and no mechanism is known by name alone."""

from __future__ import annotations

import dataclasses

import pytest

from lz_otel import catalogue as c
from lz_otel import mechanisms
from lz_otel.lab.history._calls import Flow, MadeRoute, rows
from lz_otel.lab.history._figures import MODELS
from lz_otel.lab.history._incidents import INCIDENTS, Shares, State


def flow(*asked: str) -> Flow:
    """Streamed calls that ask for these mechanisms."""
    return Flow(MadeRoute("a", 1.0, True, (1000, 100), {"": asked}), "", MODELS[0], 1.0, "")


def counted(flow: Flow, state: State, metric: c.Metric, *labels: str) -> float:
    """Calls counted by a metric, for one call of the flow."""
    chosen = [row for row in rows(flow, state) if row[0] is metric and set(labels) <= set(row[1])]
    return sum(share for _, _, share, _ in chosen)


@pytest.mark.parametrize("name", INCIDENTS)
def test_each_call_ends_once(name: str) -> None:
    """Whatever is wrong, the ways in which a call ends add up to one."""
    state = INCIDENTS[name](State())
    assert pytest.approx(1.0) == counted(flow(*mechanisms.NAMES), state, c.INFERENCE_DURATION)


@pytest.mark.parametrize("name", mechanisms.NAMES)
def test_each_mechanism_has_its_metrics(name: str) -> None:
    """A mechanism that a route asks for has verdicts and all of its own metrics."""
    found = {metric for metric, *_ in rows(flow(name), State())}
    assert {c.FAST_PATH_CALLS, *(m for m in c.ALL if m.mechanism == name)} <= found


@pytest.mark.parametrize("name", mechanisms.of_effect(mechanisms.REPLAYS))
def test_a_stored_answer_has_no_usage(name: str) -> None:
    """Where every call is served from a store, no tokens and no money are counted."""
    state = dataclasses.replace(State(), shares={**State().shares, name: Shares(1.0)})
    metrics = {m for m, labels, *_ in rows(flow(name), state)}
    assert set() == metrics & {c.INPUT_TOKENS, c.OUTPUT_TOKENS, c.COST_USD}
