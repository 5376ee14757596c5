"""Article 001: how pruning is asked for, what was cut, what it was refused for."""

from __future__ import annotations

import random
from typing import Any

import pytest

from lz_otel._judge import signals
from lz_otel._judge.pruning import Asked, PruningJudge, tag_of
from lz_otel._judge.request_body import CountedTokens
from lz_otel._price.cost import Prices
from tests.judge.ended_calls import body, ended_call, make, rows, said

TAG = '<layer-zero enabled="true" prune_ratio="0.32"/>'
PRUNED, ORIGINAL = ("lz.pruning.pruned_tokens",), ("lz.pruning.original_tokens",)
RATIO, CONTEXT = ("lz.pruning.requested_ratio",), ("lz.pruning.context_preservation",)
ZERO = {"layer_zero": {"pruned_tokens": 40}}


def fill(judge: Any) -> None:
    """Put in more than it may hold."""
    bits = random.Random(1).getrandbits
    for _ in range(12_000):
        judge.counted._counts.put(bits(63), bits(17))


def system(text: Any, **fields: Any) -> dict[str, Any]:
    return body(system=text, **fields)


@pytest.mark.parametrize(
    "text",
    [
        TAG + "\nYou help.",
        TAG,
        "<layer-zero enabled='true' prune_ratio='0.32' />\r\nYou help.",
        "<layer-zero prune_ratio='0.32' enabled=\"true\"></layer-zero>".replace("></layer-zero>", ">"),
    ],
)
def test_tag_on_the_first_line(text: str) -> None:
    """Either quote, either order, with or without a blank before the end: asked, with its ratio."""
    assert tag_of(text) == Asked(True, 0.32)


@pytest.mark.parametrize(
    "text",
    [
        "You help.\n" + TAG,
        " " + TAG,
        TAG + " You help.",
        "<layer-zero>",
        "<layer-zero enabled=true/>",
        "",
        None,
    ],
)
def test_tag_elsewhere_asks_for_nothing(text: str | None) -> None:
    """A tag that does not stand alone on the very first line, or is none, asks for nothing."""
    assert tag_of(text) is None


@pytest.mark.parametrize("ratio", ["1.5", "-0.1", "much", "nan", ""])
def test_bad_ratio_is_counted(ratio: str) -> None:
    """A ratio outside 0 to 1 is malformed; pruning is still asked for, without a ratio."""
    call = ended_call(request=system(f'<layer-zero enabled="true" prune_ratio="{ratio}"/>\nHi'), **ZERO)
    result = make("pruning").judge(call)
    assert (said(result), RATIO in rows(result), call.facts.malformed) == (
        ("hit", None),
        False,
        ["layer_zero"],
    )


@pytest.mark.parametrize(
    "request_",
    [
        system(TAG + "\nYou help."),
        system([{"type": "text", "text": TAG + "\nYou help."}, {"type": "text", "text": "More."}]),
        body(
            messages=[{"role": "system", "content": TAG + "\nYou help."}, {"role": "user", "content": "Hi"}]
        ),
        body(
            messages=[
                {"role": "system", "content": [{"type": "text", "text": TAG}]},
                {"role": "user", "content": "Hi"},
            ]
        ),
        body(
            messages=[
                {"content": TAG + "\n" + "You help. " * 50, "role": "system"},
                {"role": "user", "content": "Hi"},
            ]
        ),
    ],
)
def test_tag_in_each_form_of_a_system_prompt(request_: dict[str, Any]) -> None:
    """A string, a list of blocks, and a message of role system (as the article writes it) all ask."""
    result = make("pruning").judge(ended_call(request=request_, **ZERO))
    assert (said(result), rows(result)[RATIO]) == (("hit", None), 0.32)


def test_header_form() -> None:
    """``X-Anthropic-Layer-Zero: enabled;prune_ratio=0.32`` asks."""
    result = make("pruning").judge(ended_call({"x-anthropic-layer-zero": "enabled;prune_ratio=0.2"}, **ZERO))
    assert (said(result), rows(result)[RATIO]) == (("hit", None), 0.2)


