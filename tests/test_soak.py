"""The soak's arguments, and that what it compares is found to differ when it does."""

from __future__ import annotations

import logging
import subprocess
import sys
import threading
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest
from prometheus_client.core import CounterMetricFamily, HistogramMetricFamily

from benchmarks import soak_workers
from benchmarks.arguments import without_proxies
from benchmarks.soak import LEAST, Sample, flatness, parser
from benchmarks.soak_traffic import Ledger, name, still_running
from benchmarks.soak_truth import against_truth, callers, compare, found, truth, whole
from lz_otel import catalogue as c
from lz_otel.lab.demo._money import TruthPrices
from lz_otel.lab.simulator import load
from lz_otel.lab.simulator._truth import Mechanism, Record, Truth, read_lines

if TYPE_CHECKING:
    from pathlib import Path

TRAFFIC = load("healthy").traffic
MODEL = "claude-sonnet-4-6"
USAGE = {
    "input_tokens": 1500,
    "uncached_tokens": 500,
    "cache_read_tokens": 1000,
    "output_tokens": 40,
    "would_output_tokens": 40,
}


def record(ordinal: int, route: str, call: int, **more: Any) -> Record:
    """One request of the Messages API that went well, with what differs from that."""
    base = {
        "call": name(route, call),
        "route": route,
        "api": "messages",
        "model": MODEL,
        "stream": True,
        "status": 200,
        "ending": "complete",
        "usage_sent": "full",
        "mechanisms": {"prompt_cache": Mechanism("hit")},
        **USAGE,
    }
    return Record(ordinal, **(base | more))


def failed(ordinal: int, route: str, call: int, status: int) -> Record:
    """One attempt that got an HTTP error."""
    return Record(
        ordinal, name(route, call), route, api="messages", model=MODEL, status=status, ending="error"
    )


def log_of(*records: Record) -> list[bytes]:
    """The lines of a truth log."""
    log = Truth()
    for each in records:
        log.begin()
        log.finish(each)
    return log.lines().splitlines()


def ledger_of(**calls: int) -> Ledger:
    """A ledger of calls that went well, by route."""
    ledger = Ledger()
    for route, count in calls.items():
        for _ in range(count):
            ledger.add(route, "ok")
    return ledger


def usd(output: int) -> float:
    """What the usage above costs with so many output tokens."""
    usage = {"input_tokens": 1500, "cache_read_tokens": 1000, "output_tokens": output}
    bill = TruthPrices().bill(MODEL, {**usage, "cache_write_tokens": 0, "cache_write_1h_tokens": 0})
    assert bill is not None
    return float(bill.usd)


def broken(rows: list[Any]) -> list[str]:
    """Names of the rows that do not hold."""
    return [what for what, _, _, holds in rows if not holds]


# --- arguments -----------------------------------------------------------------------------


