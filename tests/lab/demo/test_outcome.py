"""The comparison of single calls: what counts as equal, unknown and different."""

from __future__ import annotations

from typing import Any

import pytest

from lz_otel import catalogue as c
from lz_otel.errors import ConfigurationError
from lz_otel.lab.demo._expected import Expected
from lz_otel.lab.demo._money import TruthPrices
from lz_otel.lab.demo._outcome import CallOutcome, differences
from lz_otel.lab.demo.truth import CaseResult, TruthClock, cases, chosen
from lz_otel.lab.simulator import load, names
from lz_otel.lab.simulator.scenario import GATEWAYS


def outcome(**verdicts: Any) -> CallOutcome:
    """A call that ended well, with these verdicts."""
    out = CallOutcome("ok", "full", "")
    out.verdicts = verdicts
    return out


def test_equal_outcomes_have_no_difference() -> None:
    """Two sides that say the same are equal in every mechanism and figure; sums of floats to a billionth."""
    mine, true = outcome(symbolic=("miss", None)), outcome(symbolic=("miss", None))
    mine.add(c.COST_USD, 0.1 + 0.2)
    true.add(c.COST_USD, 0.3)
    mechanisms, metrics, found = differences("c0", mine, true)
    assert ({"symbolic": "equal"}, []) == (mechanisms, found)
    assert {"lz.cost.usd", "ending", "path", "served_by"} == {
        name for name, equal in metrics.items() if equal
    }


@pytest.mark.parametrize(
    ("mine", "true", "state"),
    [
        (("hit", None), ("miss", None), "different"),
        (None, ("hit", None), "different"),
        (("hit", None), None, "different"),
        (("fallback", "silent"), ("fallback", "no_beta"), "different"),
        (("miss", "unknown"), ("miss", "expired"), "unknown"),
        (("miss", "unknown"), ("hit", None), "different"),
        (("miss", "first_use"), ("miss", "expired"), "different"),
    ],
)
def test_a_verdict_or_reason_that_is_off_differs(mine: Any, true: Any, state: str) -> None:
    """Verdict and reason both count; only the reason of a miss may be left open, never be wrong."""
    one = outcome(**({} if mine is None else {"prompt_cache": mine}))
    other = outcome(**({} if true is None else {"prompt_cache": true}))
    mechanisms, _, found = differences("c0", one, other)
    assert ({"prompt_cache": state}, state == "different") == (mechanisms, bool(found))


def test_a_figure_that_is_off_differs() -> None:
    """A figure that one side lacks, or has in another label, differs; one that cannot be known does not."""
    mine, true = outcome(), outcome()
    mine.add(c.MASK_EVENTS, 4)
    mine.add(c.ZEROING_LAYERS, 3, "all")
    true.add(c.ZEROING_LAYERS, 3, "zeroed")
    _, metrics, found = differences("c0", mine, true)
    assert {"lz.zeroing.mask_events", "lz.zeroing.layers"} == {
        name for name, equal in metrics.items() if not equal
    }
    assert 3 == len(found)
    true.unknown.add("lz.zeroing.mask_events")
    assert 2 == len(differences("c0", mine, true)[2])


def test_open_reasons_are_limited() -> None:
    """A run with more than one in a hundred reasons left open is not good."""
    result = CaseResult("x")
    result.mechanisms["prompt_cache"] = {"equal": 99, "unknown": 1}
    assert result.good
    result.mechanisms["prompt_cache"] = {"equal": 98, "unknown": 2}
    assert not result.good


def test_every_scenario_family_and_gateway_is_a_case() -> None:
    """The cases hold all scenarios, each of the families and of the gateways alone, by names of their own."""
    found = [case.name for case in cases()]
    assert len(found) == len(set(found))
    assert set(names()) <= set(found)
    assert {f"gateway-{name}" for name in GATEWAYS if name} <= set(found)
    families = ("symbolic", "pruning", "intent", "zeroing", "scheduling", "prompt-cache")
    assert {f"only-{family}" for family in families} <= set(found)


def test_an_unknown_case_is_named() -> None:
    """A case that does not exist is an error that lists those that do."""
    with pytest.raises(ConfigurationError, match=r"case='nothing'.*healthy"):
        chosen(["nothing"])


def test_the_clock_jumps_with_the_simulator() -> None:
    """A time before a jump is not moved by it, a later one is, by all jumps before."""
    from time import perf_counter

    clock, before = TruthClock(), perf_counter()
    clock.jump(300.0)
    between = perf_counter()
    clock.jump(10.0)
    after = perf_counter()
    assert [0.0, 300.0, 310.0] == [round(clock(t) - t, 6) for t in (before, between, after)]


def test_the_second_opinion_is_decimal_and_by_the_published_prices() -> None:
    """1000 input tokens, 600 of them read and 200 written, and 100 output tokens; no price gives none."""
    prices = TruthPrices()
    usage = {"input_tokens": 1000, "cache_read_tokens": 600, "cache_write_tokens": 200, "output_tokens": 100}
    usage["cache_write_1h_tokens"] = 0
    bill = prices.bill("claude-sonnet-4-6", usage)
    assert bill is not None
    # per million: 3 input, 15 output, 0.30 read, 3.75 write
    assert ("0.00303", "0.0045") == (str(bill.usd.normalize()), str(bill.full.normalize()))
    assert None is prices.bill("claude-next-1", usage)


def test_the_last_attempt_is_the_call() -> None:
    """Of a call that was tried again only the last attempt decides; its first is an attempt."""
    first = {
        "ordinal": 1,
        "call": "c0",
        "api": "messages",
        "status": 529,
        "ending": "error",
        "usage_sent": "none",
        "path": "full",
        "served_by": "",
        "mechanisms": {},
        "malformed": [],
        "fault": "overloaded",
        "stream": False,
        "similar": False,
        "ghosts": 0,
    }
    last = {
        **first,
        "ordinal": 2,
        "status": 200,
        "ending": "complete",
        "usage_sent": "full",
        "fault": "",
        "model": "claude-next-1",
        "input_tokens": 5,
        "uncached_tokens": 5,
        "cache_read_tokens": 0,
        "cache_write_tokens": 0,
        "cache_write_5m_tokens": 0,
        "cache_write_1h_tokens": 0,
        "output_tokens": 3,
        "would_output_tokens": 3,
        "reasoning_tokens": 0,
    }
    expected = Expected([last, first], {}, load("healthy").traffic, {})
    assert [529, 200] == [r["status"] for r in expected.attempts["c0"]]
    assert ("ok", {"symbolic": ("miss", None)}) == (
        expected.calls["c0"].ending,
        expected.calls["c0"].verdicts,
    )
    assert 1.0 == expected.calls["c0"].figures[(c.COST_UNPRICED.name,)]
