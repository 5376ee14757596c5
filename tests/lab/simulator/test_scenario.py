"""Scenario files load, are checked, and their traffic is the same for the same seed."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from lz_otel.errors import ConfigurationError
from lz_otel.lab.simulator import load, names, parse
from lz_otel.lab.simulator.traffic import plan

if TYPE_CHECKING:
    from pathlib import Path

PROMISED = (
    "cache-share-leak",
    "fallback-storm",
    "healthy",
    "hit-rate-drop",
    "intent-header-mistake",
    "layer-down",
    "over-zeroing",
    "price-change",
    "provider-overloaded",
    "pruning-too-strong",
    "response-cache",
    "zeroing-fallback",
)


def test_all_scenarios_are_there() -> None:
    """The promised ones, and no other."""
    assert PROMISED == names()


@pytest.mark.parametrize("name", PROMISED)
def test_each_scenario_loads(name: str) -> None:
    """It says what is wrong and what to expect, and plans calls for each of its routes."""
    scenario = load(name)
    assert scenario.name == name
    assert scenario.description
    assert scenario.expect
    calls = list(plan(scenario, 1, 600))
    assert {r.name for r in scenario.traffic.routes} == {c.route for c in calls}


@pytest.mark.parametrize("name", [n for n in PROMISED if n != "healthy"])
def test_each_scenario_differs_from_the_healthy_one(name: str) -> None:
    """In what the provider does, or in what the client sends."""
    healthy, other = load("healthy"), load(name)
    assert (healthy.phases, healthy.traffic) != (other.phases, other.traffic)


@pytest.mark.parametrize(
    ("content", "parts"),
    [
        ("[symbolic]\nhit_rate = 1.5", ("mine.toml", "symbolic.hit_rate", "1.5", "between 0 and 1")),
        ("[symbolic]\nhit_rat = 0.5", ("mine.toml", "symbolic.hit_rat", "hit_rate")),
        ("[symbols]\nhit_rate = 0.5", ("mine.toml", "symbols", "symbolic")),
        ("[latency]\nfull_ms = [9, 1]", ("mine.toml", "latency.full_ms", "[9, 1]", "the lower first")),
        ("[latency]\nscale = nan", ("mine.toml", "latency.scale", "nan")),
        ("[zeroing]\ntotal_layers = true", ("zeroing.total_layers", "True", "whole number")),
        ("[pruning]\nreport = 'loud'", ("pruning.report", "loud", "'usage'")),
        ("[gateway]\nname = 'nobody'", ("gateway.name", "nobody", "'kong'")),
        ("[[phases]]\nsymbolic = {hit_rate = 0.1}", ("phases[0].after", "None")),
        ("[[phases]]\nafter = 5\n[[phases]]\nafter = 5", ("phases[1].after", "5")),
        ("[traffic]\nrate = 0", ("traffic.rate", "0")),
        ("[[traffic.routes]]\nshare = 1", ("traffic.routes[0].name",)),
        ("[[traffic.routes]]\nname = 'a'\nintents = {loud = 1}", ("intents.loud", "creative")),
        (
            "[[traffic.routes]]\nname = 'a'\n[[traffic.routes]]\nname = 'a'",
            ("traffic.routes[1].name", "no other route"),
        ),
        ("extends = 'nothing'", ("extends", "nothing", "healthy")),
        ("symbolic = 3", ("symbolic", "3", "a table")),
        ("not toml", ("mine.toml", "TOML")),
    ],
)
def test_errors_name_file_key_value_and_what_is_allowed(content: str, parts: tuple[str, ...]) -> None:
    """A mistake in a file is found by reading the error."""
    with pytest.raises(ConfigurationError) as caught:
        parse(content, "mine")
    for part in parts:
        assert part in str(caught.value)


def test_an_unknown_scenario_is_told_from_the_known_ones() -> None:
    """The error lists them."""
    with pytest.raises(ConfigurationError, match=r"healthy.*zeroing-fallback"):
        load("unhealthy")


def test_a_file_of_the_user(tmp_path: Path) -> None:
    """A path works as well as a name, and may build on a known scenario."""
    path = tmp_path / "mine.toml"
    path.write_text('extends = "healthy"\n[symbolic]\nhit_rate = 0.25\n')
    mine, healthy = load(path), load("healthy")
    assert 0.25 == mine.at(0).symbolic.hit_rate
    assert healthy.traffic == mine.traffic
    assert load(str(path)) == mine
    with pytest.raises(ConfigurationError, match="can be read"):
        load(tmp_path / "no.toml")


def test_phases_follow_the_clock() -> None:
    """Each holds from its second on, and changes only what it names."""
    scenario = parse(
        "[symbolic]\nenabled = true\nhit_rate = 0.9\n[[phases]]\nafter = 5\nsymbolic = {hit_rate = 0.1}"
    )
    rates = [(scenario.at(s).symbolic.enabled, scenario.at(s).symbolic.hit_rate) for s in (0, 4.9, 5, 100)]
    assert [(True, 0.9), (True, 0.9), (True, 0.1), (True, 0.1)] == rates


def test_a_timeline_starts_with_the_first_request(bench: Any) -> None:
    """However long the simulator has been waiting for it."""
    b = bench(
        "[symbolic]\nenabled = true\nhit_rate = 1.0\n[[phases]]\nafter = 5\nsymbolic = {hit_rate = 0.0}"
    )
    b.clock.advance(60)
    verdicts = []
    for _ in range(2):
        verdicts.append(b.ask().record.mechanisms["symbolic"].verdict)
        b.clock.advance(6)
    assert ["hit", "miss"] == verdicts
