"""Alerts: each complete, linked, guarded, and within the rules for all."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from lz_otel import cli
from lz_otel.bundle.alerts import SEVERITIES, alerts, groups, rule
from lz_otel.bundle.config import Config, parse, seconds
from lz_otel.bundle.render import alert_groups, files, stale
from lz_otel.errors import ConfigurationError

ROOT = Path(__file__).resolve().parents[2]
ALERTS = alerts(Config())
ENTRIES = [entry for group in alert_groups(Config()) for entry in group["rules"]]


def test_names_begin_alike_and_are_unique() -> None:
    """CamelCase with LLM in front, once each."""
    names = [a.name for a in ALERTS]
    assert [] == [n for n in names if not re.fullmatch(r"LLM[A-Z][A-Za-z0-9]+", n)]
    assert len(names) == len(set(names))


@pytest.mark.parametrize("alert", ALERTS, ids=lambda a: a.name)
def test_each_alert_is_complete(alert: object) -> None:
    """Severity, constant summary, description with a label and a figure, runbook, links, and a test."""
    a = next(x for x in ALERTS if x is alert)
    assert a.summary.endswith(".")
    assert "{{" not in a.summary
    assert all(c.severity in SEVERITIES for c in a.conditions)
    for text in (a.meaning, a.impact, a.guard, a.source, *a.mitigation):
        assert text
    assert a.diagnosis
    tests = "".join(
        p.read_text() for d in ("alerts/tests", "tests/bundle") for p in (ROOT / d).glob("*.test.yml")
    )
    assert f'"{a.name}"' in tests
    assert (ROOT / "alerts/runbooks" / f"{a.name}.md").is_file()
    for condition in a.conditions:
        notes = rule(Config(), a, condition)["annotations"]
        assert notes["runbook_url"].endswith(f"/{a.name}.md")
        assert "/d/" in notes["dashboard_url"]
        if a.name not in ("LLMWatchdog", "LLMOtelSilent"):
            assert "{{ $labels." in notes["description"]
            assert "$value" in notes["description"] or "{{ $value" in notes["description"]


def test_labels_in_texts_are_labels_of_the_expression() -> None:
    """A text that names a label which the expression lost would read <no value>."""
    wrong = []
    for a in ALERTS:
        for condition in a.conditions:
            entry = rule(Config(), a, condition)
            carried = condition.expr.labels | set(entry["labels"])
            used = set(re.findall(r"\$labels\.(\w+)", " ".join(entry["annotations"].values())))
            wrong += [(a.name, label) for label in used - carried]
    assert [] == wrong


def test_divisors_are_guarded() -> None:
    """Every quotient is by something above 0."""
    unguarded = [e["alert"] for e in ENTRIES if re.search(r" / (?!\(|ignoring|on )", e["expr"])]
    assert [] == unguarded


def test_counters_are_never_read_raw() -> None:
    """A counter stands in a range, of rate or increase."""
    assert [] == [
        e["alert"] for e in ENTRIES if re.search(r"_total(\{[^}]*\})?(?!\{)(?!\[)(?=[\s)]|$)", e["expr"])
    ]


def test_no_alert_matches_a_bucket_bound() -> None:
    """Scraped series say 1.0, pushed ones 1."""
    assert [] == [e["alert"] for e in ENTRIES if re.search(r"[{,]le[=!]", e["expr"])]


def test_pages_are_for_symptoms() -> None:
    """Only what users or payers feel pages somebody."""
    assert [] == [
        a.name for a in ALERTS for c in a.conditions if c.severity == "critical" and a.kind != "symptom"
    ]


def test_muting_alerts_exist() -> None:
    """What mutes an alert is an alert."""
    names = {a.name for a in ALERTS}
    assert set() == {mute.alert for a in ALERTS for mute in a.muted_by} - names


def test_alerts_can_be_left_out_and_unknown_ones_are_refused() -> None:
    """A name in disabled_alerts is left out; a wrong one is an error."""
    left = [a.name for a in alerts(parse({"disabled_alerts": ["LLMCostSpike"]}))]
    assert "LLMCostSpike" not in left
    with pytest.raises(ConfigurationError):
        groups(parse({"disabled_alerts": ["LLMNoSuch"]}))


def test_no_budget_alert_unless_a_budget_is_set() -> None:
    """Nobody is woken by a figure that lz-otel made up; the runbooks are there all the same, and say so."""
    budgets = {"LLMDailyBudget", "LLMHourlyBudget"}

    def ruled(**settings: float) -> set[str]:
        return {e["alert"] for group in alert_groups(parse(settings)) for e in group["rules"]} & budgets

    assert set() == ruled()
    assert {"LLMDailyBudget"} == ruled(budget_usd_per_day=50)
    assert {"LLMHourlyBudget"} == ruled(budget_usd_per_hour=5)
    for name in budgets:
        assert "is off" in (ROOT / f"alerts/runbooks/{name}.md").read_text()


def test_only_budgets_are_off() -> None:
    """Every other alert has a rule without any configuration."""
    assert ["LLMHourlyBudget", "LLMDailyBudget"] == [a.name for a in ALERTS if not a.conditions]


def test_a_layer_that_is_down_is_told_before_its_symptoms() -> None:
    """Its window and `for` together are shorter than the `for` of each alert that it mutes."""
    gone = next(a for a in ALERTS if a.name == "LLMFastPathGone")
    (window,) = set(re.findall(r"_total\{[^}]*\}\[(\w+)\]", gone.conditions[0].expr.text))
    first = seconds(window) + seconds(gone.conditions[0].wait) + Config().interval_seconds
    late = {
        a.name: seconds(c.wait)
        for a in ALERTS
        for c in a.conditions
        if gone.name in {mute.alert for mute in a.muted_by}
    }
    assert len(late) > 5
    assert {} == {name: wait for name, wait in late.items() if wait <= first}


def test_links_carry_static_labels() -> None:
    """A label that the rule adds is no part of $labels, so its value stands in the link itself."""
    alert = next(a for a in ALERTS if a.name == "LLMZeroingFallbackHigh")
    link = rule(Config(), alert, alert.conditions[0])["annotations"]["dashboard_url"]
    assert link.endswith("&var-mechanism=zeroing")


def test_configured_threshold_is_in_expression_text_and_runbook() -> None:
    """One number, changed once, changes the rule, the description and the runbook."""
    out = files(parse({"thresholds": {"hit_rate_low": 0.61}}), with_dashboards=False)
    assert 'ratio_rate30m{mechanism="symbolic"} < 0.61' in out["alerts/rules/alerts.yml"]
    assert "threshold: 61 %" in out["alerts/rules/alerts.yml"]
    assert "< 0.61" in out["alerts/runbooks/LLMHitRateLow.md"]


def test_committed_rules_and_runbooks_are_fresh() -> None:
    """What is committed is what the definitions give."""
    assert [] == stale(ROOT, files(Config(), with_dashboards=False))


def bundle(monkeypatch: pytest.MonkeyPatch, *arguments: str) -> object:
    """Exit status of ``lz-otel bundle``."""
    monkeypatch.setattr("sys.argv", ["lz-otel", "bundle", *arguments])
    with pytest.raises(SystemExit) as ended:
        cli.main()
    return ended.value.code


@pytest.mark.parametrize("form", ["prometheus", "prometheus-operator", "grafana-provisioning"])
def test_check_lists_what_is_stale(
    form: str, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """--check names missing, changed and left-over files and returns 1; writing removes them."""
    pytest.importorskip("grafana_foundation_sdk")
    pytest.importorskip("typer")
    args = ["--out", str(tmp_path), "--format", form]
    assert 0 == bundle(monkeypatch, *args)
    assert 0 == bundle(monkeypatch, *args, "--check")
    page = tmp_path / "alerts/runbooks/LLMHitRateLow.md"
    page.rename(page.with_name("LLMOld.md"))
    capsys.readouterr()
    assert 1 == bundle(monkeypatch, *args, "--check")
    assert (
        "stale: alerts/runbooks/LLMHitRateLow.md\nstale: alerts/runbooks/LLMOld.md\n"
        == capsys.readouterr().out
    )
    assert 0 == bundle(monkeypatch, *args)
    assert 0 == bundle(monkeypatch, *args, "--check")
    assert not page.with_name("LLMOld.md").exists()


@pytest.mark.parametrize(
    ("arguments", "error"),
    [
        (("--format", "xml"), "format='xml' cannot be used"),
        (("--config", "none.toml"), "--config='none.toml' cannot be used"),
        (("--write", "--check"), "exclude each other"),
    ],
)
def test_wrong_settings_end_with_two(
    arguments: tuple[str, ...],
    error: str,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A wrong form, a missing file and options that exclude each other end with 2 and an error."""
    pytest.importorskip("typer")
    assert 2 == bundle(monkeypatch, "--out", str(tmp_path), *arguments)
    assert error in capsys.readouterr().err
