"""The figures that the demo ends with: equal where the metrics are right, and different where one is off."""

from __future__ import annotations

from typing import Any

import pytest

from lz_otel import catalogue as c
from lz_otel._measure.store import Store
from lz_otel.lab.demo.checks import Check, compare
from lz_otel.lab.demo.view import truth_table

COMMON = ("chat", "anthropic", "claude-haiku-5-5", "classify", "")
MODEL = "claude-haiku-5-5"


def record(**changes: Any) -> dict[str, Any]:
    """The truth about one plain call that the symbolic engine has answered."""
    return {
        "ordinal": 1,
        "call": "c0",
        "api": "messages",
        "status": 200,
        "ending": "complete",
        "usage_sent": "full",
        "path": "fast",
        "stream": False,
        "input_tokens": 90,
        "cache_read_tokens": 0,
        "cache_write_tokens": 0,
        "output_tokens": 7,
        "reasoning_tokens": 0,
        "mechanisms": {"symbolic": {"verdict": "hit"}},
        **changes,
    }


def rows(ending: str = "ok") -> list[Any]:
    """What the metrics hold after that call."""
    shared = (*COMMON, MODEL, "", "fast", "symbolic", "false", ending)
    return [
        (c.INFERENCE_DURATION, shared, 0.03),
        (c.ATTEMPTS, (*COMMON, "200"), 1.0),
        (c.INPUT_TOKENS, (*COMMON, MODEL, "text"), 90.0),
        (c.OUTPUT_TOKENS, (*COMMON, MODEL, "text"), 7.0),
        (c.FAST_PATH_CALLS, (*COMMON, "symbolic", "hit"), 1.0),
    ]


def store_of(measurements: list[Any]) -> Store:
    """A store that holds these."""
    store = Store(c.selected("latest"))
    store.add(measurements)
    return store


def test_right_metrics_are_equal() -> None:
    """Every figure of a call that was counted right equals the truth."""
    checks = compare(store_of(rows()), [record()])
    assert {} == {k.name: (k.measured, k.truth) for k in checks if not k.equal}
    assert {"calls", "calls ended ok", "attempts 200", "input tokens", "output tokens", "symbolic: hit"} == {
        check.name for check in checks
    }


@pytest.mark.parametrize(
    ("row", "figures"),
    [
        (0, {"calls", "calls ended ok"}),
        (1, {"attempts 200"}),
        (2, {"input tokens"}),
        (3, {"output tokens"}),
        (4, {"symbolic: hit"}),
    ],
)
def test_a_wrong_number_is_seen(row: int, figures: set[str]) -> None:
    """A number that is added twice, or not at all, differs in its own figure and in no other."""
    twice = compare(store_of([*rows(), rows()[row]]), [record()])
    without = compare(store_of([r for n, r in enumerate(rows()) if n != row]), [record()])
    assert [figures, figures] == [{k.name for k in checks if not k.equal} for checks in (twice, without)]


def test_the_table_says_what_differs() -> None:
    """A figure that is off stands in the table with DIFFERS, the others with equal."""
    from rich.console import Console

    console = Console(width=100, record=True, file=open("/dev/null", "w"))  # noqa: SIM115, PTH123 - nothing is shown
    console.print(truth_table([Check("calls", 3, 3), Check("retries", 2, 1)]))
    lines = [line for line in console.export_text().splitlines() if "calls" in line or "retries" in line]
    assert [True, True] == ["equal" in lines[0], "DIFFERS" in lines[1]]


def test_a_call_given_up_may_count_or_not() -> None:
    """A call that the application cancelled may be in a figure up to what it would have added."""
    lost = record(call="c1", ordinal=2)
    seen = [*rows(), *rows("cancelled")]
    assert {} == {k.name: k for k in compare(store_of(seen), [record(), lost], {"c1"}) if not k.equal}
    only_begun = [*rows(), rows("cancelled")[0]]
    assert {} == {k.name: k for k in compare(store_of(only_begun), [record(), lost], {"c1"}) if not k.equal}
    beyond = [*seen, rows()[2]]
    assert {"input tokens"} == {
        k.name for k in compare(store_of(beyond), [record(), lost], {"c1"}) if not k.equal
    }


def test_fast_attempts_given_up_are_fallbacks() -> None:
    """A standard attempt that stood in is a fallback of symbolic where it was answered the full way."""
    full = record(call="c0-standard", path="full", mechanisms={})
    fallback = [(c.FAST_PATH_CALLS, (*COMMON, "symbolic", "fallback"), 1.0)]
    kept = [r for r in rows() if r[0] is not c.FAST_PATH_CALLS]
    for records, equal in (([full], True), ([{**full, "path": "fast"}], False)):
        checks = compare(store_of([*kept, *fallback]), records, frozenset(), {"c0-standard"})
        assert equal == all(check.equal for check in checks)
