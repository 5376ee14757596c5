"""Generated history: true to the catalogue, reproducible, and accepted by real programs."""

from __future__ import annotations

import dataclasses
import io
import itertools
import math
import subprocess
from typing import TYPE_CHECKING

import pytest

from lz_otel import catalogue
from lz_otel.bundle.promql import EXTERNAL
from lz_otel.errors import ConfigurationError
from lz_otel.lab.history import history
from lz_otel.lab.history._incidents import State, incident
from lz_otel.lab.history._series import key_of
from tests.bundle.prom import prometheus
from tests.lab.history.conftest import END, SHORT
from tests.peers import need

if TYPE_CHECKING:
    from pathlib import Path

    from lz_otel.lab.history._series import Sampled

SUFFIXES = ("_bucket", "_count", "_sum")
# Metrics that a healthy service never has.
NEVER = {"lz.internal.overflow"}


def names(series: Sampled) -> dict[str, str]:
    return dict(series.labels)


def test_same_plan_same_series(made: history.History) -> None:
    """A plan is reproducible, to the last digit; another seed is another history."""
    again = history.generate(SHORT)
    assert [(s.labels, s.start, list(s.values)) for s in made.series] == [
        (s.labels, s.start, list(s.values)) for s in again.series
    ]
    other = history.generate(dataclasses.replace(SHORT, seed=2))
    assert [list(s.values) for s in other.series] != [list(s.values) for s in made.series]


def test_every_metric_of_the_catalogue() -> None:
    """Each metric in force occurs, and nothing that the catalogue does not know."""
    found = {names(s)["__name__"] for s in history.generate(dataclasses.replace(SHORT, models=2)).series}
    wanted, allowed = set(), {m.prometheus for m in EXTERNAL}
    for metric in catalogue.selected("latest"):
        own = {metric.prometheus + s for s in SUFFIXES} if metric.kind == "histogram" else {metric.prometheus}
        allowed |= own
        if metric.name not in NEVER:
            wanted |= own
    assert wanted - found == set()
    assert found - allowed == set()


def test_labels_of_the_catalogue(made: history.History) -> None:
    """Every label exists on its metric and every value of a closed list is in it."""
    for series in made.series:
        labels = names(series)
        base = labels.pop("__name__")
        for suffix in SUFFIXES:
            if base.endswith(suffix):
                base = base.removesuffix(suffix)
        metric = next(m for m in (*catalogue.selected("latest"), *EXTERNAL) if m.prometheus == base)
        for extra in ("job", "instance", "le"):
            labels.pop(extra, None)
        key_of(metric, labels)


def test_counters_only_grow(made: history.History) -> None:
    """Without a restart no counter falls, counts are whole numbers, and buckets add up to the count."""
    counts, infinite = {}, {}
    for series in made.series:
        labels = names(series)
        name = labels["__name__"]
        numbers = list(series.values)
        if name.endswith(("_total", "_bucket", "_count", "_sum")):
            assert numbers == sorted(numbers), series.labels
        if name.endswith(("_bucket", "_count")):
            assert all(n == int(n) for n in numbers)
        if name.endswith("_count"):
            counts[tuple((k, v) for k, v in series.labels if k != "__name__"), name[:-6]] = numbers
        if labels.get("le") == "+Inf":
            infinite[tuple((k, v) for k, v in series.labels if k not in ("__name__", "le")), name[:-7]] = (
                numbers
            )
    assert counts == infinite
    assert len(counts) > 30


def test_closed_lists_start_at_zero(made: history.History) -> None:
    """A counter of a closed list has a series for each value from the first call on, as in the library."""
    first = [s for s in made.series if names(s)["__name__"] == "lz_internal_errors_total"]
    where = catalogue.by_name("lz.internal.errors").attributes[0].values
    assert {names(s)["where"] for s in first if names(s)["job"] == "support-bot"} == set(where)
    assert {(s.start, s.values[0]) for s in first} == {(0, 0.0)}


def test_restart_is_a_reset() -> None:
    """The first instance starts anew: its counters fall once, a scrape is missed, the old version ends."""
    plan = dataclasses.replace(
        SHORT, instances=2, jobs=("families",), incidents=(history.Incident("restart", 300, 300),)
    )
    for series in history.generate(plan).series:
        labels = names(series)
        if labels["__name__"] == "lz_internal_overhead_seconds_count":
            numbers = [v for v in series.values if not math.isnan(v)]
            falls = sum(b < a for a, b in itertools.pairwise(numbers))
            first = labels["instance"].startswith("support-bot-1")
            assert (falls, len(series.values) - len(numbers)) == ((1, 1) if first else (0, 0))
        if (
            labels["__name__"] == "lz_build_info"
            and labels["version"] == "0.1.0"
            and "-1:" in labels["instance"]
        ):
            assert math.isnan(series.values[-1])


