"""The rules: an ended call goes in, and whole lists of rows come out."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lz_otel import catalogue as c
from lz_otel._judge.result import Result
from lz_otel._measure import rules
from lz_otel._price.cost import Cost
from lz_otel.mechanisms import REPLACES, REPLAYS, SHORTENS, of_effect
from lz_otel.model import Ending, Facts, Verdict
from tests.measure.ended import ANSWERED, COMMON, ended, facts, hit

BASE = (*COMMON, ANSWERED)
TEXT = (*BASE, "text")
FULL = (*COMMON, "full")
SERVED_IN_FULL = ("", "full", "", "false", "ok")  # error type, path, served by, stream, ending


def rows_of(metric: c.Metric, rows: list[rules.Row]) -> list[tuple[tuple[str, ...], Any]]:
    """Return labels and value of each row of one metric, in order."""
    return [(labels, value) for one, labels, value in rows if one is metric]


def stated(**counts: Any) -> Facts:
    """Return the facts of a chat whose usage was stated to the end."""
    return facts(**{"usage_seen": True, "output_final": True, "input_tokens": 10, **counts})


# --- path -------------------------------------------------------------------------------------------


def test_a_call_without_a_hit_took_the_full_path() -> None:
    """No result, no verdict, a miss, a fallback and a bypass all leave the path full."""
    missed = [Result(Verdict("symbolic", decision)) for decision in ("miss", "fallback", "bypass")]
    assert rules.path_of([]) == ("full", "", False)
    assert rules.path_of([Result(None), *missed]) == ("full", "", False)


@pytest.mark.parametrize("mechanism", of_effect(SHORTENS))
def test_what_shortens_an_inference_does_not_replace_it(mechanism: str) -> None:
    """A hit of the prompt cache or of pruning is still a full inference."""
    assert rules.path_of([hit(mechanism)]) == ("full", "", False)


@pytest.mark.parametrize("mechanism", of_effect(REPLACES))
def test_what_replaces_an_inference_makes_the_path_fast(mechanism: str) -> None:
    """A fast engine serves the call, and a model ran for it."""
    assert rules.path_of([hit(mechanism)]) == ("fast", mechanism, False)


def test_the_first_mechanism_that_served_names_the_path() -> None:
    """Of several hits the first in the contract's order is ``lz.served_by``."""
    assert rules.path_of([hit("pruning"), hit("symbolic"), hit("zeroing")]) == ("fast", "symbolic", False)


@pytest.mark.parametrize("mechanism", of_effect(REPLAYS))
def test_a_stored_answer_goes_before_every_other_hit(mechanism: str) -> None:
    """A stored answer is there before any other mechanism can serve, wherever its result is in the list."""
    results = [hit("symbolic"), hit(mechanism), hit("zeroing")]
    assert rules.path_of(results) == ("fast", mechanism, True)


# --- attempts ---------------------------------------------------------------------------------------


def test_an_attempt_counts_once_by_what_came_back() -> None:
    """The first attempt is no retry."""
    assert rules.attempt(COMMON, "200", None) == [(c.ATTEMPTS, (*COMMON, "200"), 1.0)]


def test_a_retry_also_counts_its_reason() -> None:
    """An attempt after the first says what was wrong with the one before."""
    assert rules.attempt(COMMON, "200", "529") == [
        (c.ATTEMPTS, (*COMMON, "200"), 1.0),
        (c.CALL_RETRIES, (*COMMON, "529"), 1.0),
    ]


# --- duration ---------------------------------------------------------------------------------------


def test_an_inference_is_timed_with_all_that_it_came_to() -> None:
    """One sample of the inference's duration, with model, error, path, mechanism, stream and ending."""
    call = ended(facts(stream=True), ending=Ending.ERROR, error_type="overloaded", results=[hit("zeroing")])
    labels = (*BASE, "overloaded", "fast", "zeroing", "true", "error")
    rows = rules.call(call)
    assert rows_of(c.INFERENCE_DURATION, rows) == [(labels, 2.0)]
    assert rows_of(c.GENAI_OPERATION_DURATION, rows) == rows_of(c.LEGACY_GENAI_OPERATION_DURATION, rows) == []


