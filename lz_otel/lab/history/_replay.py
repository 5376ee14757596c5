"""Rules over the past: evaluates them on a server that already holds history, and writes the results back.

A server evaluates its rules at this moment only, so series pushed with old time stamps have no recorded series
beside them until this has run.
"""

from __future__ import annotations

import json
import urllib.parse
import urllib.request
from typing import TYPE_CHECKING, Any, NamedTuple

from lz_otel.lab.history import _remote_write

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

__all__ = ["Alert", "alerts", "query_range", "record", "write"]


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


def query_range(
    url: str, expr: str, start: int, end: int, step: int, timeout: float = 120.0
) -> list[dict[str, Any]]:
    """The series of a range query, as the HTTP API gives them.

    Raises:
        OSError: the server cannot be reached, or refuses the query.
    """
    form = {"query": expr, "start": start, "end": end, "step": step, "timeout": f"{timeout:g}s"}
    address = url.rstrip("/") + "/api/v1/query_range"
    request = urllib.request.Request(address, data=urllib.parse.urlencode(form).encode())  # operator's own
    with urllib.request.urlopen(request, timeout=timeout) as answer:  # as above
        result: list[dict[str, Any]] = json.load(answer)["data"]["result"]
    return result


def record(url: str, name: str, expr: str, labels: Mapping[str, str], start: int, end: int, step: int) -> int:
    """Evaluate one recording rule over the past; returns the number of series made."""
    series = []
    for one in query_range(url, expr, start, end, step):
        own = {**one["metric"], **labels, "__name__": name}
        series.append(_encoded(own, ((int(at), float(value)) for at, value in one["values"]), step, end))
    _remote_write.post(url, series)
    return len(series)


def write(url: str, found: Iterable[dict[str, Any]], shift: int, step: int) -> None:
    """Write series of a range query back, so many seconds later (or earlier)."""
    post = []
    for one in found:
        values = [(int(at) + shift, float(value)) for at, value in one["values"]]
        post.append(_encoded(one["metric"], values, step, values[-1][0]))
    _remote_write.post(url, post)


def alerts(url: str, rules: Iterable[Alert], start: int, end: int, step: int) -> dict[str, int]:
    """Write the ``ALERTS`` series that firing alerts would have left; returns firing steps by name of alert."""
    fired: dict[str, int] = {}
    for rule in rules:
        series = []
        for one in query_range(url, rule.expr, start, end, step):
            times = _firing([int(at) for at, _ in one["values"]], rule, step, end)
            if times:
                labels = {k: v for k, v in one["metric"].items() if k != "__name__"}
                own = {**labels, **dict(rule.labels)}
                own |= {"__name__": "ALERTS", "alertname": rule.name, "alertstate": "firing"}
                series.append(_encoded(own, ((at, 1.0) for at in times), step, end))
                fired[rule.name] = fired.get(rule.name, 0) + len(times)
        _remote_write.post(url, series)
    return fired


def _firing(true_at: list[int], rule: Alert, step: int, end: int) -> list[int]:
    """Times at which the alert fires, from the times at which its expression holds."""
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
    """A series; a hole of more than one step ends with a staleness marker, as after a rule without result."""
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
