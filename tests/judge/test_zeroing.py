"""Article 003: report, masks and fallbacks of zeroing."""

from __future__ import annotations

import base64
import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lz_otel._judge.zeroing import Masks, parse_mask, parse_report
from tests.judge.ended_calls import body, ended_call, make, rows, said

ASKED = {"anthropic-layer-zero": "enabled"}
REPORT = {
    "total_layers": 32,
    "zeroed_layers": 14,
    "zeroed_params_ratio": 0.4375,
    "fallback_triggered": False,
    "routing_confidence": 0.92,
}
NAME = "x-anthropic-layer-zero-report"


def fill(judge: Any) -> None:
    """Show it calls: it remembers nothing beyond one."""
    for n in range(100):
        judge.judge(ended_call(ASKED, {NAME: encoded({**REPORT, "total_layers": 32 + n})}))


def encoded(report: Any) -> str:
    text = report if isinstance(report, str) else json.dumps(report)
    return base64.b64encode(text.encode()).decode()


def judged(report: Any, **more: Any) -> Any:
    return make("zeroing").judge(ended_call(ASKED, {NAME: encoded(report)}, **more))


def test_report_makes_a_hit() -> None:
    """A report without a fallback is a hit, and all its numbers are measured."""
    result = judged(REPORT)
    assert (said(result), rows(result)) == (
        ("hit", None),
        {
            ("lz.zeroing.params_ratio",): 0.4375,
            ("lz.zeroing.routing_confidence",): 0.92,
            ("lz.zeroing.layers", "all"): 32.0,
            ("lz.zeroing.layers", "zeroed"): 14.0,
        },
    )


def test_report_of_a_fallback() -> None:
    """``fallback_triggered: true`` is a fallback."""
    assert said(judged({**REPORT, "fallback_triggered": True})) == ("fallback", "triggered")


def test_report_unasked_counts() -> None:
    """A report is a report, whether or not the request visibly asked."""
    assert said(make("zeroing").judge(ended_call({}, {NAME: encoded(REPORT)}))) == ("hit", None)


@pytest.mark.parametrize(
    ("max_tokens", "reason"),
    [
        (8192, "no_report"),
        (8193, "too_long"),
        (True, "no_report"),
        ("9000", "no_report"),
        (None, "no_report"),
    ],
)
def test_no_report(max_tokens: Any, reason: str) -> None:
    """Asked and no report: ``too_long`` above 8,192 max_tokens, else ``no_report``."""
    assert said(make("zeroing").judge(ended_call(ASKED, request=body(max_tokens=max_tokens)))) == (
        "fallback",
        reason,
    )


@pytest.mark.parametrize(
    ("headers", "fields"),
    [
        (ASKED, {}),
        ({"anthropic-layer-zero": " Enabled "}, {}),
        ({}, {"zeroing_threshold": 3e-5}),
        ({}, {"stability_window": 10}),
        ({}, {"impact_tolerance": 0.01}),
        ({"anthropic-context-type": "summary"}, {}),
    ],
)
def test_each_way_of_asking(headers: dict[str, str], fields: dict[str, Any]) -> None:
    """Header, each body field and the context type ask."""
    assert said(make("zeroing").judge(ended_call(headers, request=body(**fields)))) == (
        "fallback",
        "no_report",
    )


@pytest.mark.parametrize("fields", [{}, {"user_segment": "vip"}, {"metadata": {"zeroing_threshold": 1}}])
def test_not_asked(fields: dict[str, Any]) -> None:
    """A segment alone, or the field somewhere inside, asks for nothing."""
    assert make("zeroing").judge(ended_call(request=body(**fields))) is None


def test_opted_out() -> None:
    """``anthropic-layer-zero: disabled`` is a bypass."""
    assert said(make("zeroing").judge(ended_call({"anthropic-layer-zero": "disabled"}))) == ("bypass", None)


def test_errors_are_no_fallback() -> None:
    """A call that failed for another reason says nothing."""
    assert make("zeroing").judge(ended_call(ASKED, status=529)) is None


