"""The benchmark's own arithmetic: a wrong ratio would be worse than none."""

from __future__ import annotations

import contextlib
import re
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from benchmarks import worker
from benchmarks.budgets import BUDGETS
from benchmarks.cases import CASES, Case
from benchmarks.results import Measured, page, verdicts
from benchmarks.server import answers, events, message
from benchmarks.variants import LABELS, VARIANTS, Watch
from benchmarks.walk import PACKAGE, entries
from lz_otel import _extract

if TYPE_CHECKING:
    from collections.abc import Iterator

ROOT = Path(__file__).resolve().parent.parent
MOST_ENTRIES = 60  # into files of lz_otel, from the socket to the store's snapshot
# Bare and watched calls of three rounds; the second round ran on a machine at half speed.
ROUNDS = {
    "bare": [0.001, 0.002, 0.001],
    "prometheus": [0.0011, 0.0022, 0.0011],
    "otlp": [0.001, 0.002, 0.0015],
}


def test_ratios_are_of_the_same_round() -> None:
    """A slow spell of the machine hits both sides and cancels out."""
    measured = Measured({"sdk_1k": ROUNDS})
    assert pytest.approx([1.1, 1.1, 1.1]) == measured.ratios("sdk_1k", "prometheus")
    assert pytest.approx(1.1) == measured.ratio("sdk_1k", "prometheus")
    assert pytest.approx(1.0) == measured.ratio("sdk_1k", "otlp")
    assert pytest.approx(0.0001) == measured.added("sdk_1k", "prometheus")
    assert (None, None) == (measured.ratio("sdk_1k", "both"), measured.added("sdk_50k", "prometheus"))


def test_budgets_are_told_met_missed_or_not_measured() -> None:
    """A budget over its limit is not met, and one that was not measured is not called met."""
    rows = {promise: met for promise, _, _, met in verdicts(Measured({"sdk_1k": ROUNDS}), BUDGETS)}
    assert "**not met**" == rows["SDK, 1 KB answer"]
    assert "met" == rows["SDK, 1 KB, by OTLP instead"]
    assert "not measured" == rows["plain httpx2, 1 KB"]


def test_budgets_and_cases_fit() -> None:
    """Every budget on calls is about a case and a variant that are run, and every variant has a name."""
    full = Measured(
        {name: {key: [1.0, 2.0] for key in ("bare", *case.variants)} for name, case in CASES.items()}
    )
    missing = {promise for promise, _, shown, _ in verdicts(full, BUDGETS) if not shown}
    # nothing is added here, so there is no multiple of it; the others are figures, not calls
    assert {
        "every mechanism on, against what is added with none",
        "import lz_otel, beyond its dependencies' import",
        "instrument()",
        "memory beyond the dependencies'",
        "growth of memory over the calls below",
    } == missing
    assert list(VARIANTS) == list(LABELS)


def test_the_page_says_when_it_is_not_for_judging() -> None:
    """A run that is not whole is marked, so that its figures are not quoted."""
    measured = Measured({"sdk_1k": ROUNDS}, {"import": {"import_ms": 12.5}})
    assert "Not a full run" in page(measured, BUDGETS, 3, whole=False)
    text = page(measured, BUDGETS, 3, whole=True)
    assert "Not a full run" not in text
    assert "| lz-otel, Prometheus | 1100 [1100, 1650] | 1.100 [1.100, 1.100] | 100 |  |" in text


def test_the_loopback_api_is_what_the_cases_say() -> None:
    """Answers have the size, and streams the number of events, that the table claims."""
    assert 1000 == len(message(1000))
    assert 50_000 == len(message(50_000))
    assert (50, 2000) == (len(events(50)), len(events(2000)))
    assert 50 == answers()[b"s50"].count(b"event: ")


@pytest.mark.parametrize("path", ["/1k/v1/messages", "/chat/v1/chat/completions"])
def test_the_calls_are_seen_as_llm_calls(path: str) -> None:
    """The paths of the benchmark are candidates; the one of other traffic is not."""
    assert _extract.candidate("POST", path)
    assert _extract.candidate("POST", "/1k/api/orders") is None


@pytest.mark.parametrize(
    ("seen", "observed", "fits"), [(12, True, True), (11, True, False), (0, False, True), (1, False, False)]
)
def test_a_variant_that_sees_other_calls_than_were_made_is_no_result(
    seen: int, observed: bool, fits: bool, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """What sees nothing costs nothing: such a run must not end with figures."""

    @contextlib.contextmanager
    def variant(_sink: str) -> Iterator[Watch]:
        yield Watch(seen=lambda: seen)

    monkeypatch.setitem(CASES, "fake", Case("fake", 10, lambda _: lambda _: None, (), observed=observed))
    monkeypatch.setitem(VARIANTS, "fake", variant)
    argv = ["fake", "1", "2", "1", "bare", "fake"]
    if fits:
        worker.main(argv)
        assert '"fake"' in capsys.readouterr().out
    else:
        with pytest.raises(SystemExit, match="so its cost means nothing"):
            worker.main(argv)


def walked(*arguments: str) -> subprocess.CompletedProcess[str]:
    """Run the walk of one answer in a process of its own."""
    command = [sys.executable, "-m", "benchmarks.walk", *arguments]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=60, check=False)


def test_the_walk_of_an_answer_is_short() -> None:
    """One answer in two pieces enters files of lz_otel at most so often before it is on the page."""
    done = walked("--limit", str(MOST_ENTRIES))
    assert (0, "") == (done.returncode, done.stderr), done.stdout


def test_the_walk_adds_up() -> None:
    """The totals are the sums over the files, rendering comes on top, and a limit below them is a failure."""
    done = walked("--limit", "0")
    rows = [tuple(map(int, row)) for row in re.findall(r"^ *(\d+) +(\d+)  ", done.stdout, re.MULTILINE)]
    assert len(rows) > 10, done.stdout + done.stderr
    assert rows[-1] == tuple(map(sum, zip(*rows[:-1], strict=True)))
    assert rows[-1][0] < rows[-1][1]
    assert (1, "more than 0 entries up to the text of /metrics\n") == (done.returncode, done.stderr)


def made_in(file: str, source: str) -> Any:
    """Return the function ``f`` of a text that passes for a file."""
    scope: dict[str, Any] = {}
    exec(compile(source, file, "exec"), scope)
    return scope["f"]


def test_an_entry_is_a_change_of_file() -> None:
    """Calls and returns into another file count; steps within a file or in files of others do not."""
    inner = made_in(PACKAGE + "inner.py", "def f(): return len('')")
    foreign = made_in("foreign.py", "def f(g): g(); g()")
    outer = made_in(PACKAGE + "outer.py", "def f(g, h): (lambda: h(g))()")
    assert entries(inner) == {"inner.py": 1}
    assert entries(lambda: foreign(inner)) == {"inner.py": 1}
    assert entries(lambda: outer(inner, lambda g: g())) == {"outer.py": 2, "inner.py": 1}
    caller = made_in(PACKAGE + "outer.py", "def f(g): g(); g()")
    assert entries(lambda: caller(inner)) == {"outer.py": 3, "inner.py": 2}
    assert entries(lambda: re.escape("m")) == {}
