"""The dashboards as data: fresh, fixed, linted, and true to the catalogue."""

from __future__ import annotations

import hashlib
import json
import re
from typing import Any

import msgspec
import pytest

from lz_otel import catalogue
from lz_otel.bundle import recording
from lz_otel.bundle.config import DASHBOARD_FILES, Config, dashboard_uid
from lz_otel.bundle.dashboards import dashboards
from lz_otel.bundle.promql import EXTERNAL
from tests.bundle.boards import BY, FILES, exclusions, load, panels, selectors, targets

BOARDS = [pytest.param(load(path), id=path.stem) for path in FILES]
each_board = pytest.mark.parametrize("board", BOARDS)
SUFFIXES = ("_bucket", "_count", "_sum")
TARGET_LABELS = {"job", "instance"}
# The only things that are red: failure, and what is beyond a limit that means failure.
RED = {"red", "dark-red"}


def known() -> dict[str, set[str]]:
    """Every name that a query may use, with the labels that it has."""
    names: dict[str, set[str]] = {}
    for metric in (*catalogue.ALL, *EXTERNAL):
        labels = {*metric.labels, *TARGET_LABELS}
        if metric.kind == catalogue.HISTOGRAM:
            names |= {metric.prometheus + s: labels | ({"le"} if s == "_bucket" else set()) for s in SUFFIXES}
        else:
            names[metric.prometheus] = names.get(metric.prometheus, set()) | labels
    return names | {rule.series.name: set(rule.series.labels) for rule in recording.rules(Config())}


def values(name: str, label: str) -> tuple[str, ...]:
    """The closed list of a label, or nothing."""
    for metric in (*catalogue.ALL, *EXTERNAL):
        if name.removesuffix("_bucket").removesuffix("_count").removesuffix("_sum") in (
            metric.prometheus,
            name,
        ):
            for attribute in metric.attributes:
                if attribute.label == label and metric.prometheus in name:
                    return attribute.values
    return ()


def excluded(rule: str, board: str, panel: str) -> bool:
    """Whether .lint excludes that panel from the rule."""
    entry = exclusions().get(rule)
    if entry is None:
        return False
    return "entries" not in entry or any(
        e["dashboard"] == board and e.get("panel", panel) == panel for e in entry["entries"]
    )


def test_committed_dashboards_are_fresh() -> None:
    """The committed files are what the code makes."""
    made = dashboards()
    assert set(DASHBOARD_FILES.values()) == set(made) == {p.name for p in FILES}
    assert {p.name: p.read_text() for p in FILES} == made, "run: make bundle"


def test_same_on_every_run() -> None:
    """Making the dashboards twice gives the same text."""
    assert dashboards() == dashboards()


@each_board
def test_identity(board: dict[str, Any]) -> None:
    """The uid is fixed, there is no id, and the file loads by provisioning as it is."""
    names = [n for n in DASHBOARD_FILES if dashboard_uid(n) == board["uid"]]
    assert len(names) == 1
    assert board["uid"] == hashlib.md5(DASHBOARD_FILES[names[0]].encode()).hexdigest()
    text = json.dumps(board)
    assert board.get("id") is None
    assert "__inputs" not in text
    assert "${DS_" not in text
    assert board["editable"] is False
    assert board["tags"] == ["lz-otel"]
    assert board["schemaVersion"] == 41


@each_board
def test_panels_have_what_readers_need(board: dict[str, Any]) -> None:
    """Every panel has title, description, unit, a word for "nothing", targets and the variable source."""
    source = {"type": "prometheus", "uid": "${datasource}"}
    for panel in panels(board):
        defaults = panel["fieldConfig"]["defaults"]
        title = panel["title"]
        assert title
        assert len(panel["description"]) > 10, title
        assert defaults.get("unit"), title
        assert defaults.get("noValue"), title
        assert panel["datasource"] == source, title
        assert panel["targets"], title
        assert all(t["datasource"] == source for t in panel["targets"]), title


@each_board
def test_layout(board: dict[str, Any]) -> None:
    """Ids are unique, no two panels share a cell, and nothing is wider than the grid."""
    rows = [p for p in board["panels"] if p["type"] == "row"]
    everything = [*rows, *panels(board)]
    assert len({p["id"] for p in everything}) == len(everything)
    groups = [
        [p for p in board["panels"] if p["type"] != "row"],
        *(r["panels"] for r in rows if r.get("panels")),
    ]
    for group in groups:
        cells = [
            (x, y)
            for p in group
            for x in range(p["gridPos"]["x"], p["gridPos"]["x"] + p["gridPos"]["w"])
            for y in range(p["gridPos"]["y"], p["gridPos"]["y"] + p["gridPos"]["h"])
        ]
        assert len(cells) == len(set(cells))
        assert all(x < 24 for x, _ in cells)


