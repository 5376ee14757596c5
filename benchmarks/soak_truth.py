"""What the soak compares: lz_otel's figures with the callers' ledger and with the simulator's truth log.

A figure's key is the route, what it is, and the values of the labels that tell its numbers apart.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from typing import TYPE_CHECKING, Any

import msgspec

from benchmarks.soak_traffic import LEFT, name
from lz_otel import catalogue as c
from lz_otel.lab.demo._expected import Expected
from lz_otel.lab.simulator._truth import read_lines

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Set

    from benchmarks.soak_traffic import Ledger
    from lz_otel.lab.simulator._traffic_schema import Traffic

Key = tuple[str, ...]
Figures = dict[Key, float]
Row = tuple[str, Any, Any, bool]  # what, expected, found, whether it holds

# Numbers of `Expected` that do not depend on our own clock, on the plan of an application, or on how far
# into a broken stream a client has read. The first ones without their labels: model and modality.
_PLAIN = (c.INPUT_TOKENS, c.OUTPUT_TOKENS, c.CACHE_READ_TOKENS, c.CACHE_WRITE_TOKENS, c.COST_USD)
_SUMS = (
    *_PLAIN,
    c.COST_UNPRICED,
    c.SAVED_USD,
    c.OVERSPENT_USD,
    c.FAST_PATH_FALLBACKS,
    c.USAGE_MISSING_CALLS,
    c.PROMPT_CACHE_WRITE_TOKENS,
    c.SYMBOLIC_EVIDENCE,
    c.ZEROING_PARAMS_RATIO,
    c.ZEROING_CONFIDENCE,
    c.ZEROING_LAYERS,
)
# A caller that leaves after the first event may have the whole answer in its socket's buffer by then, or not:
# neither side can know the output, whether the usage was complete, or how the provider saw the call end (and
# an attempt that was given up has its status, or "cancelled"; the sum of all attempts is exact, see `whole`).
# What the head and the first event say is exact all the same. The cost lies between that of the tokens told
# by the first event and that of the whole answer.
_OPEN_WHEN_LEFT = ("ended", "attempts", c.OUTPUT_TOKENS.name, c.USAGE_MISSING_CALLS.name)
_CUT = "cut off"


def _open(key: Key) -> bool:
    """Whether neither side can know this figure."""
    return key[0] in LEFT and (
        key[1] in _OPEN_WHEN_LEFT or key[1:] == (c.SYMBOLIC_EVIDENCE.name, "zero_output")
    )


def found(families: Iterable[Any]) -> Figures:
    """lz_otel's figures, from what its exporter gives to Prometheus."""
    sums = {m.prometheus + ("_sum" if m.kind == c.HISTOGRAM else ""): m for m in _SUMS}
    out: Figures = defaultdict(float)
    for family in families:
        for row in family.samples:
            labels, value = row.labels, row.value
            route = labels.get("lz_route", "")
            if not value:
                continue
            if "lz_route" in labels:
                out[route, "seen"] = 1.0
            if row.name == f"{c.INFERENCE_DURATION.prometheus}_count":
                out[route, "calls"] += value
                out[route, "ended", labels["lz_ending"]] += value
                out[route, "path", labels["lz_path"], labels.get("lz_served_by", "")] += value
            elif row.name == f"{c.OPERATION_CALLS.prometheus}_count":
                out[route, "operations"] += value
            elif row.name == c.ATTEMPTS.prometheus:
                out[route, "attempts", _status(labels["status"])] += value
            elif row.name == c.CALL_RETRIES.prometheus:
                out[route, "retries", _status(labels["reason"])] += value
            elif row.name == c.FAST_PATH_CALLS.prometheus:
                out[route, "verdicts", labels["mechanism"], labels["verdict"]] += value
            elif row.name in sums:
                metric = sums[row.name]
                extra = () if metric in _PLAIN else metric.attributes[len(c.COMMON) :]
                out[(route, metric.name, *(labels[a.label] for a in extra))] += value
            elif row.name in (
                c.CALL_ACTIVE.prometheus,
                c.INTERNAL_ERRORS.prometheus,
                c.INTERNAL_OVERFLOW.prometheus,
            ):
                out["", row.name] += value
    return out


def _status(status: str) -> str:
    return _CUT if status in c.TRANSPORT_ERRORS else status


def truth(
    route: str, records: list[dict[str, Any]], traffic: Traffic, begun: Set[str] = frozenset()
) -> tuple[Figures, Figures]:
    """What the truth log says of one route.

    Args:
        route: the route.
        records: its records.
        traffic: the scenario's.
        begun: calls of which the caller has read the first event, and then left.

    Returns:
        The figures; and by key the most that a figure may be, where the first is only the least.
    """
    left = route in LEFT
    out = _figures(route, _as_left(records, begun, "start") if left else records, traffic)
    most: Figures = {}
    if left:
        cost = (route, c.COST_USD.name)
        most[cost] = _figures(route, _as_left(records, begun, "full"), traffic).get(cost, 0.0)
    return out, most