def test_what_is_no_inference_is_timed_apart() -> None:
    """An embedding is a sample of the operation's duration, and of nothing else."""
    assert rules.call(ended(facts(inference=False, free=True))) == [
        (c.GENAI_OPERATION_DURATION, (*BASE, *SERVED_IN_FULL), 2.0)
    ]


def test_a_clock_that_went_back_gives_no_negative_duration() -> None:
    """A call that ended before it began took no time, by either convention."""
    rows = rules.call(ended(facts(), started_at=100.0, ended_at=99.0), legacy=True)
    assert rows_of(c.INFERENCE_DURATION, rows) == [((*BASE, *SERVED_IN_FULL), 0.0)]
    assert rows_of(c.LEGACY_GENAI_OPERATION_DURATION, rows) == [((*BASE, *SERVED_IN_FULL, "anthropic"), 0.0)]


def test_the_shortest_call_keeps_its_duration() -> None:
    """A duration above 0 is counted as it is."""
    rows = rules.call(ended(facts(), started_at=100.0, ended_at=100.25))
    assert rows_of(c.INFERENCE_DURATION, rows) == [((*BASE, *SERVED_IN_FULL), 0.25)]


@pytest.mark.parametrize("inference", [True, False])
def test_the_older_convention_times_every_call(inference: bool) -> None:
    """Conventions 1.36 know one duration, with the provider as ``gen_ai.system`` at the end."""
    rows = rules.call(ended(facts(inference=inference)), legacy=True)
    assert rows_of(c.LEGACY_GENAI_OPERATION_DURATION, rows) == [((*BASE, *SERVED_IN_FULL, "anthropic"), 2.0)]


# --- streams ----------------------------------------------------------------------------------------


def streamed(**more: Any) -> Facts:
    """Return the facts of a stream with content from 101.0 to 102.0 and eight tokens."""
    return stated(
        **{
            "stream": True,
            "first_content_at": 101.0,
            "first_visible_at": 101.5,
            "last_content_at": 102.0,
            "output_tokens": 8,
            "chunk_gaps": ([1, 2], 0.75, 3),
            **more,
        }
    )


def timings(rows: list[rules.Row]) -> list[rules.Row]:
    """Return the rows about the course of a stream."""
    stream = (
        c.TIME_TO_FIRST_CHUNK,
        c.TIME_TO_FIRST_TOKEN,
        c.TIME_TO_FIRST_VISIBLE,
        c.TIME_PER_OUTPUT_CHUNK,
        c.OUTPUT_RATE,
    )
    return [row for row in rows if row[0] in stream]


def test_a_stream_is_timed_from_the_start_of_the_call() -> None:
    """First piece, first content, the gaps between pieces of content, and tokens by the time they took."""
    assert timings(rules.call(ended(streamed(), results=[hit("symbolic")]))) == [
        (c.TIME_TO_FIRST_CHUNK, (*COMMON, "fast"), 0.5),
        (c.TIME_TO_FIRST_TOKEN, (*COMMON, "fast", "symbolic"), 1.0),
        (c.TIME_TO_FIRST_VISIBLE, (*COMMON, "fast"), 1.5),
        (c.TIME_PER_OUTPUT_CHUNK, (*COMMON, "fast"), ([1, 2], 0.75, 3)),
        (c.OUTPUT_RATE, (*COMMON, "fast"), 8.0),
    ]


def test_the_rate_is_that_of_the_content() -> None:
    """Tokens are divided by the seconds from the first to the last content."""
    rows = rules.call(ended(streamed(first_content_at=100.5, last_content_at=102.5)))
    assert rows_of(c.OUTPUT_RATE, rows) == [(FULL, 4.0)]


def test_an_answer_in_one_piece_has_no_stream_timings() -> None:
    """Only a stream has a first chunk, a first token, gaps and a rate."""
    assert timings(rules.call(ended(streamed(stream=False)))) == []