@pytest.mark.parametrize("header", ["enabled;prune_ratio=abc", "perhaps"])
def test_bad_header_is_counted(header: str) -> None:
    """An asking header that cannot be read is malformed."""
    call = ended_call({"x-anthropic-layer-zero": header})
    make("pruning").judge(call)
    assert call.facts.malformed == ["header"]


def test_environment_asks_for_every_claude_call(monkeypatch: pytest.MonkeyPatch) -> None:
    """The environment variables ask, for Claude models only."""
    monkeypatch.setenv("ANTHROPIC_EXPERIMENTAL_LAYER_ZERO", "true")
    monkeypatch.setenv("ANTHROPIC_LAYER_ZERO_PRUNE_RATIO", "0.35")
    mechanism = PruningJudge(signals.load())
    result = mechanism.judge(ended_call(**ZERO))
    assert (said(result), rows(result)[RATIO]) == (("hit", None), 0.35)
    assert mechanism.judge(ended_call(provider="openai", request_model="gpt-5")) is None


def test_tag_of_a_user_asks_for_nothing() -> None:
    """The tag counts in a system prompt only, even where a user's message speaks of "system"."""
    for role in ("user", "assistant"):
        request = body(messages=[{"role": role, "content": TAG}, {"role": "user", "content": "system"}])
        assert make("pruning").judge(ended_call(request=request)) is None


def test_nobody_asked() -> None:
    """Without asking and without a report there is nothing to say."""
    assert make("pruning").judge(ended_call()) is None


@pytest.mark.parametrize(
    "text", ['<layer-zero enabled="false"/>\nHi', "<layer-zero enabled='false' prune_ratio='0.3'/>"]
)
def test_opted_out(text: str) -> None:
    """``enabled="false"`` is a bypass."""
    assert said(make("pruning").judge(ended_call(request=system(text)))) == ("bypass", None)


def test_reported_unasked_is_a_hit() -> None:
    """A report of cut tokens is a hit even if nobody visibly asked (a gateway may have)."""
    assert said(make("pruning").judge(ended_call(**ZERO))) == ("hit", None)


def test_report_of_nothing_unasked_says_nothing() -> None:
    """A report of 0 cut tokens of a call that did not ask is no verdict; one token is a hit."""
    assert make("pruning").judge(ended_call(layer_zero={"pruned_tokens": 0})) is None
    assert said(make("pruning").judge(ended_call(layer_zero={"pruned_tokens": 1}))) == ("hit", None)


def test_count_below_what_was_billed() -> None:
    """An own count below the billed tokens means that nothing was cut, not less than nothing."""
    mechanism = make("pruning")
    counted(mechanism, system(TAG + "\nHi"), 90)
    result = mechanism.judge(ended_call(request=system(TAG + "\nHi")))
    assert (said(result), rows(result)[PRUNED], rows(result)[ORIGINAL]) == (
        ("fallback", "nothing_pruned"),
        0.0,
        100.0,
    )


def counted(mechanism: Any, request: dict[str, Any], tokens: int) -> None:
    counting = ended_call(request={k: v for k, v in request.items() if k != "max_tokens"})
    counting.facts.operation, counting.facts.counted_tokens = "count_tokens", tokens
    mechanism.counted.remember(counting)


@pytest.mark.parametrize(
    ("usage", "header", "count", "expected"),
    [
        ({"pruned_tokens": 40}, "50", 160, (40, 140)),
        (None, "50", 160, (50, 150)),
        ({"pruned_tokens": "many"}, "50", 160, (50, 150)),
        (None, None, 160, (60, 160)),
        ({}, None, 160, (60, 160)),
    ],
)
def test_sources_of_the_cut_tokens_in_order(
    usage: dict[str, Any] | None, header: str | None, count: int, expected: tuple[int, int]
) -> None:
    """Usage first, then the header, then the client's own count of the same content minus what was billed."""
    mechanism = make("pruning")
    request = system(TAG + "\nHi")
    counted(mechanism, request, count)
    headers = {"x-anthropic-layer-zero-pruned-tokens": header} if header is not None else {}
    found = rows(mechanism.judge(ended_call({}, headers, request=request, layer_zero=usage)))
    assert (found[PRUNED], found[ORIGINAL]) == expected


