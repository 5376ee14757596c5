"""Figures of a made-up service: its models, and what a mechanism's hits look like.

They are chosen to look like the healthy ranges of the signal contract (C); nothing here is measured. A
mechanism that has no figures here gets plain ones: for each of its metrics one in each label set.
"""

from __future__ import annotations

import math
from itertools import product
from typing import TYPE_CHECKING, NamedTuple

from lz_otel import catalogue as c

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from lz_otel.lab.history._incidents import State
    from lz_otel.model import Verdict


class Model(NamedTuple):
    """A model: who answers it, USD per million tokens, and median seconds of an answer."""

    name: str
    provider: str
    input_usd: float
    output_usd: float
    seconds: float
    reasoning: float = 0.0


MODELS = (
    Model("claude-sonnet-4-5", "anthropic", 3.0, 15.0, 2.6),
    Model("claude-haiku-4-5", "anthropic", 1.0, 5.0, 1.1),
    Model("gpt-5-mini", "openai", 0.25, 2.0, 1.9, 0.35),
    Model("gemini-2.5-flash", "gcp.gemini", 0.3, 2.5, 1.4, 0.2),
)
EMBEDDER = Model("text-embedding-3-small", "openai", 0.02, 0.0, 0.12)


def model(name: str) -> Model:
    """Return the known model of that name, or one like the first."""
    return next((known for known in MODELS if known.name == name), MODELS[0]._replace(name=name))


class Hit(NamedTuple):
    """A call that a mechanism served on the fast path.

    Attributes:
        seconds: how long the answer takes.
        input_price, output_price: shares of the full price of its tokens that are paid.
        output: whether it has output tokens.
        engine: (share of the hits, seconds that the engine reports or ``None``, whether it was a cold start).
    """

    seconds: float = 0.3
    input_price: float = 1.0
    output_price: float = 1.0
    output: bool = True
    engine: tuple[tuple[float, float | None, bool], ...] = ((1.0, None, False),)


_HITS = {
    "symbolic": Hit(0.031, 0.2, 0.0, False, ((0.99, 0.021, False), (0.01, 0.14, True))),
    "intent": Hit(0.19),
    "zeroing": Hit(0.62),
    "scheduling": Hit(0.25, 0.72, 0.72),
    "response_cache": Hit(0.04, 0.0, 0.0),
}


def hit_of(mechanism: str) -> Hit:
    """Return what a hit of a mechanism looks like."""
    return _HITS.get(mechanism, Hit())


# Metrics that are counted for other verdicts than hits.
_WHEN = dict.fromkeys(
    (c.INTENT_CALLS, c.INTENT_REPEATS, c.INTENT_TRANSITIONS, c.SIMILAR_CALLS, c.GHOST_ENTITIES), c.VERDICTS
) | dict.fromkeys((c.PROMPT_CACHE_MISSES, c.PROMPT_CACHE_WRITE_TOKENS), ("miss",))

Figures = dict[tuple[str, ...], float]


def measurements(
    verdict: Verdict, tokens: tuple[int, int], written: int, state: State
) -> Iterator[tuple[c.Metric, tuple[str, ...], float]]:
    """Yield what a call with this verdict adds to the mechanism's own metrics, on average.

    Args:
        verdict: of the mechanism.
        tokens: input and output tokens of the call.
        written: tokens written to the prompt cache.
        state: what is wrong at the moment.
    """
    known = _known(tokens, written, state)
    for metric in c.ALL:
        if metric.mechanism == verdict.mechanism and verdict.decision in _WHEN.get(metric, ("hit",)):
            for labels, value in known.get(metric, _plain(metric)).items():
                yield metric, labels, value


def _plain(metric: c.Metric) -> Figures:
    value = metric.buckets[len(metric.buckets) // 2] if metric.buckets else 1.0
    return dict.fromkeys(product(*(a.values for a in metric.attributes[len(c.COMMON) :])), value)


def _known(tokens: tuple[int, int], written: int, s: State) -> Mapping[c.Metric, Figures]:
    prompt, masks = tokens[0], tokens[1] * 0.25
    calm = s.zeroed < 0.7
    different = 0.2 * (0.00003 if s.shares["intent"].hit > 0.5 else 0.01)
    return {
        c.SYMBOLIC_EVIDENCE: {
            ("header",): 1.0, ("zero_output",): 1.0, ("input_match",): 0.9, ("contradiction",): 0.0002,
        },
        c.ORIGINAL_TOKENS: {(): prompt},
        c.PRUNED_TOKENS: {(): prompt * s.pruned * 0.94},
        c.REQUESTED_RATIO: {(): s.pruned},
        c.CONTEXT_PRESERVATION: {(): 0.012},
        c.INTENT_CALLS: {("deterministic",): 0.55, ("creative",): 0.2, ("balanced",): 0.25},
        c.INTENT_REPEATS: {
            ("deterministic", "same"): 0.2, ("deterministic", "different"): different,
            ("creative", "same"): 0.004, ("creative", "different"): 0.05,
        },
        c.INTENT_TRANSITIONS: {("true",): 0.1, ("false",): 0.5},
        c.ZEROING_PARAMS_RATIO: {(): s.zeroed},
        c.ZEROING_CONFIDENCE: {(): 0.88 if calm else 0.61},
        c.ZEROING_LAYERS: {("all",): 80, ("zeroed",): 80 * s.zeroed * 0.8},
        c.MASK_EVENTS: {(): masks},
        c.MASK_SWITCHES: {(): masks * (0.22 if calm else 0.01)},
        c.SIMILAR_CALLS: {(): 0.11},
        c.GHOST_ENTITIES: {(): s.ghosts},
        c.PROMPT_CACHE_WRITE_TOKENS: {("5m",): written * 0.8, ("1h",): written * 0.2} if written else {},
        c.PROMPT_CACHE_MISSES: {
            ("first_use",): 0.2, ("expired",): 0.25, (s.shares["prompt_cache"].reason,): 0.55,
        },
    }  # fmt: skip


# Standard deviation of the logarithm of a histogram's observations.
_SPREADS = {
    c.OPERATION_CALLS: 0.0, c.QUALITY: 0.015, c.ZEROING_PARAMS_RATIO: 0.13, c.ZEROING_CONFIDENCE: 0.05,
    c.REQUESTED_RATIO: 0.05, c.ENGINE_DURATION: 0.1,
}  # fmt: skip
_MOST = {"s": 150.0, "{ratio}": 0.99, "{score}": 1.0}


def spread_of(metric: c.Metric, value: float) -> tuple[float, float]:
    """Return how far observations of a metric are spread round a median, and the largest that occurs."""
    fast = metric.unit == "s" and value < 0.3  # engines vary less than models
    return _SPREADS.get(metric, 0.25 if fast else 0.5), _MOST.get(metric.unit, math.inf)