@pytest.mark.parametrize(
    "outcome", [{"first_byte_at": None}, {"status": None}, {"status": 400}, {"status": 529}]
)
def test_a_refusal_has_no_first_chunk(outcome: dict[str, Any]) -> None:
    """Without a body, or with one that states an error, there is no time to the first chunk."""
    assert rows_of(c.TIME_TO_FIRST_CHUNK, rules.call(ended(streamed(), **outcome))) == []


def test_the_first_chunk_needs_no_success_of_its_own() -> None:
    """Any status below 400 has one."""
    assert rows_of(c.TIME_TO_FIRST_CHUNK, rules.call(ended(streamed(), status=399))) == [(FULL, 0.5)]


@pytest.mark.parametrize("missing", ["first_content_at", "last_content_at"])
def test_a_stream_without_content_has_a_first_chunk_only(missing: str) -> None:
    """What depends on content is left out when there was none."""
    assert timings(rules.call(ended(streamed(**{missing: None})))) == [(c.TIME_TO_FIRST_CHUNK, FULL, 0.5)]


@pytest.mark.parametrize("gaps", [None, ([0, 0], 0.0, 0)])
def test_no_gap_is_no_sample(gaps: Any) -> None:
    """A single piece of content leaves no time between pieces."""
    assert rows_of(c.TIME_PER_OUTPUT_CHUNK, rules.call(ended(streamed(chunk_gaps=gaps)))) == []


def test_gaps_are_a_tuple() -> None:
    """The store takes prepared counts only as a tuple, whatever the reader gathered them in."""
    rows = rules.call(ended(streamed(chunk_gaps=[[1, 2], 0.75, 3])))
    assert rows_of(c.TIME_PER_OUTPUT_CHUNK, rows) == [(FULL, ([1, 2], 0.75, 3))]


@pytest.mark.parametrize(
    "more",
    [
        {"output_final": False},
        {"output_tokens": None},
        {"output_tokens": 0},
        {"last_content_at": 101.0},
        {"last_content_at": 101.0 + 0.9e-3},
    ],
)
def test_a_rate_needs_a_final_count_and_some_time(more: dict[str, Any]) -> None:
    """A placeholder count, no token, or less than a millisecond gives no rate."""
    assert rows_of(c.OUTPUT_RATE, rules.call(ended(streamed(**more)))) == []


def test_a_millisecond_is_enough_for_a_rate() -> None:
    """The shortest time that counts is a millisecond."""
    rows = rules.call(ended(streamed(first_content_at=0.0, last_content_at=1e-3)))
    assert rows_of(c.OUTPUT_RATE, rows) == [(FULL, 8000.0)]


# --- usage ------------------------------------------------------------------------------------------


def usage(rows: list[rules.Row]) -> list[rules.Row]:
    """Return the rows about tokens."""
    return [row for row in rows if row[0].unit == "{token}"]


def test_every_token_that_was_stated_is_counted() -> None:
    """Input, output, reasoning, cache reads and writes, in this order."""
    counts = {"output_tokens": 7, "reasoning_tokens": 3, "cache_read_tokens": 4, "cache_write_tokens": 6}
    assert usage(rules.call(ended(stated(**counts)))) == [
        (c.INPUT_TOKENS, TEXT, 10.0),
        (c.OUTPUT_TOKENS, TEXT, 7.0),
        (c.REASONING_TOKENS, TEXT, 3.0),
        (c.CACHE_READ_TOKENS, TEXT, 4.0),
        (c.CACHE_WRITE_TOKENS, TEXT, 6.0),
    ]


def test_a_count_of_zero_is_a_count() -> None:
    """Stated zeros make series; no reasoning makes none."""
    counts = {"input_tokens": 0, "output_tokens": 0, "reasoning_tokens": 0}
    cached = {"cache_read_tokens": 0, "cache_write_tokens": 0}
    assert usage(rules.call(ended(stated(**counts, **cached)))) == [
        (c.INPUT_TOKENS, TEXT, 0.0),
        (c.OUTPUT_TOKENS, TEXT, 0.0),
        (c.CACHE_READ_TOKENS, TEXT, 0.0),
        (c.CACHE_WRITE_TOKENS, TEXT, 0.0),
    ]


