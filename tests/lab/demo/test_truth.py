"""Short runs beside the simulator: all is equal, and a fault of the library is found."""

from __future__ import annotations

import os
from typing import Any

import pytest

from lz_otel._judge.zeroing import ZeroingJudge
from lz_otel._measure import rules
from lz_otel.lab.demo import report
from lz_otel.lab.demo.soak import memory_after
from lz_otel.lab.demo.truth import CaseResult, cases, chosen, run_case

QUICK = ("healthy", "only-symbolic", "only-prompt-cache")
slow = pytest.mark.skipif(
    os.environ.get("LZ_SLOW") != "1", reason="takes a minute: set LZ_SLOW=1, or `make truth`"
)


def short(name: str, calls: int = 120) -> CaseResult:
    """One case, a few calls long."""
    return run_case(chosen([name])[0], calls)


def assert_equal(result: CaseResult) -> None:
    """Nothing differs; of so few calls one reason may be left open."""
    assert [] == [str(difference) for difference in result.differences]
    assert result.calls >= 120
    assert result.figures == result.equal > 500


@pytest.mark.parametrize("name", QUICK)
def test_a_short_run_is_equal(name: str) -> None:
    """Every verdict, reason and figure of a short run equals the simulator's truth."""
    assert_equal(short(name))


@slow
@pytest.mark.parametrize("name", [case.name for case in cases() if case.name not in QUICK])
def test_every_case_is_equal(name: str) -> None:
    """So does every other scenario, family and gateway."""
    assert_equal(short(name))


def test_a_wrong_verdict_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """A mechanism that calls a fallback a hit differs, in that mechanism, and in what follows from it."""
    judge = ZeroingJudge._judge_report

    def wrong(self: ZeroingJudge, *args: Any) -> Any:
        result = judge(self, *args)
        verdict = None if result is None else result.verdict
        if result is None or verdict is None:
            return result
        return result._replace(verdict=verdict._replace(decision="hit", reason=None))

    monkeypatch.setattr(ZeroingJudge, "_judge_report", wrong)
    result = short("only-zeroing")
    assert not result.good
    assert result.mechanisms["zeroing"]["different"] > 0
    assert {"equal"} == set(result.mechanisms["symbolic"])


def test_a_number_counted_twice_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """A rule that counts a saving twice differs in money, and in no verdict."""
    verdicts = rules._verdicts

    def twice(ended: Any, rows: list[Any]) -> None:
        verdicts(ended, rows)
        rows.extend([row for row in rows if row[0] is rules.c.SAVED_USD])

    monkeypatch.setattr(rules, "_verdicts", twice)
    result = short("only-symbolic")
    assert {"lz.saved.usd{symbolic}"} == {difference.what for difference in result.differences}


def test_the_report_says_what_differs(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The command ends with 1 and names case, call and both sides of what differs; else with 0."""
    monkeypatch.setattr(ZeroingJudge, "_masks", lambda *args: None)
    assert 1 == report.run(wanted=["only-zeroing"], calls=120)
    text = capsys.readouterr().out
    assert "only-zeroing: c" in text
    assert "lz.zeroing.mask_events: metrics say 0.0, the truth is" in text
    monkeypatch.undo()
    assert 0 == report.run(wanted=["only-zeroing"], calls=120)
    assert "All equal the simulator's truth." in capsys.readouterr().out


def test_the_soak_reaches_every_memory() -> None:
    """Distinct prompts get verdicts of all mechanisms that can conclude one, and memory is measured."""
    sizes, verdicts = memory_after(200, parts=2)
    assert {"symbolic", "pruning", "intent", "zeroing", "scheduling", "prompt_cache"} == {
        m for m, n in verdicts.items() if n == 200
    }
    assert 0 < sizes[0] < sizes[1]


@slow
def test_memory_is_bounded() -> None:
    """Forty thousand distinct prompts hold no more than twenty thousand do."""
    sizes, _ = memory_after(60_000, parts=3)
    assert sizes[2] <= sizes[1] * 1.02
