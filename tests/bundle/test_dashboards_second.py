"""The same dashboards on the second back end: VictoriaMetrics gives the same series for every query."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import pytest

from lz_otel.lab.history import history
from tests.bundle.boards import FILES, load, resolve, targets
from tests.bundle.prom import load as load_history
from tests.bundle.prom import prometheus, victoria_metrics

if TYPE_CHECKING:
    from pathlib import Path

STEP = 60
# Selected or sorted by a value that the two compute differently (rates are extrapolated by one of them).
RANKED = ("topk(", "bottomk(")
# A few events per window: extrapolated by one, not by the other.
RARE = {"Evidence per minute", "Why are calls tried again?", "What does a fallback cost in time?"}


# Where events are counted per minute, one event at a window's edge is extrapolated by one, not by the other.
ONE_EVENT = 0.5


def numbers(series: list[dict[str, Any]]) -> dict[tuple[tuple[str, str], ...], float]:
    found = {}
    for one in series:
        value = float(one["value"][1])
        if not math.isnan(value):
            found[tuple(sorted(one["metric"].items()))] = value
    return found


@pytest.mark.timeout(400)
def test_same_series(tmp_path: Path) -> None:
    """Every target gives the same label sets on both, and totals and shares that agree within a tenth."""
    outage = history.Incident("provider-overloaded", 900, 1800)
    plan = history.Plan(
        hours=1.5,
        step=STEP,
        instances=1,
        models=1,
        rate=60.0,
        end=history.Plan().times()[-1] - 120,
        jobs=("families",),
        incidents=(outage,),
    )
    different, far = [], []
    with prometheus(tmp_path) as first, victoria_metrics(tmp_path) as second:
        start, end = load_history(first, plan)
        load_history(second, plan)
        second.flush()
        for path in FILES:
            for target in targets(load(path)):
                expr = resolve(target.expr, mechanism="symbolic", span=end - start)
                if "ALERTS" in expr:
                    continue
                one, other = numbers(first.instant(expr, end)), numbers(second.instant(expr, end))
                if one.keys() != other.keys() and not any(r in expr for r in RANKED):
                    different.append((str(target.title), sorted(one.keys() ^ other.keys())[:3]))
                slack = ONE_EVENT if expr.startswith("60 *") else 0.05
                far += [
                    (target.title, expr, key, one[key], other[key])
                    for key in one.keys() & other.keys()
                    if abs(one[key] - other[key]) > 0.1 * max(abs(one[key]), abs(other[key])) + slack
                    and target.title not in RARE
                ]
    assert different == []
    assert far == []