def _as_left(records: list[dict[str, Any]], begun: Set[str], sent: str) -> list[dict[str, Any]]:
    """The records, as the client has seen them: what began is told, whatever the provider made of the end."""
    last = {r["call"]: r["ordinal"] for r in records}
    out = []
    for r in records:
        if r["call"] in begun and r["ordinal"] == last[r["call"]]:
            told = {m: {**v, "visible": True} for m, v in r["mechanisms"].items()}
            r = {**r, "ending": "stream_error", "usage_sent": sent, "mechanisms": told}
        out.append(r)
    return out


def _figures(route: str, records: list[dict[str, Any]], traffic: Traffic) -> Figures:
    expected = Expected(records, {}, traffic, {})
    names = {m.name for m in _SUMS}
    out: Figures = defaultdict(float)
    out[route, "seen"] = 1.0
    for attempts in expected.attempts.values():
        before = None
        for r in attempts:
            status = _CUT if r["ending"] in ("drop", "disconnect", "client_closed") else str(r["status"])
            out[route, "attempts", status] += 1
            if before is not None:
                out[route, "retries", before] += 1
            before = status
    for outcome in expected.calls.values():
        out[route, "calls"] += 1
        out[route, "operations"] += 1  # each call of the soak is an operation of its own
        out[route, "ended", outcome.ending] += 1
        out[route, "path", outcome.path, outcome.served_by] += 1
        for mechanism, (verdict, _) in outcome.verdicts.items():
            out[route, "verdicts", mechanism, verdict] += 1
        for key, value in outcome.figures.items():
            if key[0] in names:
                out[(route, *key)] += value
    return out


def compare(expected: Mapping[Key, float], most: Mapping[Key, float], seen: Mapping[Key, float]) -> list[Row]:
    """Each figure that either side has, where both can know it: routes that were not used are a row, too."""
    rows: list[Row] = []
    for key in sorted(expected.keys() | seen.keys()):
        route, what = key[0], key[1]
        if route == "" and what != "seen":
            continue  # of the whole process, see `whole`; calls outside all routes show as "seen"
        if _open(key):
            continue
        low, high, value = expected.get(key, 0.0), most.get(key, expected.get(key, 0.0)), seen.get(key, 0.0)
        if not low and not high and not value:
            continue
        near = 1e-9 * max(abs(low), abs(high), abs(value))
        label = f"{route or 'no route'}: {' '.join(filter(None, key[1:]))}"
        wanted = _text(low) if low == high else f"{_text(low)} to {_text(high)}"
        rows.append((label, wanted, _text(value), low - near <= value <= high + near))
    return rows


def callers(ledger: Ledger, seen: Mapping[Key, float]) -> list[Row]:
    """The callers' own view beside lz_otel's."""
    rows: list[Row] = []
    tokens = {"input": c.INPUT_TOKENS, "output": c.OUTPUT_TOKENS, "cache_read": c.CACHE_READ_TOKENS}
    for route in sorted({route for route, _ in ledger.counts}):
        ok, calls = seen.get((route, "ended", "ok"), 0.0), seen.get((route, "calls"), 0.0)
        mine = {"calls": calls, "ok": ok, "other": calls - ok}
        mine |= {key: seen.get((route, metric.name), 0.0) for key, metric in tokens.items()}
        if route in LEFT:  # see _OPEN_WHEN_LEFT
            mine = {key: mine[key] for key in ("calls", "input", "cache_read")}
        for key, value in mine.items():
            expected = ledger.counts[route, key]
            rows.append((f"{route}: {key} by the callers", expected, _text(value), expected == value))
    return rows


def whole(summary: Mapping[str, Any], seen: Mapping[Key, float]) -> list[Row]:
    """What is known of the whole process only."""
    attempts = sum(value for key, value in seen.items() if key[1] == "attempts")
    named = Counter({key[1]: value for key, value in seen.items() if not key[0]})
    figures = (
        ("attempts", summary["begun"], attempts),
        ("requests still open at the simulator", 0, summary["active"]),
        ("calls still active", 0, named[c.CALL_ACTIVE.prometheus]),
        ("faults inside lz_otel", 0, named[c.INTERNAL_ERRORS.prometheus]),
        ("series over the limit", 0, named[c.INTERNAL_OVERFLOW.prometheus]),
    )
    return [(what, _text(expected), _text(value), expected == value) for what, expected, value in figures]


def against_truth(
    lines: Iterable[bytes], ledger: Ledger, traffic: Traffic, seen: Mapping[Key, float]
) -> list[Row]:
    """Compare with a truth log, one route at a time: all of it decoded at once would take a gigabyte."""
    by_route: dict[str, list[bytes]] = defaultdict(list)
    for line in lines:
        by_route[_route_of(line)].append(line)
    expected: Figures = {}
    most: Figures = {}
    for route in sorted({*by_route, *(route for route, _ in ledger.counts)}):
        begun = {name(route, number) for number in ledger.begun.get(route, ())}
        figures, bounds = truth(route, read_lines(by_route.pop(route, [])), traffic, begun)
        expected |= figures
        most |= bounds
    return compare(expected, most, seen)


def _route_of(line: bytes) -> str:
    route: str = msgspec.json.decode(line).get("route", "")
    return route


def _text(value: float) -> str:
    return f"{value:.0f}" if value == round(value) else f"{value:.9g}"
