"""Fire alerts over the past, as a server would have, by what was pushed with old time stamps."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from lz_otel.lab.history import _remote_write
from lz_otel.lab.history._replay import encoded, numbers_of, query_range

if TYPE_CHECKING:
    from collections.abc import Iterable


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


def alerts(url: str, rules: Iterable[Alert], start: int, end: int, step: int) -> dict[str, int]:
    """Write the ``ALERTS`` series of firing alerts over the past; return firing steps by name of alert."""
    fired: dict[str, int] = {}
    for rule in rules:
        series = []
        for one in query_range(url, rule.expr, start, end, step):
            times = firing([at for at, _ in numbers_of(one)], rule, step, end)
            if times:
                labels = {**one["metric"], **dict(rule.labels)}
                labels |= {"__name__": "ALERTS", "alertname": rule.name, "alertstate": "firing"}
                series.append(encoded(labels, ((at, 1.0) for at in times), step, end))
                fired[rule.name] = fired.get(rule.name, 0) + len(times)
        _remote_write.post(url, series)
    return fired


def firing(true_at: list[int], rule: Alert, step: int, end: int) -> list[int]:
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
