"""The committed rules before Prometheus' own judge: syntax, and their unit tests."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from pathlib import Path

import pytest

from lz_otel.bundle import recording
from lz_otel.bundle._yaml import dump
from lz_otel.bundle.alerts import alerts
from lz_otel.bundle.config import Config, parse
from lz_otel.bundle.render import alert_groups, recording_groups
from tests.peers import need

ROOT = Path(__file__).resolve().parents[2]
TESTS = sorted((ROOT / "alerts/tests").glob("*.test.yml"))


def run(*args: str) -> tuple[int, str]:
    """Exit code and all output of promtool."""
    done = subprocess.run([need("promtool"), *args], capture_output=True, text=True, timeout=600, check=False)
    return done.returncode, done.stdout + done.stderr


def test_rule_files_are_valid() -> None:
    """Both committed files pass, with lint."""
    code, text = run("check", "rules", "--lint=all", *map(str, sorted((ROOT / "alerts/rules").glob("*.yml"))))
    assert 0 == code, text


@pytest.mark.timeout(600)
@pytest.mark.parametrize("path", TESTS, ids=lambda p: p.name)
def test_unit_tests_of_the_rules(path: Path) -> None:
    """Alerts fire on one side of each edge only; recorded series have the articles' figures."""
    code, text = run("test", "rules", str(path))
    assert 0 == code, text


# Tests that need other settings than the committed rules have: file, settings.
CONFIGURED: dict[str, dict[str, object]] = {
    "budgets.test.yml": {"budget_usd_per_day": 100, "budget_usd_per_hour": 20},
    "last-week.test.yml": {"time": {"windows": {"7d": "7h", "1d": "2h"}}},
}


@pytest.mark.timeout(600)
@pytest.mark.parametrize("name", CONFIGURED)
def test_unit_tests_of_configured_rules(name: str, tmp_path: Path) -> None:
    """What is off by default, or would take a week, is tested on rules that are configured for it."""
    config = parse(CONFIGURED[name])
    (tmp_path / "rules.yml").write_text(dump({"groups": recording_groups(config) + alert_groups(config)}))
    shutil.copy(Path(__file__).parent / name, tmp_path)
    code, text = run("test", "rules", str(tmp_path / name))
    assert 0 == code, text


def test_every_article_name_has_a_figure_in_the_tests() -> None:
    """Each of the articles' names is asked for by a rule test."""
    text = (ROOT / "alerts/tests/recording.test.yml").read_text()
    assert [] == [name for name in recording.ARTICLE_NAMES if not re.search(rf"\b{name}\b", text)]


def test_every_alert_has_a_silent_side() -> None:
    """Each alert but the watchdog has a case in which it stays silent."""
    text = "".join(p.read_text() for p in (*TESTS, *Path(__file__).parent.glob("*.test.yml")))
    whole_day = ("LLMCostSpike", "LLMDailyBudget", "LLMPromptCacheCollapsed")  # a job for each case
    names = {a.name for a in alerts(Config())} - {"LLMWatchdog", *whole_day}
    assert [] == sorted(name for name in names if f'"{name}, silent: ' not in text)


def test_order_of_groups_names_all_groups() -> None:
    """The rule tests list every group, or promtool would run the rest in any order."""
    names = [g["name"] for g in (*recording_groups(Config()), *alert_groups(Config()))]
    for path in TESTS:
        if path.name != "recording.test.yml":
            listed = re.findall(r"^  - (lz-otel-[\w-]+)$", path.read_text(), re.MULTILINE)
            assert names == listed, path.name


@pytest.mark.parametrize(
    "settings",
    [
        {},
        {"time": {"scale": 0.01}},
        {"extra_labels": ["cluster"], "selectors": {"env": "~prod.*"}, "alert_labels": {"team": "ai"}},
        {"slo": {"objective": 0.9, "harmless_errors": ["invalid_request_error"]}, "batch_jobs": ["nightly"]},
    ],
    ids=["default", "short", "labels", "slo"],
)
def test_configured_rules_are_valid(settings: dict[str, object], tmp_path: Path) -> None:
    """Whatever is configured, promtool accepts what comes out."""
    config = parse(settings)
    for name, groups in (("recording", recording_groups(config)), ("alerts", alert_groups(config))):
        path = tmp_path / f"{name}.yml"
        path.write_text(dump({"groups": groups}))
        code, text = run("check", "rules", "--lint=all", str(path))
        assert 0 == code, text


def test_a_wrong_threshold_is_noticed(tmp_path: Path) -> None:
    """The healthy service is near enough to the edges for the quiet test to fail when one is moved."""
    strict = parse(
        {"thresholds": {"rate_limited": 0.009, "hit_rate_low": 0.81}, "guards": {"rate_limited": 1}}
    )
    (tmp_path / "rules.yml").write_text(dump({"groups": recording_groups(strict) + alert_groups(strict)}))
    quiet = (ROOT / "alerts/tests/quiet.test.yml").read_text().replace("../rules/*.yml", "rules.yml")
    second = [m.start() for m in re.finditer(r"^  - name: ", quiet, re.MULTILINE)][1]
    (tmp_path / "quiet.test.yml").write_text(quiet[:second])
    code, text = run("test", "rules", str(tmp_path / "quiet.test.yml"))
    assert 1 == code
    assert "LLMRateLimited" in text
    assert "LLMHitRateLow" in text


def test_queries_of_runbooks_are_valid(tmp_path: Path) -> None:
    """Every query of every runbook is one that Prometheus can read."""
    queries = [expr.text for a in alerts(Config()) for _, expr in a.diagnosis]
    rules = [{"record": f"q{number}", "expr": text} for number, text in enumerate(queries)]
    (tmp_path / "q.yml").write_text(json.dumps({"groups": [{"name": "q", "rules": rules}]}))
    code, text = run("check", "rules", str(tmp_path / "q.yml"))
    assert 0 == code, text