def test_a_count_that_was_not_stated_is_not_guessed() -> None:
    """Without usage there is no row about tokens."""
    assert usage(rules.call(ended(facts()), legacy=True)) == []


def test_a_placeholder_is_no_output_count() -> None:
    """Output tokens, and reasoning in them, count only as the provider's last word."""
    counts = {"output_tokens": 7, "reasoning_tokens": 3, "output_final": False}
    assert usage(rules.call(ended(stated(**counts)), legacy=True)) == [
        (c.INPUT_TOKENS, TEXT, 10.0),
        (c.LEGACY_TOKEN_USAGE, (*BASE, "anthropic", "input"), 10.0),
    ]


def test_an_embedding_counts_its_input() -> None:
    """What is no inference has tokens when its input was stated, and none otherwise."""
    assert usage(rules.call(ended(stated(inference=False)))) == [(c.INPUT_TOKENS, TEXT, 10.0)]
    silent = stated(inference=False, input_tokens=None, output_tokens=7, cache_read_tokens=4)
    assert usage(rules.call(ended(silent))) == []


def test_an_inference_counts_output_without_input() -> None:
    """Each count stands by itself, the parts of the input too."""
    counts = {"input_tokens": None, "output_tokens": 7, "cache_read_tokens": 4, "cache_write_tokens": 6}
    assert usage(rules.call(ended(stated(**counts)))) == [
        (c.OUTPUT_TOKENS, TEXT, 7.0),
        (c.CACHE_READ_TOKENS, TEXT, 4.0),
        (c.CACHE_WRITE_TOKENS, TEXT, 6.0),
    ]


@pytest.mark.parametrize(
    ("read", "written", "counted"),
    [
        (11, None, [11.0]),
        (4, 3, [4.0, 3.0]),
        (None, 3, [3.0]),
    ],
)
def test_parts_are_counted_as_stated(read: int | None, written: int | None, counted: list[float]) -> None:
    """No number is counted that nobody stated: `_extract.usage` leaves out what contradicts."""
    rows = rules.call(ended(stated(cache_read_tokens=read, cache_write_tokens=written)))
    parts = (c.CACHE_READ_TOKENS, c.CACHE_WRITE_TOKENS)
    assert [value for metric, _, value in rows if metric in parts] == counted


def test_the_older_convention_has_tokens_by_type() -> None:
    """Input and final output are samples of one histogram, with the provider as ``gen_ai.system``."""
    rows = rules.call(ended(stated(output_tokens=7)), legacy=True)
    assert rows_of(c.LEGACY_TOKEN_USAGE, rows) == [
        ((*BASE, "anthropic", "input"), 10.0),
        ((*BASE, "anthropic", "output"), 7.0),
    ]
    assert rows_of(c.LEGACY_TOKEN_USAGE, rules.call(ended(stated(output_tokens=7)))) == []


def test_a_modality_takes_its_tokens_from_the_text() -> None:
    """Each token counts once: what is split off is no text any more."""
    rows = rules.call(ended(stated(input_tokens_by_modality={"image": 3, "text": 5, "audio": 2})))
    assert rows_of(c.INPUT_TOKENS, rows) == [
        ((*BASE, "image"), 3.0),
        ((*BASE, "audio"), 2.0),
        (TEXT, 5.0),
    ]


def test_output_is_split_by_its_own_modalities() -> None:
    """The split of the output is not that of the input."""
    split = {"input_tokens_by_modality": {"image": 3}, "output_tokens_by_modality": {"audio": 2}}
    rows = rules.call(ended(stated(output_tokens=7, **split)))
    assert rows_of(c.OUTPUT_TOKENS, rows) == [((*BASE, "audio"), 2.0), (TEXT, 5.0)]


