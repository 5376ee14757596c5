"""Runbooks: one per alert, four sections, the articles' advice."""

from __future__ import annotations

from pathlib import Path

import pytest

from lz_otel.bundle.alerts import alerts
from lz_otel.bundle.config import Config, parse
from lz_otel.bundle.runbooks import overview, runbooks

ROOT = Path(__file__).resolve().parents[2]
PAGES = runbooks(Config())


def test_one_page_for_each_alert_and_no_other() -> None:
    """Files and alerts correspond."""
    assert sorted(f"{a.name}.md" for a in alerts(Config())) == sorted(
        p.name for p in (ROOT / "alerts/runbooks").iterdir()
    )


@pytest.mark.parametrize("name", sorted(PAGES))
def test_sections(name: str) -> None:
    """Meaning, Impact, Diagnosis with queries, Mitigation, in this order."""
    page = PAGES[name]
    places = [
        page.index(f"\n## {title}\n")
        for title in ("Meaning", "Impact", "Diagnosis", "Mitigation", "When it fires")
    ]
    assert sorted(places) == places
    assert "```promql" in page


@pytest.mark.parametrize(
    ("name", "advice"),
    [
        ("LLMPruningHurtsQuality", "roll `prune_ratio` back by 0.03"),
        ("LLMZeroingFallbackHigh", "raise `zeroing_threshold` by 20 %"),
        ("LLMGhostContext", "`x-anthropic-layer-hint: legacy`"),
        ("LLMHitRateLow", "retune the preprocessing"),
        ("LLMCreativeSurge", "scale out"),
        ("LLMIntentWrongHeader", "`anthropic-sampling-intent: deterministic|creative|balanced`"),
        ("LLMContextNotTagged", "`<context>`"),
    ],
)
def test_mitigation_is_that_of_the_article(name: str, advice: str) -> None:
    """The articles' own advice stands in the runbook."""
    assert advice in PAGES[f"{name}.md"].split("## Mitigation")[1]


def test_advice_follows_the_configuration() -> None:
    """A step that is configured is the step that is advised."""
    page = runbooks(parse({"thresholds": {"prune_step": 0.05}}))["LLMPruningHurtsQuality.md"]
    assert "back by 0.05" in page


def test_overview_lists_every_alert_and_setting() -> None:
    """The list links every runbook."""
    text = overview(Config())
    assert all(f"(runbooks/{a.name}.md)" in text for a in alerts(Config()))
    assert "`thresholds.hit_rate_low`" in text
