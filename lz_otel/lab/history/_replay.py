"""Evaluate rules over the past on a server that already holds history, and write the results back.

A server evaluates its rules at this moment only, so series pushed with old time stamps have no recorded
series beside them until this has run.
"""

from __future__ import annotations

import json
import urllib.error
import urllib.parse
import urllib.request
from typing import TYPE_CHECKING, Any, NamedTuple

from lz_otel.lab.history import _remote_write

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping


class Alert(NamedTuple):
    """An alert as the replay needs it.

    Attributes:
        wait: seconds for which the expression must hold (``for``).
        keep: seconds for which it fires on after that (``keep_firing_for``).
    """

    name: str
    expr: str
    wait: float = 0.0
    keep: float = 0.0
    labels: tuple[tuple[str, str], ...] = ()


def ask(url: str, path: str, **form: object) -> Any:
    """Return the ``result`` of a query to a server's HTTP API.

    Raises:
        OSError: the server cannot be reached, or refuses the query; the text holds its answer.
    """
    address = f"{url.rstrip('/')}/api/v1/{path}"
    try:
        with urllib.request.urlopen(address, urllib.parse.urlencode(form).encode(), timeout=300) as answer:
            return json.load(answer)["data"]["result"]
    except urllib.error.HTTPError as error:
        raise OSError(f"{form}: {error.read().decode(errors='replace')}") from error


def query_range(url: str, expr: str, start: int, end: int, step: int) -> list[dict[str, Any]]:
    """Return the series of a range query, as the HTTP API gives them.

    Raises:
        OSError: the server cannot be reached, or refuses the query.
    """
    series: list[dict[str, Any]] = ask(url, "query_range", query=expr, start=start, end=end, step=step)
    return series


def record(url: str, name: str, expr: str, labels: Mapping[str, str], start: int, end: int, step: int) -> int:
    """Evaluate one recording rule over the past; return the number of series made."""
    recorded = query_range(url, expr, start, end, step)
    series = [
        _encoded({**one["metric"], **labels, "__name__": name}, _numbers(one), step, end) for one in recorded
    ]
    _remote_write.post(url, series)
    return len(series)


def copy(url: str, series: Iterable[dict[str, Any]], shift: int, step: int) -> None:
    """Write series of a range query back, so many seconds later (or earlier)."""
    copies = []
    for one in series:
        numbers = [(at + shift, number) for at, number in _numbers(one)]
        copies.append(_encoded(one["metric"], numbers, step, numbers[-1][0]))
    _remote_write.post(url, copies)


def _numbers(series: dict[str, Any]) -> list[tuple[int, float]]:
    return [(int(at), float(value)) for at, value in series["values"]]


def alerts(url: str, rules: Iterable[Alert], start: int, end: int, step: int) -> dict[str, int]:
    """Write the ``ALERTS`` series of firing alerts over the past; return firing steps by name of alert."""
    fired: dict[str, int] = {}
    for rule in rules:
        encoded = []
        for one in query_range(url, rule.expr, start, end, step):
            times = _firing([at for at, _ in _numbers(one)], rule, step, end)
            if times:
                labels = {**one["metric"], **dict(rule.labels)}
                labels |= {"__name__": "ALERTS", "alertname": rule.name, "alertstate": "firing"}
                encoded.append(_encoded(labels, ((at, 1.0) for at in times), step, end))
                fired[rule.name] = fired.get(rule.name, 0) + len(times)
        _remote_write.post(url, encoded)
    return fired


def _firing(true_at: list[int], rule: Alert, step: int, end: int) -> list[int]:
    """Return times at which the alert fires, from the times at which its expression holds."""
    out: list[int] = []
    since = last = None
    for at in true_at:
        if last is None or at - last > step:
            held = last is not None and bool(out) and at - last <= rule.keep
            if not held:
                since = at
        last = at
        if since is not None and at - since >= rule.wait:
            out.append(at)
    kept = set(out)
    for at in out:
        kept.update(range(at, min(end, at + int(rule.keep)) + 1, step))
    return sorted(kept)


def _encoded(labels: Mapping[str, str], values: Iterable[tuple[int, float]], step: int, end: int) -> bytes:
    """Encode a series; a hole of more than a step ends with a staleness marker, as after an empty result."""
    times: list[int] = []
    numbers: list[float] = []
    for at, value in values:
        if times and at * 1000 - times[-1] > step * 1000:
            times.append(times[-1] + step * 1000)
            numbers.append(float("nan"))
        times.append(at * 1000)
        numbers.append(value)
    if times and times[-1] + step * 1000 <= end * 1000:
        times.append(times[-1] + step * 1000)
        numbers.append(float("nan"))
    pairs = sorted((k, v) for k, v in labels.items() if v)
    return _remote_write.encode_labels(pairs) + _remote_write.encode_samples(numbers, times)
