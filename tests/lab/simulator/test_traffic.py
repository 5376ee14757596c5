"""The client's plan: a function of scenario and seed, in an order that any driver can keep."""

from __future__ import annotations

from itertools import islice
from typing import Any

import pytest

from lz_otel.lab.simulator import load, parse
from lz_otel.lab.simulator.traffic import plan


@pytest.mark.parametrize("name", ["healthy", "price-change"])
def test_plans_are_the_same_for_the_same_seed(name: str) -> None:
    """Same seed, same calls; another seed, others."""
    scenario = load(name)
    assert list(plan(scenario, 5, 300)) == list(plan(scenario, 5, 300))
    assert list(plan(scenario, 5, 300)) != list(plan(scenario, 6, 300))
    assert list(plan(scenario, 5, 50)) == list(islice(plan(scenario, 5), 50))


def test_calls_wait_only_for_earlier_ones() -> None:
    """So that any driver gets to the end."""
    for call in plan(load("healthy"), 2, 500):
        assert all(n < call.number for n in call.after)


def test_turns_of_a_session_follow_each_other() -> None:
    """Each turn holds the one before and waits for it."""
    last: dict[str, Any] = {}
    for call in plan(load("healthy"), 3, 800):
        if call.session:
            before = last.get(call.session)
            if before is not None:
                assert before.number in call.after
                assert len(before.kwargs["messages"]) < len(call.kwargs["messages"])
            last[call.session] = call
    assert last


@pytest.mark.parametrize(
    ("mistake", "check"),
    [
        ("wrong_header", lambda k: "x-anthropic-sampling-intent" in k["extra_headers"] and k["stream"]),
        ("no_beta", lambda k: "anthropic-beta" not in k["extra_headers"] and k["stream"]),
        ("not_streaming", lambda k: "stream" not in k and "anthropic-beta" in k["extra_headers"]),
        ("temperature", lambda k: k["extra_body"] == {"temperature": 0.7} and k["stream"]),
    ],
)
def test_mistakes_about_intents(mistake: str, check: Any) -> None:
    """Each is made as named."""
    toml = (
        "[[traffic.routes]]\nname = 'a'\nintents = {creative = 1}\n"
        f"intent_mistakes = 1.0\nintent_mistake = '{mistake}'"
    )
    assert all(check(c.kwargs) for c in plan(parse(toml), 0, 20))


def test_groups_take_turns_and_only_some_prune() -> None:
    """The control group does not ask for pruning, the others do with their own ratio."""
    toml = (
        "[[traffic.routes]]\nname='a'\ngroups=['control','B','C']\nprune_ratios={B=0.3, C=0.5}\n"
        "quality={control=0.9,B=0.8,C=0.7}"
    )
    calls = list(plan(parse(toml), 0, 30))
    assert ["control", "B", "C"] * 10 == [c.group for c in calls]
    ratios = {c.group: c.kwargs["system"].split("\n")[0] for c in calls}
    assert 'prune_ratio="0.3"' in ratios["B"]
    assert 'prune_ratio="0.5"' in ratios["C"]
    assert "layer-zero" not in ratios["control"]
    assert all(
        abs(c.quality - {"control": 0.9, "B": 0.8, "C": 0.7}[c.group]) <= 0.011 for c in calls if c.quality
    )


def test_every_call_can_be_joined_with_the_truth() -> None:
    """Each carries its own name and its route."""
    calls = list(plan(load("healthy"), 0, 200))
    assert 200 == len({c.kwargs["extra_headers"]["x-sim-call"] for c in calls})
    assert all(c.route == c.kwargs["extra_headers"]["x-sim-route"] for c in calls)
