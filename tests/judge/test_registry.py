"""All mechanisms of the contract, in one shape."""

from __future__ import annotations

import inspect
from typing import TYPE_CHECKING

import pytest

import lz_otel.testing
from lz_otel import _runtime, catalogue
from lz_otel._judge import MECHANISMS, signals
from lz_otel._judge.base import Mechanism
from tests.judge.exchanges import call

if TYPE_CHECKING:
    from collections.abc import Iterator


def test_every_mechanism_is_registered() -> None:
    """The registry holds the seven names of the catalogue, in its order, and nothing else."""
    assert tuple(MECHANISMS) == catalogue.MECHANISMS


@pytest.mark.parametrize("name", catalogue.MECHANISMS)
def test_one_shape(name: str) -> None:
    """Each is a `Mechanism` that is made from the table alone, and says so when it needs `begin`."""
    cls = MECHANISMS[name]
    assert issubclass(cls, Mechanism)
    assert (cls.NAME, cls.BEGINS) == (name, "begin" in vars(cls))
    assert (inspect.getdoc(cls) or "") != (inspect.getdoc(Mechanism) or "")
    cls(signals.load()).begin(call().request, call().facts)


@pytest.mark.parametrize("name", catalogue.MECHANISMS)
@pytest.mark.parametrize(
    ("status", "ending"), [(None, "error"), (500, "error"), (200, "abandoned"), (200, "cancelled")]
)
def test_calls_without_markers_say_nothing(name: str, status: int | None, ending: str) -> None:
    """A call that shows no marker of a mechanism has no measurement of it (a Claude call may miss)."""
    result = MECHANISMS[name](signals.load()).judge(call(status=status, ending=ending))  # type: ignore[arg-type]
    assert result is None or (
        result.verdict is not None and result.verdict.decision == "miss" and not result.measurements
    )


MARKED = {
    "symbolic": ({}, {"x-anthropic-layer": "zero"}),
    "pruning": ({"x-anthropic-layer-zero": "enabled"}, {"x-anthropic-layer-zero-pruned-tokens": "5"}),
    "intent": ({"anthropic-sampling-intent": "creative"}, {"x-anthropic-layer-zero": "true"}),
    "zeroing": ({"anthropic-layer-zero": "enabled"}, {}),
    "scheduling": ({"x-anthropic-layer-hint": "zero-latency"}, {"x-anthropic-layer-served": "zero"}),
}


@pytest.mark.parametrize("name", MARKED)
@pytest.mark.parametrize("field", ["inference", "llm_call"])
def test_only_inference_is_judged(name: str, field: str) -> None:
    """Embeddings, token counting and polling are no calls that a family could serve."""
    mechanism = MECHANISMS[name](signals.load())
    exchange = call(*MARKED[name])
    assert mechanism.judge(exchange) is not None
    setattr(exchange.facts, field, False)
    assert mechanism.judge(exchange) is None


def test_embeddings_may_come_from_a_store() -> None:
    """A gateway's store may answer for embeddings; what is no call at all is not judged."""
    mechanism = MECHANISMS["response_cache"](signals.load())
    exchange = call({}, {"helicone-cache": "HIT"}, inference=False)
    assert mechanism.judge(exchange) is not None
    exchange.facts.llm_call = False
    assert mechanism.judge(exchange) is None


@pytest.mark.parametrize("name", MARKED)
def test_neither_prices_nor_counts_are_needed(name: str) -> None:
    """Without a price table savings are unknown, without token counting its sources are silent; nothing fails."""
    result = MECHANISMS[name](signals.load()).judge(call(*MARKED[name], output_tokens=0))
    assert result is not None
    assert result.saved_usd is None


@pytest.mark.parametrize("name", catalogue.MECHANISMS)
def test_reasons_are_in_the_catalogue(name: str) -> None:
    """The reasons of a fallback that a module names are those that the catalogue lists for it."""
    source = inspect.getsource(inspect.getmodule(MECHANISMS[name]))  # type: ignore[arg-type]
    for reason in catalogue.FALLBACK_REASONS.get(name, ()):
        told_by_operations = name == "symbolic"
        told_by_gateways = name == "response_cache"
        assert told_by_operations or told_by_gateways or f'"{reason}"' in source


def test_a_mechanism_whose_waking_is_lost_wakes_again() -> None:
    """Two threads may wake two mechanisms at once: the one that is overwritten is asleep, not lost for ever."""
    with lz_otel.testing.capture():
        runtime = _runtime.current()
        assert runtime is not None
        judges = runtime.judges

        def names() -> Iterator[str]:
            judges._wake(("intent",))  # another thread, in the middle of this one's turn
            yield "scheduling"

        judges._wake(names())
        assert ("intent" in judges._sleeping) is not ("intent" in judges.awake)
        judges._wake(("intent",))
        assert {"intent", "scheduling"} <= set(judges.awake)