@pytest.mark.parametrize(
    ("split", "counted"),
    [
        ({"image": 11}, [("text", 10.0)]),
        ({"image": 10}, [("image", 10.0), ("text", 0.0)]),
        ({"image": 6, "audio": 5}, [("image", 6.0), ("text", 4.0)]),
        ({"image": 11, "audio": 5}, [("audio", 5.0), ("text", 5.0)]),
        ({"image": 1}, [("image", 1.0), ("text", 9.0)]),
        ({"image": 0}, [("text", 10.0)]),
        ({"image": -1}, [("text", 10.0)]),
        ({"text": 11}, [("text", 10.0)]),
    ],
)
def test_a_split_beyond_the_whole_is_left_in_the_text(
    split: dict[str, int], counted: list[tuple[str, float]]
) -> None:
    """A modality with more tokens than are left, with none or with fewer is no part of ten tokens."""
    rows = rules.call(ended(stated(input_tokens_by_modality=split)))
    assert [(labels[-1], value) for labels, value in rows_of(c.INPUT_TOKENS, rows)] == counted


@given(
    whole=st.integers(0, 100),
    split=st.dictionaries(st.sampled_from(["text", "image", "audio", "unknown"]), st.integers(-5, 120)),
)
def test_modalities_add_up_to_the_whole(whole: int, split: dict[str, int]) -> None:
    """Whatever split a server states, no count is negative and the sum is the whole."""
    rows = rules.call(ended(stated(input_tokens=whole, input_tokens_by_modality=split)))
    values = [value for _, value in rows_of(c.INPUT_TOKENS, rows)]
    assert sum(values) == whole
    assert min(values) >= 0


# --- missing usage ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("of", "outcome", "reason"),
    [
        ({"usage_seen": True}, {}, None),
        ({}, {"status": None}, None),
        ({}, {"status": 300}, None),
        ({}, {"status": 500}, None),
        ({}, {"status": 299}, "not_sent"),
        ({}, {"ending": Ending.ABANDONED}, "ended_early"),
        ({}, {"ending": Ending.CANCELLED}, "ended_early"),
        ({}, {"ending": Ending.INCOMPLETE}, "ended_early"),
        ({}, {"ending": Ending.ERROR}, "ended_early"),
        ({}, {"ending": Ending.ERROR, "encoding_failed": True}, "compressed"),
        ({}, {"ending": Ending.ABANDONED, "encoding_failed": True}, "ended_early"),
        ({"malformed": ["body"]}, {"encoding_failed": True}, "compressed"),
        ({"malformed": ["body"], "too_large": True}, {}, "too_large"),
        ({"malformed": ["body"]}, {}, "malformed"),
        ({"malformed": ["usage"]}, {}, "malformed"),
        ({"malformed": ["mask", "encoding"]}, {}, "malformed"),
        ({"malformed": ["mask"]}, {}, "not_sent"),
        ({"malformed": ["body"], "stream": True, "usage_requested": False}, {}, "malformed"),
        ({"stream": True, "usage_requested": False}, {}, "not_requested"),
        ({"stream": True, "usage_requested": True}, {}, "not_sent"),
        ({"stream": True}, {}, "not_sent"),
        ({"usage_requested": False}, {}, "not_sent"),
    ],
)
def test_missing_usage_has_one_reason(
    of: dict[str, Any], outcome: dict[str, Any], reason: str | None
) -> None:
    """Of several reasons the one that explains most is counted, and none when no usage was to be had."""
    call = ended(facts(**of), **outcome)
    assert rules.usage_missing_reason(call) == reason
    counted = [] if reason is None else [((*COMMON, reason), 1.0)]
    assert rows_of(c.USAGE_MISSING_CALLS, rules.call(call)) == counted


def test_every_paid_operation_misses_its_usage() -> None:
    """An embedding, an image or a ranking without usage is counted as well; what is free is not."""
    for more, counted in ((True, 1), (False, 0)):
        rows = rules.call(ended(facts(inference=False, free=not more)))
        assert counted == len(rows_of(c.USAGE_MISSING_CALLS, rows))


# --- a response cache's answer ----------------------------------------------------------------------