@pytest.mark.parametrize(
    "header",
    [
        "%%%",
        "aGVsbG8",
        encoded("{"),
        encoded("[]"),
        encoded("NaN"),
        encoded('{"fallback_triggered": NaN}'),
        encoded({**REPORT, "x": "y" * 9000}),
        encoded('{"fallback_triggered": 1e999, "routing_confidence": -Infinity}'),
        encoded("[" * 5000),
        encoded('{"total_layers": ' + "9" * 5000 + "}"),
        "",
        "é",
        "YQ=",
        encoded({}),
    ],
)
def test_unreadable_report(header: str) -> None:
    """Bad base64, bad JSON, no object, NaN, infinite, huge or deep: counted, no verdict, nothing raised."""
    call = ended_call(ASKED, {NAME: header})
    assert (said(make("zeroing").judge(call)), call.facts.malformed) == ((None, None), ["report"])


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("total_layers", "32"),
        ("total_layers", 32.5),
        ("total_layers", True),
        ("zeroed_layers", -1),
        ("zeroed_layers", 33),
        ("zeroed_params_ratio", 1.01),
        ("zeroed_params_ratio", "0.4"),
        ("routing_confidence", True),
        ("routing_confidence", [0.9]),
        ("total_layers", 10**300),
        ("zeroed_params_ratio", 10**400),
    ],
)
def test_wrong_field_is_left_out(field: str, value: Any) -> None:
    """A field of a wrong type or out of range is counted and left out; the verdict stands."""
    call = ended_call(ASKED, {NAME: encoded({**REPORT, field: value})})
    result = make("zeroing").judge(call)
    metric = {"total_layers": "layers", "zeroed_layers": "layers", "zeroed_params_ratio": "params_ratio"}.get(
        field, field
    )
    assert (said(result), call.facts.malformed) == (("hit", None), ["report"])
    assert not any(key[0] == f"lz.zeroing.{metric}" for key in rows(result))


@pytest.mark.parametrize("value", ["false", 0, None])
def test_fallback_flag_of_a_wrong_type(value: Any) -> None:
    """Without a boolean ``fallback_triggered`` there is no verdict, and the rest is measured."""
    call = ended_call(ASKED, {NAME: encoded({**REPORT, "fallback_triggered": value})})
    result = make("zeroing").judge(call)
    assert (said(result), call.facts.malformed, len(rows(result))) == ((None, None), ["report"], 4)


def test_missing_fields_are_not_wrong() -> None:
    """A report may leave numbers out."""
    call = ended_call(ASKED, {NAME: encoded({"fallback_triggered": False})})
    assert (said(make("zeroing").judge(call)), call.facts.malformed) == (("hit", None), [])


def test_url_safe_base64_without_padding() -> None:
    """Both alphabets of base64 are read, with and without padding."""
    report = {**REPORT, "x": "ûÿ>?"}
    text = base64.urlsafe_b64encode(json.dumps(report, ensure_ascii=False).encode()).decode().rstrip("=")
    assert ("-" in text or "_" in text, parse_report(text)[1]) == (True, True)


@given(st.text())
def test_report_never_raises(text: str) -> None:
    """Whatever the header holds, nothing is raised."""
    parse_report(text)
    parse_report(encoded(text.encode("utf-8", "replace").decode()))


@pytest.mark.parametrize(
    "spelling",
    [
        [True, True, False],
        "[true,true,false]",
        "[true, true, false]",
        '["true", "true", "false"]',
        "['true', 'true', 'false']",
        "[True, True, False]",
        " [ true ,true, false ] ",
        '"[true,true,false]"',
        "'[true,true,false]'",
    ],
)
def test_mask_in_each_spelling(spelling: Any) -> None:
    """A list of booleans, or a text that holds one, with either kind of quotes or none."""
    assert parse_mask(spelling) == (True, True, False)


@pytest.mark.parametrize(
    "bad", ["", "true", "[1,0]", [1, 0], [None], ["true"], {}, 3, True, "[true", "[true,]", "[" * 70000]
)
def test_bad_mask(bad: Any) -> None:
    """Everything else is no mask."""
    assert parse_mask(bad) is None


@given(
    st.recursive(
        st.none() | st.booleans() | st.text() | st.floats(),
        lambda s: st.lists(s) | st.dictionaries(st.text(), s),
    )
)
def test_mask_never_raises(value: Any) -> None:
    """Whatever comes as a mask, nothing is raised."""
    Masks()(value)


def test_masks_of_a_stream() -> None:
    """Masks are counted, and those that differ from the one before; bad ones are malformed."""
    mechanism = make("zeroing")
    masks = ([True, False], "[true,false]", "['false','false']", "nonsense", [True, False], [True, False])
    assert ("lz.malformed", "mask") not in rows(mechanism.judge(ended_call(ASKED, {NAME: encoded(REPORT)})))
    call = ended_call(
        ASKED, {NAME: encoded(REPORT)}, request=body(stream=True), masks=masks, mechanism=mechanism
    )
    found = rows(mechanism.judge(call))
    assert (found["lz.zeroing.mask_events",], found["lz.zeroing.mask_switches",]) == (5.0, 2.0)
    assert found["lz.malformed", "mask"] == 1.0


def test_constant_mask_never_switches() -> None:
    """A mask that stays the same counts events and no switch."""
    mechanism = make("zeroing")
    call = ended_call(ASKED, {}, request=body(stream=True), masks=([True],) * 100, mechanism=mechanism)
    found = rows(mechanism.judge(call))
    assert (found["lz.zeroing.mask_events",], ("lz.zeroing.mask_switches",) in found) == (100.0, False)


def test_masks_are_only_looked_at_when_asked() -> None:
    """A call that did not ask gets no sink."""
    assert ended_call({}, request=body(stream=True), mechanism=make("zeroing")).facts.mask_sink is None
