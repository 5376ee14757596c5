"""Article 002: sampling by intent; each silent downgrade has its reason."""

from __future__ import annotations

import os
import random
from typing import Any

import pytest

from lz_otel._judge.intent import BETA, unsupported_model
from tests.judge.ended_calls import body, ended_call, make, rows, said

ASKED = {"anthropic-sampling-intent": "deterministic", "anthropic-beta": f"other-1, {BETA}"}
HIT = {"x-anthropic-layer-zero": "true", "x-anthropic-sampling-intent": "deterministic"}
STREAM = body(stream=True)
CALLS, REPEATS, CHANGES = "lz.intent.calls", "lz.intent.repeats", "lz.intent.transitions"


def fill(judge: Any) -> None:
    """Put in more than it may hold."""
    bits = random.Random(1).getrandbits
    for _ in range(12_000):
        judge._outputs.put(bits(63), os.urandom(16))
        judge._sessions.put(bits(63), "creative")


def test_header_makes_a_hit() -> None:
    """``x-anthropic-layer-zero: true`` in the response is a hit."""
    assert said(make("intent").judge(ended_call(ASKED, HIT, request=STREAM))) == ("hit", None)


def test_hit_although_the_request_looks_wrong() -> None:
    """The header decides, also where the request would explain a downgrade."""
    assert said(make("intent").judge(ended_call({"anthropic-sampling-intent": "creative"}, HIT))) == (
        "hit",
        None,
    )


def test_hit_that_nobody_asked_for() -> None:
    """A served header without a request for it is a hit, by the intent that the response names."""
    result = make("intent").judge(ended_call({}, {**HIT, "x-anthropic-sampling-intent": "balanced"}))
    assert (said(result), rows(result)) == (("hit", None), {(CALLS, "balanced"): 1.0})


@pytest.mark.parametrize("value", ["false", "", "1"])
def test_other_header_values_are_no_hit(value: str) -> None:
    """Only ``true`` is a hit."""
    assert (
        said(make("intent").judge(ended_call(ASKED, {"x-anthropic-layer-zero": value}, request=STREAM)))[0]
        == "fallback"
    )


OLD, NEW = "claude-3-opus-20240229", "claude-3-5-sonnet-20240620"


@pytest.mark.parametrize(
    ("headers", "stream", "model", "reason"),
    [
        ({"x-anthropic-sampling-intent": "creative"}, False, OLD, "wrong_header"),
        ({"x-anthropic-sampling-intent": "creative", "anthropic-beta": BETA}, True, NEW, "wrong_header"),
        ({"anthropic-sampling-intent": "creative"}, False, OLD, "no_beta"),
        (
            {"anthropic-sampling-intent": "creative", "anthropic-beta": "tools-2024-08-06x"},
            True,
            NEW,
            "no_beta",
        ),
        ({"anthropic-sampling-intent": "creative", "anthropic-beta": BETA}, False, OLD, "not_streaming"),
        (
            {"anthropic-sampling-intent": "creative", "anthropic-beta": f"a,{BETA} ,b"},
            True,
            OLD,
            "unsupported_model",
        ),
        ({"anthropic-sampling-intent": "creative", "anthropic-beta": BETA}, True, NEW, "silent"),
        (
            {"anthropic-sampling-intent": "x", "x-anthropic-sampling-intent": "x", "anthropic-beta": BETA},
            True,
            NEW,
            "silent",
        ),
    ],
)
def test_silent_downgrade(headers: dict[str, str], stream: bool, model: str, reason: str) -> None:
    """Asked, a success, and no header: the first reason that applies, of five."""
    result = make("intent").judge(ended_call(headers, {}, request=body(stream=stream, model=model)))
    assert said(result) == ("fallback", reason)


@pytest.mark.parametrize(
    ("model", "old"),
    [
        ("claude-3-opus-20240229", True),
        ("claude-3-haiku-20240307", True),
        ("anthropic.claude-3-sonnet-20240229-v1:0", True),
        ("claude-3-opus@20240229", True),
        ("claude-3-opus-latest", True),
        ("claude-2.1", True),
        ("claude-instant-1.2", True),
        ("anthropic.claude-v2:1", True),
        ("claude-3-5-sonnet-20240620", False),
        ("claude-3-5-haiku-20241022", False),
        ("claude-sonnet-4-5", False),
        ("claude-opus-4-1-20250805", False),
        ("claude-20240101", True),
        ("gpt-4-20240101", False),
        (None, False),
    ],
)
def test_models_before_the_first_one(model: str | None, old: bool) -> None:
    """A Claude model is too old by its family, or by the date in its name."""
    assert unsupported_model(model) is old