def test_a_cached_answer_counts_no_token_again() -> None:
    """No model ran: the call is timed and the hit counts, and no stream, usage or missing usage is."""
    of = streamed(cache_read_tokens=4, usage_seen=False)
    assert rules.call(ended(of, results=[hit("response_cache")]), legacy=True) == [
        (c.INFERENCE_DURATION, (*BASE, "", "fast", "response_cache", "true", "ok"), 2.0),
        (
            c.LEGACY_GENAI_OPERATION_DURATION,
            (*BASE, "", "fast", "response_cache", "true", "ok", "anthropic"),
            2.0,
        ),
        (c.FAST_PATH_CALLS, (*COMMON, "response_cache", "hit"), 1.0),
    ]


# --- verdicts ---------------------------------------------------------------------------------------


def conclusions(*results: Result) -> list[rules.Row]:
    """Return the rows of a call beyond its duration, with these conclusions."""
    return rules.call(ended(facts(inference=False, free=True), results=results))[1:]


def test_a_verdict_counts_once() -> None:
    """A miss is one row."""
    assert conclusions(Result(Verdict("symbolic", "miss", "no_match"))) == [
        (c.FAST_PATH_CALLS, (*COMMON, "symbolic", "miss"), 1.0)
    ]


@pytest.mark.parametrize(("reason", "counted"), [("timeout", "timeout"), (None, "other"), ("", "other")])
def test_a_fallback_counts_its_reason(reason: str | None, counted: str) -> None:
    """A fallback without a reason has the reason ``other``."""
    assert conclusions(Result(Verdict("symbolic", "fallback", reason))) == [
        (c.FAST_PATH_CALLS, (*COMMON, "symbolic", "fallback"), 1.0),
        (c.FAST_PATH_FALLBACKS, (*COMMON, "symbolic", counted), 1.0),
    ]


@pytest.mark.parametrize(("cold", "label"), [(True, "true"), (False, "false")])
def test_an_engine_says_its_own_time(cold: bool, label: str) -> None:
    """The engine's time is a sample even when it is 0, apart for cold starts."""
    assert conclusions(hit("symbolic", engine_seconds=0.0, cold=cold)) == [
        (c.FAST_PATH_CALLS, (*COMMON, "symbolic", "hit"), 1.0),
        (c.ENGINE_DURATION, (*COMMON, "symbolic", label), 0.0),
    ]


@pytest.mark.parametrize(
    ("usd", "money"),
    [
        (0.25, [(c.SAVED_USD, (*COMMON, "prompt_cache"), 0.25)]),
        (-0.25, [(c.OVERSPENT_USD, (*COMMON, "prompt_cache"), 0.25)]),
        (0.0, []),
        (None, []),
    ],
)
def test_savings_and_overspending_are_two_counters(usd: float | None, money: list[rules.Row]) -> None:
    """A counter never goes down: what was saved and what was overspent count apart, and 0 is neither."""
    assert conclusions(hit("prompt_cache", usd)) == [
        (c.FAST_PATH_CALLS, (*COMMON, "prompt_cache", "hit"), 1.0),
        *money,
    ]


def test_a_mechanism_measures_without_a_verdict() -> None:
    """What a result counts gets the common attributes in front; money needs a verdict."""
    measured = ((c.INTENT_CALLS, ("creative",), 1.0), (c.MASK_EVENTS, (), 3.0))
    assert conclusions(Result(None, measured, saved_usd=1.0)) == [
        (c.INTENT_CALLS, (*COMMON, "creative"), 1.0),
        (c.MASK_EVENTS, COMMON, 3.0),
    ]


# --- money ------------------------------------------------------------------------------------------


def test_a_priced_call_costs_money() -> None:
    """Its cost counts by the model that answered, and it is not unpriced."""
    rows = rules.call(ended(stated(), cost=Cost(0.5, 0.5)))
    assert rows_of(c.COST_USD, rows) == [(BASE, 0.5)]
    assert rows_of(c.COST_UNPRICED, rows) == []


def test_a_call_without_a_price_is_counted_as_such() -> None:
    """A part of what it is billed for has no price: it counts under that part, and costs nothing."""
    rows = rules.call(ended(stated(), unpriced="audio"))
    assert rows_of(c.COST_UNPRICED, rows) == [((*COMMON, "audio"), 1.0)]
    assert rows_of(c.COST_USD, rows) == []