def test_errors_name_the_setting() -> None:
    """An unknown incident, an unknown job and a number out of range are named with what is allowed."""
    with pytest.raises(ConfigurationError, match=r"earthquake.*layer-down"):
        incident("earthquake")
    with pytest.raises(ConfigurationError, match=r"hours=0.*above 0"):
        history.generate(history.Plan(hours=0))
    with pytest.raises(ConfigurationError, match=r"jobs='x'.*families"):
        history.generate(history.Plan(jobs=("x",)))


def test_staged_spreads_evenly() -> None:
    """Incidents follow one another without overlap, within the history."""
    spread = history.staged(list(history.INCIDENTS), 6)
    assert [i.name for i in spread] == list(history.INCIDENTS)
    for one, after in itertools.pairwise(spread):
        assert one.begin + one.length <= after.begin
    assert spread[-1].begin + spread[-1].length <= 6 * 3600
    assert history.staged([], 6) == ()
    assert State() == incident("restart")(State()).__class__()


def test_growth_is_by_instances() -> None:
    """Twice the instances are twice the series of a job."""
    one = history.generate(history.Plan(hours=0.1, step=60, end=END, instances=1, jobs=("plain",)))
    two = history.generate(history.Plan(hours=0.1, step=60, end=END, instances=2, jobs=("plain",)))
    assert abs(len(two.series) - 2 * len(one.series)) <= 0.02 * len(two.series)


def test_openmetrics_by_promtool(made: history.History, tmp_path: Path) -> None:
    """promtool makes blocks of the text."""
    small = history.History(made.times, made.series[:400])
    text = io.StringIO()
    history.openmetrics(small, text)
    assert text.getvalue().endswith("# EOF\n")
    (tmp_path / "history.om").write_text(text.getvalue())
    command = [need("promtool"), "tsdb", "create-blocks-from", "openmetrics", "history.om", "data"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    assert list((tmp_path / "data").glob("*/meta.json"))


def test_push(tmp_path: Path, made: history.History) -> None:
    """A real Prometheus holds what was pushed, to the last values; copies differ by instance."""
    chosen = [s for s in made.series if names(s)["__name__"] == "lz_attempts_total"]
    plan = dataclasses.replace(SHORT, end=0.0)
    sent = history.History(plan.times(), chosen)
    with prometheus(tmp_path) as server:
        assert history.push(sent, server.url, copies=3) == 3 * len(chosen)
        at = sent.times[-1]
        (count,) = server.instant("count(lz_attempts_total)", at)
        assert int(count["value"][1]) == 3 * len(chosen)
        (value,) = server.instant('sum(lz_attempts_total{status="200"})', at)
        expected = 3 * sum(s.values[-1] for s in chosen if names(s)["status"] == "200")
        assert float(value["value"][1]) == expected
        instances = {
            s["metric"]["instance"] for s in server.instant("group by (instance) (lz_attempts_total)", at)
        }
        assert {i.startswith("copy-2-") for i in instances} == {True, False}


def test_run_writes_a_file_and_says_how_much(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The file is OpenMetrics text; a server that cannot be reached is one line and status 2."""
    out = tmp_path / "history.om"
    plan = dataclasses.replace(SHORT, incidents=history.incidents(["layer-down@60+120"], SHORT.hours))
    assert 0 == history.run(plan, out=out)
    assert out.read_text().endswith("# EOF\n")
    assert "series" in capsys.readouterr().err
    assert 2 == history.run(plan, push_to="http://127.0.0.1:9")
    assert 1 == len(capsys.readouterr().err.splitlines())


def test_incidents_with_and_without_a_time() -> None:
    """A time stands where it says, names are spread, and a time that cannot be read is named."""
    assert (history.Incident("layer-down", 60.0, 120.0),) == history.incidents(["layer-down@60+120"], 1)
    assert history.staged(["layer-down", "restart"], 2) == history.incidents(["layer-down", "restart"], 2)
    assert history.staged(list(history.INCIDENTS), 6) == history.incidents([], 6, every=True)
    with pytest.raises(ConfigurationError, match="--incident='layer-down@soon'"):
        history.incidents(["layer-down@soon"], 1)