@pytest.mark.parametrize("value", ["0", "0.5", "-5", "nan", "inf", "soon"])
def test_a_time_too_short_to_compare_memory_in_is_refused(
    value: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """An unusable --seconds ends with 2 and an error that has the value and what is allowed."""
    with pytest.raises(SystemExit) as ended:
        parser().parse_args([f"--seconds={value}"])
    error = capsys.readouterr().err
    assert ended.value.code == 2
    assert f"argument --seconds: '{value}' is not allowed: a number of seconds, {LEAST:g} or more" in error


@pytest.mark.parametrize("option", ["--threads", "--tasks"])
@pytest.mark.parametrize("value", ["0", "-1", "2.5", "many"])
def test_callers_are_counted_from_one(option: str, value: str, capsys: pytest.CaptureFixture[str]) -> None:
    """Without callers there is nothing to soak: fewer than one is an error that says so."""
    with pytest.raises(SystemExit):
        parser().parse_args([f"{option}={value}"])
    assert (
        f"argument {option}: '{value}' is not allowed: a whole number, 1 or more" in capsys.readouterr().err
    )


def test_the_least_time_is_taken() -> None:
    """The bound itself is allowed."""
    assert parser().parse_args([f"--seconds={LEAST:g}", "--threads=1"]).seconds == LEAST


def test_no_proxy_is_left() -> None:
    """However they are spelt, proxies are left out, and nothing else is."""
    environment = {"HTTP_PROXY": "x", "https_proxy": "x", "All_Proxy": "x", "PATH": "y"}
    without_proxies(environment)
    assert environment == {"PATH": "y"}


# --- what the process holds ----------------------------------------------------------------


def test_a_leak_does_not_hold() -> None:
    """Memory, files and threads that grow for all of the run are each found; peaks are not."""
    leak = [Sample(100.0 + n, n, n) for n in range(50)]
    peaks = [Sample(100.0 + 50.0 * (n % 7 == 0), 10, 5) for n in range(50)]
    assert broken(flatness(leak)) == [
        f"{what}: grown since the middle" for what in ("memory", "files", "threads")
    ]
    assert broken(flatness(peaks)) == []


def test_too_few_samples_do_not_hold() -> None:
    """Without a middle and an end nothing is said to be flat, and nothing raises."""
    assert broken(flatness([])) == ["samples of memory"]


def test_a_thread_that_does_not_end_is_told() -> None:
    """Of the threads that were joined, those still alive are named."""
    gate = threading.Event()
    stuck = threading.Thread(target=gate.wait, daemon=True, name="stuck")
    ended = threading.Thread(target=bool)
    for thread in (stuck, ended):
        thread.start()
    ended.join()
    assert still_running([stuck, ended], 0.0) == ["stuck"]
    gate.set()
    assert still_running([stuck, ended], 60.0) == []


# --- the truth -----------------------------------------------------------------------------


def test_the_truth_of_a_call_with_a_retry() -> None:
    """One call of two attempts: its retry by reason, its verdicts, its ending, its cost."""
    records = read_lines(log_of(failed(1, "plain", 1, 529), record(2, "plain", 1)))
    figures, most = truth("plain", records, TRAFFIC)
    assert most == {}
    assert figures["plain", "calls"] == 1
    assert figures["plain", "retries", "529"] == 1
    assert {key[2:]: n for key, n in figures.items() if key[1] == "attempts"} == {("529",): 1, ("200",): 1}
    assert {key[2:]: n for key, n in figures.items() if key[1] == "verdicts"} == {
        ("prompt_cache", "hit"): 1,
        ("symbolic", "miss"): 1,
    }
    assert figures["plain", "ended", "ok"] == 1
    assert figures["plain", c.COST_USD.name] == pytest.approx(usd(40))
    assert figures["plain", c.SAVED_USD.name, "prompt_cache"] > 0


def test_the_truth_of_a_call_that_was_left() -> None:
    """Its input side is exact; the cost lies between what its first event and what its whole answer say."""
    gone = record(1, "break", 1, ending="client_closed", usage_sent="none")
    gone.mechanisms["prompt_cache"].visible = False
    figures, most = truth("break", read_lines(log_of(gone)), TRAFFIC, {name("break", 1)})
    cost = ("break", c.COST_USD.name)
    assert figures["break", c.INPUT_TOKENS.name] == 1500
    assert figures["break", "verdicts", "prompt_cache", "hit"] == 1
    assert (figures[cost], most[cost]) == (pytest.approx(usd(1)), pytest.approx(usd(40)))


def test_a_call_that_was_left_before_its_first_event_has_no_usage() -> None:
    """What the caller has not read, the truth does not claim."""
    gone = record(1, "break", 1, ending="client_closed", usage_sent="none", mechanisms={})
    figures, _ = truth("break", read_lines(log_of(gone)), TRAFFIC, set())
    assert figures["break", "calls"] == 1
    assert ("break", c.INPUT_TOKENS.name) not in figures


# --- both sides ----------------------------------------------------------------------------

LINES = log_of(
    failed(1, "plain", 1, 529),
    record(2, "plain", 1),
    record(3, "plain", 2, mechanisms={"zeroing": Mechanism("fallback", "triggered")}),
    record(4, "break", 1, ending="client_closed", usage_sent="start"),
)


def ledger() -> Ledger:
    """Of the callers that made the calls above."""
    made = ledger_of(plain=2)
    made.add("break", "other", begun=1)
    return made


def right() -> dict[tuple[str, ...], float]:
    """What lz_otel would say of the calls above, were it right."""
    rows = read_lines(LINES)
    plain, _ = truth("plain", [r for r in rows if r["route"] == "plain"], TRAFFIC)
    left, _ = truth("break", [r for r in rows if r["route"] == "break"], TRAFFIC, {name("break", 1)})
    return {**plain, **left}


def test_equal_sides_hold() -> None:
    """When both sides say the same, every row holds, and there are rows."""
    rows = against_truth(LINES, ledger(), TRAFFIC, right())
    assert len(rows) > 20
    assert broken(rows) == []


@pytest.mark.parametrize(
    "what",
    [
        "verdicts",
        "retries",
        c.COST_USD.name,
        c.SAVED_USD.name,
        c.FAST_PATH_FALLBACKS.name,
        "calls",
        "operations",
        "path",
        "attempts",
        "ended",
    ],
)
def test_a_figure_that_is_missing_does_not_hold(what: str) -> None:
    """Whatever lz_otel no longer counts is named."""
    seen = {key: value for key, value in right().items() if key[1] != what}
    found_broken = broken(against_truth(LINES, ledger(), TRAFFIC, seen))
    assert found_broken
    assert all(row.split(": ")[1].startswith(what) for row in found_broken)


@pytest.mark.parametrize("key", [("plain", "verdicts", "pruning", "hit"), ("plain", "retries", "429")])
def test_a_figure_too_many_does_not_hold(key: tuple[str, ...]) -> None:
    """What only lz_otel has is named, too."""
    seen = right() | {key: 1.0}
    assert broken(against_truth(LINES, ledger(), TRAFFIC, seen)) == [f"plain: {' '.join(key[1:])}"]


@pytest.mark.parametrize(("route", "shown"), [("ghost", "ghost"), ("", "no route")])
def test_a_route_that_nobody_used_does_not_hold(route: str, shown: str) -> None:
    """An operation that lz_otel saw and nobody made is named; so are calls outside all operations."""
    seen = right() | {(route, "seen"): 1.0}
    assert broken(against_truth(LINES, ledger(), TRAFFIC, seen)) == [f"{shown}: seen"]


def test_a_route_that_lz_otel_did_not_see_does_not_hold() -> None:
    """All of a route's figures are missing when it has none."""
    seen = {key: value for key, value in right().items() if key[0] != "break"}
    assert "break: seen" in broken(against_truth(LINES, ledger(), TRAFFIC, seen))


def test_a_figure_within_its_bounds_holds() -> None:
    """Where the truth is a range, both ends belong to it, and nothing beyond does."""
    key = ("break", c.COST_USD.name)
    low, high = {key: 1.0}, {key: 2.0}
    held = {value: not broken(compare(low, high, {key: value})) for value in (0.0, 0.9, 1.0, 1.5, 2.0, 2.1)}
    assert held == {0.0: False, 0.9: False, 1.0: True, 1.5: True, 2.0: True, 2.1: False}


def test_the_order_of_adding_makes_no_difference() -> None:
    """Sums of floats are equal to a billionth, and no further."""
    key = ("plain", c.COST_USD.name)
    assert broken(compare({key: 0.3}, {}, {key: 0.1 + 0.2})) == []
    assert broken(compare({key: 0.3}, {}, {key: 0.3000001})) == [f"plain: {c.COST_USD.name}"]


def test_the_callers_own_view_is_compared() -> None:
    """Tokens that a caller has read and lz_otel has not are named."""
    made = Ledger()
    usage = SimpleNamespace(
        input_tokens=5, cache_read_input_tokens=3, cache_creation_input_tokens=None, output_tokens=7
    )
    made.add("plain", "ok", usage)
    seen = {
        ("plain", "calls"): 1.0,
        ("plain", "ended", "ok"): 1.0,
        ("plain", c.INPUT_TOKENS.name): 8.0,
        ("plain", c.OUTPUT_TOKENS.name): 6.0,
        ("plain", c.CACHE_READ_TOKENS.name): 3.0,
    }
    assert broken(callers(made, seen)) == ["plain: output by the callers"]


def test_the_whole_process_is_compared() -> None:
    """Attempts in all, requests and calls without an end, faults and overflows are each named."""
    good = {("plain", "attempts", "200"): 2.0, ("plain", "attempts", "529"): 1.0}
    assert broken(whole({"begun": 3, "active": 0}, good)) == []
    bad = {("", m.prometheus): 1.0 for m in (c.CALL_ACTIVE, c.INTERNAL_ERRORS, c.INTERNAL_OVERFLOW)}
    assert broken(whole({"begun": 3, "active": 1}, bad)) == [
        "attempts",
        "requests still open at the simulator",
        "calls still active",
        "faults inside lz_otel",
        "series over the limit",
    ]


def test_what_is_exposed_is_read() -> None:
    """Series become figures by route:
    histograms by their count, counters by the labels that matter, zeros not at all.
    """
    common = {a.label: "x" for a in c.COMMON} | {"lz_route": "plain"}
    duration = HistogramMetricFamily(
        c.INFERENCE_DURATION.prometheus, "d", labels=[*common, "lz_ending", "lz_path", "lz_served_by"]
    )
    duration.add_metric([*common.values(), "ok", "fast", "symbolic"], [("+Inf", 4)], sum_value=1.0)
    families = [duration]
    for metric, extra, value in (
        (c.CALL_RETRIES, {"reason": "read_error"}, 2.0),
        (c.ATTEMPTS, {"status": "429"}, 3.0),
        (c.FAST_PATH_CALLS, {"mechanism": "symbolic", "verdict": "hit"}, 4.0),
        (c.SAVED_USD, {"mechanism": "symbolic"}, 0.5),
        (c.COST_USD, {"gen_ai_response_model": MODEL}, 0.25),
        (c.FAST_PATH_FALLBACKS, {"mechanism": "zeroing", "reason": "triggered"}, 0.0),
    ):
        family = CounterMetricFamily(metric.prometheus, "d", labels=[*common, *extra])
        family.add_metric([*common.values(), *extra.values()], value)
        families.append(family)
    assert found(families) == {
        ("plain", "seen"): 1.0,
        ("plain", "calls"): 4.0,
        ("plain", "ended", "ok"): 4.0,
        ("plain", "path", "fast", "symbolic"): 4.0,
        ("plain", "retries", "cut off"): 2.0,
        ("plain", "attempts", "429"): 3.0,
        ("plain", "verdicts", "symbolic", "hit"): 4.0,
        ("plain", c.SAVED_USD.name, "symbolic"): 0.5,
        ("plain", c.COST_USD.name): 0.25,
    }


# --- worker processes ----------------------------------------------------------------------


def test_workers_without_a_result_do_not_hold() -> None:
    """A process that ends without rows is a row that does not hold."""
    process = subprocess.Popen([sys.executable, "-c", ""], stdout=subprocess.PIPE, text=True)
    assert broken(soak_workers.result(process)) == ["workers: a result"]


def test_what_workers_lost_does_not_hold(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Every figure that is not as it must be is named, by the kind of fault; others hold."""
    monkeypatch.setattr(soak_workers, "Worker", lambda url: url)
    nursery = soak_workers.Nursery("u", "p", tmp_path)
    nursery.kinds = {"full": soak_workers.Outage(3, 1, 0), "files": soak_workers.Outage(3, 0, 2)}
    nursery.fell = nursery.died = 1
    assert broken(nursery.rows()) == [
        "workers: full: totals not what was called",
        "workers: files: not told once",
        "workers: totals that fell",
        "workers: processes that ended otherwise",
    ]


def test_a_warning_of_an_outage_is_counted() -> None:
    """Each kind for itself, and nothing else that is logged."""
    numbers = memoryview(bytearray(24)).cast("Q")
    told = soak_workers.Tales(numbers)
    for text in ("files have vanished", "it cannot be written (x)", "it is written again"):
        told.emit(logging.makeLogRecord({"msg": text}))
    assert list(numbers) == [0, 1, 1]