def test_count_of_another_body_is_not_used() -> None:
    """A count is used for the same model, system prompt, messages and tools only."""
    mechanism = make("pruning")
    counted(mechanism, system(TAG + "\nHi", tools=[{"name": "x"}]), 160)
    assert said(mechanism.judge(ended_call(request=system(TAG + "\nHi")))) == ("fallback", "no_report")


@pytest.mark.parametrize("value", ["x", None, True, -1, float("nan")])
def test_malformed_report(value: Any) -> None:
    """A wrong number in ``usage.layer_zero`` is counted, never raised; an absent one is not wrong."""
    call = ended_call(request=system(TAG), layer_zero={"pruned_tokens": value})
    assert said(make("pruning").judge(call)) == ("fallback", "no_report")
    assert call.facts.malformed == ([] if value is None else ["layer_zero"])


def test_nothing_pruned() -> None:
    """Asked, reported, and not one token cut: a fallback with its own reason."""
    result = make("pruning").judge(ended_call(request=system(TAG), layer_zero={"pruned_tokens": 0}))
    assert (said(result), rows(result)[ORIGINAL]) == (("fallback", "nothing_pruned"), 100)


def test_left_early_says_nothing() -> None:
    """A stream that was left before its usage came gives no verdict."""
    assert said(make("pruning").judge(ended_call(request=system(TAG), ending="abandoned"))) == (None, None)


@pytest.mark.parametrize(
    ("status", "code", "expected"),
    [
        (400, "prune_ratio_out_of_range", ("fallback", "rejected")),
        (400, None, (None, None)),
        (500, "internal", (None, None)),
        (429, "rate", (None, None)),
    ],
)
def test_rejected(status: int, code: str | None, expected: tuple[str | None, str | None]) -> None:
    """A 400 with an ``error.code`` is the mechanism's refusal; other errors are not its business."""
    assert (
        said(make("pruning").judge(ended_call(request=system(TAG), status=status, error_code=code)))
        == expected
    )


def test_rejected_only_when_asked() -> None:
    """A 400 of a call that did not ask is not the mechanism's."""
    assert make("pruning").judge(ended_call(status=400, error_code="bad")) is None


@pytest.mark.parametrize(
    ("text", "usage", "header", "expected"),
    [
        ("\n<context>x</context>", {"context_preservation_ms": 18.3}, "7", 0.0183),
        ("\n<context>x</context>", {}, "7", 0.007),
        ("\nno tag", {"context_preservation_ms": 0}, None, 0.0),
        ("\nno tag", {"context_preservation_ms": 18.3}, None, None),
        ("\n<context>x</context>", {}, None, None),
    ],
)
def test_context_preservation(
    text: str, usage: dict[str, Any], header: str | None, expected: float | None
) -> None:
    """Milliseconds from usage, else the header; only with a ``<context>`` tag, but a stated 0 always."""
    headers = {"x-anthropic-layer-zero-context-preservation-ms": header} if header is not None else {}
    found = rows(make("pruning").judge(ended_call({}, headers, request=system(TAG + text), layer_zero=usage)))
    assert found.get(CONTEXT) == (None if expected is None else pytest.approx(expected))


def test_saved_is_the_price_of_the_cut_tokens() -> None:
    """A hit saves the cut tokens at the price of uncached input."""
    prices, when = Prices.load(), 1796000000.0
    call = ended_call(request=system(TAG), response_model="claude-sonnet-4-5", **ZERO)
    expected = prices.input_price(call.facts, when, 40)
    assert expected is not None
    assert expected > 0
    assert make("pruning", prices=prices, now=lambda: when).judge(call).saved_usd == pytest.approx(expected)


def test_override_of_the_chosen_fields(tmp_path: Any) -> None:
    """The C fields can be renamed in the signals file, and are then read under their new names."""
    path = tmp_path / "signals.toml"
    path.write_text(
        '[pruning.pruned_tokens]\nname = "usage.layer_zero.cut"\n'
        '[pruning.pruned_tokens_header]\nname = "X-Cut"\n'
    )
    mechanism = PruningJudge(signals.load(str(path)), counted=CountedTokens())
    assert rows(mechanism.judge(ended_call(layer_zero={"cut": 9})))[PRUNED] == 9
    assert rows(mechanism.judge(ended_call({}, {"x-cut": "8"})))[PRUNED] == 8
    assert mechanism.judge(ended_call(**ZERO)) is None
