"""The mechanisms in force: which are asked, in which order, and what a stored answer means to the others."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

import lz_otel.testing
from lz_otel import _runtime
from lz_otel import catalogue as c
from lz_otel._ground.guard import guard
from lz_otel._judge import signals
from lz_otel._judge.in_force import MechanismsInForce
from lz_otel._judge.symbolic import SymbolicJudge
from lz_otel._price.cost import Prices
from lz_otel.mechanisms import NAMES
from tests.judge.ended_calls import body, ended_call

if TYPE_CHECKING:
    from collections.abc import Iterator

    from lz_otel.model import EndedCall

STORED = {"helicone-cache": "HIT"}
# A call that each of the families, the prompt cache included, has something to say about
ASKED = {
    "anthropic-sampling-intent": "creative",
    "x-anthropic-layer-zero": "enabled",
    "anthropic-layer-zero": "enabled",
    "x-anthropic-layer-hint": "zero-latency",
}
SERVED = {
    "x-anthropic-layer": "zero",
    "x-anthropic-layer-zero": "true",
    "x-anthropic-layer-zero-pruned-tokens": "5",
    "x-anthropic-layer-served": "zero",
}


def in_force(*mechanisms: str) -> MechanismsInForce:
    return MechanismsInForce(signals.load(), mechanisms or ("auto",), Prices.load())


def call(response_headers: dict[str, str], **more: Any) -> EndedCall:
    return ended_call(
        ASKED, {**SERVED, **response_headers}, request=body(stream=True), cache_read_tokens=5, **more
    )


def names(mechanisms: MechanismsInForce, ended: EndedCall) -> list[str]:
    """Names of the mechanisms that have a verdict, in the order in which they were asked."""
    mechanisms.begin(ended.request, ended.facts, ended.response_headers)
    return [result.verdict.mechanism for result in mechanisms.judge(ended) if result.verdict is not None]


@pytest.mark.parametrize("setting", [("auto",), NAMES])
def test_a_stored_answer_is_a_hit_of_that_store_alone(setting: tuple[str, ...]) -> None:
    """Headers and usage of a stored answer are those of an earlier call: no other mechanism has served it."""
    mechanisms = in_force(*setting)
    others = ["symbolic", "pruning", "intent", "zeroing", "scheduling", "prompt_cache"]
    assert others == names(mechanisms, call({}))
    stored = call(STORED)
    mechanisms.begin(stored.request, stored.facts, stored.response_headers)
    result, *counted = mechanisms.judge(stored)
    assert (result.verdict, result.measurements) == (("response_cache", "hit", None, None, False), ())
    assert all(other.verdict is None and other.saved_usd is None for other in counted)


@pytest.mark.parametrize(
    "store", ["cf-aig-cache-status", "x-portkey-cache-status", "x-cache", "cache-status"]
)
def test_each_store_silences_the_others(store: str) -> None:
    """Whatever header tells of the stored answer, it counts once."""
    assert ["response_cache"] == names(
        in_force(), call({store: "hit" if store != "cache-status" else "A; hit"})
    )


def test_a_store_that_is_switched_off_silences_the_others_all_the_same() -> None:
    """A replay is no hit of a mechanism only because the setting leaves out the one that replays."""
    mechanisms = in_force("symbolic", "prompt_cache")
    assert ["symbolic", "prompt_cache"] == names(mechanisms, call({}))
    assert [] == mechanisms.judge(call(STORED))
    assert ("symbolic", "prompt_cache") == mechanisms.awake


def test_a_store_that_missed_is_one_of_many() -> None:
    """What a store says besides a hit stands beside the verdicts of the others."""
    found = names(in_force(), call({"helicone-cache": "MISS"}))
    assert found == [
        "response_cache",
        "symbolic",
        "pruning",
        "intent",
        "zeroing",
        "scheduling",
        "prompt_cache",
    ]


def test_nothing_of_a_stored_answer_is_remembered() -> None:
    """A stored answer to an older request is no ghost, and makes no request a repeated one."""
    mechanisms = in_force()
    names(mechanisms, call({}))
    held = len(mechanisms.by_name["intent"]._outputs)  # type: ignore[attr-defined]
    stored = mechanisms.judge(call(STORED, answer="ann@example.com"))
    assert held == len(mechanisms.by_name["intent"]._outputs)  # type: ignore[attr-defined]
    assert c.GHOST_ENTITIES not in [metric for result in stored for metric, _, _ in result.measurements]


def test_what_a_request_asked_for_counts_whatever_answered() -> None:
    """A stored answer silences verdicts; the intent of the request is counted all the same."""
    mechanisms = in_force("intent", "response_cache")
    results = mechanisms.judge(call(STORED))
    assert [c.INTENT_CALLS] == [metric for result in results for metric, _, _ in result.measurements]


def test_only_what_is_awake_is_asked() -> None:
    """Without markers only the mechanism that has none is asked, and a verdict wakes it."""
    mechanisms = in_force()
    assert ["prompt_cache"] == [judge.NAME for judge in mechanisms._active]
    assert () == mechanisms.awake
    names(mechanisms, ended_call(cache_read_tokens=5))
    assert ("prompt_cache",) == mechanisms.awake


def test_a_list_is_exact() -> None:
    """What the setting names is on from the first call, and nothing else has a verdict."""
    mechanisms = in_force("intent", "scheduling")
    assert ("intent", "scheduling") == mechanisms.awake == tuple(mechanisms.by_name)
    assert ["intent", "scheduling"] == names(mechanisms, call({}))


def test_one_that_fails_does_not_silence_the_others(monkeypatch: pytest.MonkeyPatch) -> None:
    """A fault of one mechanism is counted and costs its verdict only."""
    faults: list[str] = []
    monkeypatch.setattr(guard, "on_fault", faults.append)
    monkeypatch.setattr(guard, "strict", False)
    monkeypatch.setattr(SymbolicJudge, "judge", lambda *_: 1 / 0)
    assert ["pruning", "intent", "zeroing", "scheduling", "prompt_cache"] == names(in_force(), call({}))
    assert ["judge"] == faults


def test_a_mechanism_whose_waking_is_lost_wakes_again() -> None:
    """Two threads may wake two mechanisms at once: the one that is overwritten sleeps and can wake again."""
    with lz_otel.testing.capture():
        runtime = _runtime.current()
        assert runtime is not None
        judges = runtime.judges

        def woken() -> Iterator[str]:
            judges._wake(("intent",))  # another thread, in the middle of this one's turn
            yield "scheduling"

        judges._wake(woken())
        assert ("intent" in judges._sleeping) is not ("intent" in judges.awake)
        judges._wake(("intent",))
        assert {"intent", "scheduling"} <= set(judges.awake)