@each_board
def test_variables(board: dict[str, Any]) -> None:
    """One data source variable; queries reload with the time range; several values and all of them."""
    variables = {v["name"]: v for v in board["templating"]["list"]}
    assert [v["name"] for v in variables.values() if v["type"] == "datasource"] == ["datasource"]
    assert variables["datasource"]["label"] == "Data source"
    for name, variable in variables.items():
        if variable["type"] == "query":
            assert variable["refresh"] == 2, name
            assert variable["datasource"]["uid"] == "${datasource}"
            assert selectors(variable["query"]["query"]) or "label_values(lz_build_info, job)" in str(
                variable
            )
    assert variables["job"]["multi"]
    assert variables["job"]["allValue"] == ".*"
    used = set(re.findall(r"\$\{?(\w+)", " ".join(t.expr for t in targets(board)))) - {
        "__rate_interval",
        "__range",
        "__range_s",
    }
    assert used <= set(variables)
    assert "template-job-rule" in exclusions()


@each_board
def test_links_and_annotations(board: dict[str, Any]) -> None:
    """Links by tag keep time and variables; new versions and pages are marked on every chart."""
    (link,) = board["links"]
    assert (link["type"], link["tags"], link["keepTime"], link["includeVars"]) == (
        "dashboards",
        ["lz-otel"],
        True,
        True,
    )
    assert [a["name"] for a in board["annotations"]["list"]] == ["New version", "Pages"]
    assert all(a["expr"] and a["titleFormat"] for a in board["annotations"]["list"])


@each_board
def test_names_and_labels_exist(board: dict[str, Any]) -> None:
    """Each name is exposed or recorded; each label exists on it; each literal can be."""
    names = known()
    expressions = [t.expr for t in targets(board)] + [a["expr"] for a in board["annotations"]["list"]]
    for expr in expressions:
        found = selectors(expr)
        assert found, expr
        carried = {"__name__"}
        for name, matchers in found:
            if not name:
                assert matchers[0][0] == "__name__", expr
                continue
            assert name in names, f"{name} in {expr}"
            carried |= names[name]
            for label, sign, value in matchers:
                assert label in names[name], f"{label} on {name} in {expr}"
                closed = values(name, label)
                if closed and "$" not in value:
                    words = value.split("|") if "~" in sign else [value]
                    assert all(w in (*closed, "") for w in words), f"{label}{sign}{value} in {expr}"
        made = set(re.findall(r'label_(?:replace|join)\([^"]*"(\w+)"', expr)) | {"mechanism", "reason"}
        for names_ in BY.findall(expr):
            for label in filter(None, names_.split(", ")):
                assert label in carried | made, f"by ({label}) in {expr}"


@each_board
def test_promql_habits(board: dict[str, Any]) -> None:
    """No rate of a gauge, no quantile without ``sum by (le)``, no raw counter, no literal bucket bound."""
    gauges = {m.prometheus for m in (*catalogue.ALL, *EXTERNAL) if m.kind in ("gauge", "updowncounter")}
    for target in targets(board):
        expr = target.expr
        for function, name in re.findall(r"\b(rate|increase|irate)\(([\w:]+)", expr):
            assert name not in gauges, expr
            assert ":" not in name, f"{function} of a recorded rate: {expr}"
        for name in re.findall(r"(?<![\w:])((?:lz|gen_ai)_\w+(?:_total|_bucket|_count|_sum))\{", expr):
            assert not re.search(rf"(?<!rate\()(?<!increase\(){name}\{{", expr), expr
        assert expr.count("histogram_quantile(") == len(
            re.findall(r"histogram_quantile\([\d.]+, (?:\d+ \* )?sum by \(le", expr)
        ), expr
        assert 'le="' not in expr
        assert "$__interval" not in expr


@each_board
def test_lint_rules_of_targets(board: dict[str, Any]) -> None:
    """Filters by job and instance and ``$__rate_interval`` everywhere, but where .lint says why not."""
    for target in targets(board):
        for name, matchers in selectors(target.expr):
            have = {(label, sign, value) for label, sign, value in matchers}
            for variable in ("job", "instance"):
                if not excluded(f"target-{variable}-rule", target.board, target.title):
                    assert (variable, "=~", f"${variable}") in have, f"{target}: {name}"
        windows = re.findall(r"(?:rate|increase)\([^\[]*\[([^\]]+)\]", target.expr)
        if not excluded("target-rate-interval-rule", target.board, target.title):
            assert set(windows) <= {"$__rate_interval"}, target