@pytest.mark.parametrize(
    ("of", "results"),
    [
        ({"llm_call": False}, []),
        ({"input_tokens": None}, []),
        ({}, [hit("response_cache")]),
    ],
)
def test_what_no_model_was_paid_for_is_not_unpriced(of: dict[str, Any], results: list[Result]) -> None:
    """No model, no stated input or an answer from a cache: there is nothing to price."""
    assert rows_of(c.COST_UNPRICED, rules.call(ended(stated(**of), results=results))) == []


# --- unreadable signals -----------------------------------------------------------------------------


def test_every_unreadable_signal_is_counted() -> None:
    """Each one is a row, repeated ones too, also of a call from a cache."""
    of = facts(inference=False, free=True, malformed=["mask", "body", "mask"])
    for results in ([], [hit("response_cache")]):
        rows = rules.call(ended(of, results=results))
        assert [labels[-1] for labels, _ in rows_of(c.MALFORMED, rows)] == ["mask", "body", "mask"]
        assert rows_of(c.MALFORMED, rows)[0] == ((*COMMON, "mask"), 1.0)


# --- counters that start at 0 -----------------------------------------------------------------------


def zeros(*awake: str, first: bool) -> dict[c.Metric, list[tuple[str, ...]]]:
    """Return the label sets that start at 0, by metric; none of a metric is given twice."""
    pairs = list(rules.zeros(COMMON, awake, first=first))
    made = dict(pairs)
    assert len(made) == len(pairs)
    return made


def test_counters_of_every_call_start_with_the_first_one() -> None:
    """All combinations of closed values, for exactly the metrics that the catalogue says start at 0."""
    made = zeros(first=True)
    assert set(made) == {
        m
        for m in c.ALL
        if m.starts_at_zero
        and m.attributes[:5] == c.COMMON
        and not m.mechanism
        and m.attributes[5:6] != (c.MECHANISM,)
    }
    assert made[c.COST_UNPRICED] == [(*COMMON, part) for part in c.PARTS]
    reasons = c.USAGE_MISSING_CALLS.attributes[-1].values
    assert made[c.USAGE_MISSING_CALLS] == [(*COMMON, reason) for reason in reasons]


def test_a_mechanism_starts_its_own_counters() -> None:
    """Those that carry its name as a label, and those that are its own; of other mechanisms none."""
    made = zeros("symbolic", first=False)
    assert made[c.FAST_PATH_CALLS] == [(*COMMON, "symbolic", verdict) for verdict in c.VERDICTS]
    reasons = c.FALLBACK_REASONS["symbolic"]
    assert made[c.FAST_PATH_FALLBACKS] == [(*COMMON, "symbolic", reason) for reason in reasons]
    assert made[c.SAVED_USD] == [(*COMMON, "symbolic")]
    assert made[c.SYMBOLIC_EVIDENCE] == [
        (*COMMON, signal) for signal in c.SYMBOLIC_EVIDENCE.attributes[-1].values
    ]
    assert {m.mechanism for m in made} == {"", "symbolic"}
    assert c.USAGE_MISSING_CALLS not in made


def test_no_mechanism_and_no_first_call_start_nothing() -> None:
    """What has started is not started again."""
    assert zeros(first=False) == {}


def test_a_mechanism_without_reasons_of_its_own_has_no_fallback_to_start() -> None:
    """A metric without a label set is not named."""
    mechanism = next(name for name in c.MECHANISMS if name not in c.FALLBACK_REASONS)
    made = zeros(mechanism, first=False)
    assert c.FAST_PATH_FALLBACKS not in made
    assert made[c.SAVED_USD] == [(*COMMON, mechanism)]


def test_several_mechanisms_start_together() -> None:
    """Two mechanisms have the sets of both, in their order."""
    made = zeros("symbolic", "pruning", first=True)
    assert [labels[5] for labels in made[c.SAVED_USD]] == ["symbolic", "pruning"]
    assert made[c.PRUNED_TOKENS] == [COMMON]
    assert c.COST_UNPRICED in made
