"""Alertmanager's file before amtool: valid, routed as meant, muting as the alerts say, readable."""

from __future__ import annotations

import json
import re
import subprocess
from pathlib import Path

import pytest
import yaml

from lz_otel.bundle.alertmanager import with_inhibitions
from lz_otel.bundle.alerts import alerts
from lz_otel.bundle.config import Config, parse
from tests.peers import need

ALERTS = Path(__file__).resolve().parents[2] / "alerts"
FILE = ALERTS / "alertmanager.yml"


def amtool(*args: str) -> tuple[int, str]:
    """Exit code and standard output."""
    done = subprocess.run([need("amtool"), *args], capture_output=True, text=True, timeout=120, check=False)
    return done.returncode, done.stdout


def test_file_is_valid() -> None:
    """amtool accepts it, templates included, with no secret present."""
    code, text = amtool("check-config", str(FILE))
    assert 0 == code, text
    assert "1 templates" in text


def test_quiet_hours_are_valid_once_they_are_taken_in(tmp_path: Path) -> None:
    """The example in the comment works when its # is taken away."""
    text = FILE.read_text()
    changed = text.replace(
        "# mute_time_intervals: [nights, weekends]", "mute_time_intervals: [nights, weekends]"
    )
    assert text != changed
    (tmp_path / "am.yml").write_text(changed.replace("templates/*.tmpl", str(ALERTS / "templates/*.tmpl")))
    assert 0 == amtool("check-config", str(tmp_path / "am.yml"))[0]


@pytest.mark.parametrize(
    ("labels", "receiver"),
    [
        ("alertname=LLMProviderFailing severity=critical", "page"),
        ("alertname=LLMHitRateLow severity=warning", "ticket"),
        ("alertname=LLMCreativeSurge severity=info", "nowhere"),
        ("alertname=LLMWatchdog severity=none", "dead-mans-switch"),
        ("alertname=SomethingElse severity=none", "nowhere"),
        ("alertname=SomethingElse", "ticket"),
    ],
)
def test_routes(labels: str, receiver: str) -> None:
    """Severity decides who hears of it; the watchdog has its own switch."""
    code, text = amtool("config", "routes", "test", f"--config.file={FILE}", *labels.split())
    assert (0, receiver) == (code, text.strip())


def test_secrets_are_in_files_only() -> None:
    """No key, password or address of a hook stands in the file itself."""
    assert [] == re.findall(
        r"^\s*-?\s*(?:\w*(?:password|routing_key|api_url|service_key)|url):.*$",
        FILE.read_text(),
        re.MULTILINE,
    )


def _inhibitions() -> set[tuple[str, str]]:
    """(source, target) of every rule that names its alerts."""
    pairs = set()
    for rule in yaml.safe_load(FILE.read_text())["inhibit_rules"]:
        sources = re.findall(r'alertname =~? "([^"]+)"', " ".join(rule["source_matchers"]))
        targets = re.findall(r'alertname =~? "([^"]+)"', " ".join(rule["target_matchers"]))
        pairs |= {(source, target) for source in sources for names in targets for target in names.split("|")}
    return pairs


def test_inhibitions_are_those_of_the_alerts() -> None:
    """What the runbook says is muted is what Alertmanager mutes, and nothing else."""
    assert {(mute.alert, a.name) for a in alerts(Config()) for mute in a.muted_by} == _inhibitions()


def test_committed_inhibitions_are_fresh() -> None:
    """The marked part of Alertmanager's file is what the alerts give, and other alerts give another."""
    text = FILE.read_text()
    assert text == with_inhibitions(text, Config())
    assert text != with_inhibitions(text, parse({"disabled_alerts": ["LLMProviderFailing"]}))


def test_a_file_without_the_marks_is_left_alone() -> None:
    """A user's own file is not touched where the marks are gone."""
    assert "route: {}\n" == with_inhibitions("route: {}\n", Config())


def test_labels_of_an_inhibition_are_labels_of_both_alerts() -> None:
    """A label that must agree is carried by the alert that mutes and by the one that is muted."""
    labels = {
        a.name: {label for c in a.conditions for label in (*c.expr.labels, *dict(c.labels), "severity")}
        for a in alerts(Config())
    }
    wrong = []
    for alert in alerts(Config()):
        for mute in alert.muted_by:
            both = labels[alert.name] & labels[mute.alert]
            wrong += [(alert.name, label) for label in mute.equal if label not in both]
            wrong += [(mute.alert, label) for label, _ in mute.where if label not in labels[mute.alert]]
    assert [] == wrong


def _message(folder: Path, status: str, template: str) -> str:
    alert = {
        "status": status,
        "labels": {"alertname": "LLMProviderFailing", "job": "support-bot", "severity": "critical"},
        "annotations": {
            "summary": "Most calls to one LLM provider fail.",
            "description": "97 % of the calls of support-bot to anthropic failed over 5 minutes "
            "(threshold: 50 %).",
            "runbook_url": "https://example.org/LLMProviderFailing.md",
            "dashboard_url": "http://localhost:3000/d/abc?var-job=support-bot",
        },
        "startsAt": "2026-11-02T12:30:00Z",
        "endsAt": "2026-11-02T13:00:00Z",
        "generatorURL": "",
        "fingerprint": "1",
    }
    data = {
        "receiver": "page",
        "status": status,
        "alerts": [alert],
        "groupLabels": {"alertname": "LLMProviderFailing", "job": "support-bot"},
        "commonLabels": alert["labels"],
        "commonAnnotations": alert["annotations"],
        "externalURL": "http://am:9093",
    }
    path = folder / "data.json"
    path.write_text(json.dumps(data))
    done = subprocess.run(
        [
            need("amtool"),
            "template",
            "render",
            f"--template.glob={ALERTS}/templates/*.tmpl",
            f'--template.text={{{{ template "{template}" . }}}}',
            f"--template.data={path}",
        ],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert 0 == done.returncode, done.stderr
    return done.stdout.strip("\n")


def test_title_says_who_is_hit_and_by_what(tmp_path: Path) -> None:
    """The first line is enough to decide whether to get up."""
    assert "[PAGE] support-bot: Most calls to one LLM provider fail." == _message(
        tmp_path, "firing", "lz_otel.title"
    )
    assert "[OK] support-bot: Most calls to one LLM provider fail." == _message(
        tmp_path, "resolved", "lz_otel.title"
    )


def test_text_can_be_acted_on_from_a_phone(tmp_path: Path) -> None:
    """Figure, threshold, since when, what is muted, and three links."""
    names = [a.name for a in alerts(Config()) if "LLMProviderFailing" in {m.alert for m in a.muted_by}]
    muted = ", ".join(names)
    expected = f"""\
97 % of the calls of support-bot to anthropic failed over 5 minutes (threshold: 50 %).
Since Nov 2 12:30 UTC. Muted by this: {muted}.

Dashboard: http://localhost:3000/d/abc?var-job=support-bot&from=1793620800000&to=now
Runbook: https://example.org/LLMProviderFailing.md
Silence: http://am:9093/#/silences/new?filter=%7Balertname%3D%22LLMProviderFailing%22%2C%20job%3D%22support-bot%22%7D"""
    assert expected == _message(tmp_path, "firing", "lz_otel.text")