def test_lint_exclusions_are_needed() -> None:
    """Every entry of .lint names a panel that exists and breaks the rule; every exclusion has a reason."""
    every = [t for p in FILES for t in targets(load(p))]
    for rule, entry in exclusions().items():
        assert len(entry["reason"]) > 20, rule
        for one in entry.get("entries", ()):
            mine = [t for t in every if t.board == one["dashboard"] and one.get("panel", t.title) == t.title]
            assert mine, one
            if rule == "target-rate-interval-rule":
                windows = [
                    w for t in mine for w in re.findall(r"(?:rate|increase)\([^\[]*\[([^\]]+)\]", t.expr)
                ]
                assert set(windows) - {"$__rate_interval"}, one
            else:
                variable = rule.split("-")[1]
                assert any(
                    (variable, "=~", f"${variable}") not in m for t in mine for _, m in selectors(t.expr)
                ), one


@each_board
def test_units_fit_the_metrics(board: dict[str, Any]) -> None:
    """Seconds are drawn of seconds, money of USD; shares as percentages of one."""
    for target in targets(board):
        unit = target.panel["fieldConfig"]["defaults"]["unit"]
        if target.panel["type"] == "heatmap":
            unit = target.panel["options"]["yAxis"]["unit"]
        if target.panel["type"] == "table":
            continue
        names = [s.name for s in selectors(target.expr)]
        if unit == "s":
            assert all("_seconds" in n for n in names), target
        elif unit == "currencyUSD":
            assert any("usd" in n for n in names), target
        elif unit == "percentunit":
            shares = {"cache_hit_rate", "kv_slice_efficiency"} & set(names)
            assert "/" in target.expr or shares or all("ratio" in n or "confidence" in n for n in names), (
                target
            )
        elif unit == "ms":
            assert names == ["decompression_latency_p95"], target
        if (
            "histogram_quantile" in target.expr
            and names[0].endswith("_seconds_bucket")
            and "/" not in target.expr
        ):
            assert unit in ("s", "none"), target


@each_board
def test_red_is_failure_only(board: dict[str, Any]) -> None:
    """Nothing but errors, broken limits and firing pages is red."""
    good = re.compile(
        r"error|incomplete|failed|^Lost|contradiction|ghost|firing|page|stop|On fire|budget|headroom|left|"
        r"answered|"
        r"Gates|limited|Attempts|signals|saving|Saved|written|price|Overhead|Label sets|Models|Fallback|"
        r"p99|What fired|limits|per call|tried again",
        re.IGNORECASE,
    )
    for panel in panels(board):
        text = json.dumps(panel["fieldConfig"])
        reds = re.findall(r'"(?:color|fixedColor)": "((?:dark-)?red)"', text)
        if reds:
            assert set(reds) <= RED
            legends = " ".join(t.get("legendFormat", "") for t in panel["targets"])
            assert good.search(panel["title"]) or good.search(text) or good.search(legends), panel["title"]
    for series in ("hit", "miss", "bypass", "ok", "fast", "full", "abandoned", "cancelled"):
        for panel in panels(board):
            for override in panel["fieldConfig"].get("overrides") or []:
                if override["matcher"]["options"] == series:
                    assert not RED & set(re.findall(r'"fixedColor": "([\w-]+)"', json.dumps(override))), (
                        series
                    )


def test_thresholds_come_from_the_configuration() -> None:
    """A threshold that the user sets is the line in the charts and the figure in the text."""
    base = Config()
    config = msgspec.structs.replace(
        base,
        thresholds=msgspec.structs.replace(base.thresholds, hit_rate_low=0.613, effectiveness_low=0.9123),
    )
    text = dashboards(config)[DASHBOARD_FILES["families"]]
    plain = dashboards(base)[DASHBOARD_FILES["families"]]
    for figure in ("0.613", "0.9123"):
        assert figure in text
        assert figure not in plain


def test_overview_reads_recorded_series_only() -> None:
    """The Overview queries recorded series and ALERTS, so its cost does not grow with the processes."""
    recorded = {rule.series.name for rule in recording.rules(Config())}
    board = load(next(p for p in FILES if p.name == DASHBOARD_FILES["overview"]))
    used = {s.name for t in targets(board) for s in selectors(t.expr)}
    assert used - recorded == {"ALERTS"}
    assert len(used) > 10