@pytest.mark.parametrize(
    ("status", "message", "expected"),
    [
        (400, "temperature is deprecated in zero-layer mode", ("fallback", "temperature_rejected")),
        (400, "temperature: must be at most 1", (None, None)),
        (422, "temperature is deprecated in zero-layer mode", (None, None)),
        (400, None, (None, None)),
        (529, "Overloaded", (None, None)),
    ],
)
def test_temperature_rejected(
    status: int, message: str | None, expected: tuple[str | None, str | None]
) -> None:
    """A 400 that says so is a fallback; other errors are no verdict."""
    result = make("intent").judge(ended_call(ASKED, {}, request=STREAM, status=status, error_message=message))
    assert said(result) == expected


@pytest.mark.parametrize(
    ("stated", "intent"),
    [
        ("deterministic", "deterministic"),
        ("Creative", "creative"),
        (" balanced ", "balanced"),
        ("wild", "other"),
        ("", "other"),
    ],
)
def test_calls_by_intent(stated: str, intent: str) -> None:
    """Every call that states an intent is counted, by a closed list."""
    result = make("intent").judge(
        ended_call({"anthropic-sampling-intent": stated}, status=500, ending="error")
    )
    assert rows(result) == {(CALLS, intent): 1.0}


def test_nobody_asked() -> None:
    """No intent and no header: nothing to say, and no sink on the answer."""
    mechanism = make("intent")
    call = ended_call(mechanism=mechanism)
    assert (mechanism.judge(call), call.facts.text_sink) == (None, None)


def ask(
    mechanism: Any, answer: str, text: str = "Sort.", intent: str = "deterministic", **more: Any
) -> dict[Any, float]:
    headers = {**ASKED, "anthropic-sampling-intent": intent}
    return rows(
        mechanism.judge(
            ended_call(
                headers, HIT, request=body(text, stream=True), answer=answer, mechanism=mechanism, **more
            )
        )
    )


def test_repeats_are_compared() -> None:
    """The same request's output is compared with the one before, white space as is."""
    mechanism = make("intent")
    found = [ask(mechanism, answer) for answer in ("A b", "A b", "A  b", "A  b")]
    results = [next((k[2] for k in f if k[0] == REPEATS), None) for f in found]
    assert results == [None, "same", "different", "same"]


def test_repeats_belong_to_one_request_and_intent() -> None:
    """Another text or another intent is another request."""
    mechanism = make("intent")
    ask(mechanism, "A")
    assert not any(k[0] == REPEATS for k in ask(mechanism, "A", text="Other."))
    assert not any(k[0] == REPEATS for k in ask(mechanism, "A", intent="creative"))
    assert ask(mechanism, "B", intent="creative")[REPEATS, "creative", "different"] == 1.0


@pytest.mark.parametrize("more", [{"ending": "abandoned"}, {"ending": "incomplete"}, {"status": 500}])
def test_only_whole_answers_are_compared(more: dict[str, Any]) -> None:
    """An answer that is cut off is neither compared nor remembered."""
    mechanism = make("intent")
    ask(mechanism, "A")
    assert not any(k[0] == REPEATS for k in ask(mechanism, "B", **more))
    assert ask(mechanism, "A")[REPEATS, "deterministic", "same"] == 1.0


def test_answer_without_text_is_not_compared() -> None:
    """Without text there is nothing to compare."""
    mechanism = make("intent")
    ask(mechanism, "")
    assert not any(k[0] == REPEATS for k in ask(mechanism, ""))


def test_transitions_of_a_session() -> None:
    """From the second call of a session on: whether the intent differs from the call before."""
    mechanism = make("intent")
    found = [
        ask(mechanism, "A", intent=i, session=s)
        for i, s in (
            ("creative", "a"),
            ("creative", "a"),
            ("balanced", "b"),
            ("balanced", "a"),
            ("balanced", "a"),
        )
    ]
    results = [{k[1]: v for k, v in f.items() if k[0] == CHANGES} for f in found]
    assert results == [{}, {"false": 1.0}, {}, {"true": 1.0}, {"false": 1.0}]


def test_session_by_user_id() -> None:
    """Without a session of the operation, ``metadata.user_id`` tells it; without either there is none."""
    mechanism = make("intent")

    def one(intent: str, user: str | None) -> set[str]:
        request = body(metadata={"user_id": user}) if user else body()
        headers = {"anthropic-sampling-intent": intent}
        return {
            k[1] for k in rows(mechanism.judge(ended_call(headers, HIT, request=request))) if k[0] == CHANGES
        }

    assert [one("creative", "u"), one("balanced", "u"), one("creative", None), one("balanced", None)] == [
        set(),
        {"true"},
        set(),
        set(),
    ]


def test_sessions_are_held_as_salted_digests() -> None:
    """Neither session nor answer stays in memory; two processes hold different digests."""
    one, other = make("intent"), make("intent")
    for mechanism in (one, other):
        ask(mechanism, "secret answer", session="secret session")
    held = (one._sessions.items(), one._outputs.items())
    assert "secret" not in repr(held)
    assert [k for k, _ in one._sessions.items()] != [k for k, _ in other._sessions.items()]
