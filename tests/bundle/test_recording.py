"""Recording rules: names, order, and that constants and rules agree."""

from __future__ import annotations

import re

from lz_otel.bundle import recording
from lz_otel.bundle.config import Config, parse
from lz_otel.bundle.promql import Recorded

LEVEL = re.compile(r"[a-z_]+:[a-z_0-9]+:[a-z_0-9]+")
RULES = recording.rules(Config())


def test_names_are_level_metric_operations_or_the_articles() -> None:
    """A name has three parts, or is one that an article uses."""
    assert [] == [
        r.series.name
        for r in RULES
        if not LEVEL.fullmatch(r.series.name) and r.series.name not in recording.ARTICLE_NAMES
    ]


def test_every_constant_is_recorded() -> None:
    """A series that can be referred to is one that a rule makes."""
    constants = {v.name for v in vars(recording).values() if isinstance(v, Recorded)}
    assert set() == constants - {r.series.name for r in RULES}


def test_labels_are_those_that_the_expression_leaves() -> None:
    """A reference may use exactly the labels that the rule gives."""
    assert [] == [
        (r.series.name, set(r.series.labels), set(r.expr.labels))
        for r in RULES
        if set(r.series.labels) != set(r.expr.labels) | {k for k, _ in r.labels}
    ]


def test_recorded_counters_keep_the_instance() -> None:
    """Without it a restart of one process would look like a reset of all."""
    raw = [
        r
        for r in RULES
        if "rate(" not in r.expr.text and "increase(" not in r.expr.text and "lz_fast" in r.expr.text
    ]
    assert raw
    assert all("instance" in r.series.labels for r in raw)


def test_no_rule_matches_a_bucket_bound_or_a_scope_label() -> None:
    """Scraped and pushed series differ in both."""
    assert [] == [
        r.series.name for r in RULES if re.search(r"[{,]le[=!]|scope_|otel_scope|service_name", r.expr.text)
    ]


def test_extra_labels_and_selectors_are_in_every_rule() -> None:
    """What the users' set-up adds is kept and filtered by."""
    rules = recording.rules(parse({"extra_labels": ["cluster"], "selectors": {"env": "prod"}}))
    bare = [r.series.name for r in rules if "cluster" not in r.expr.text and "job:llm" not in r.expr.text]
    assert [] == bare
    raw = [r for r in rules if "gen_ai_client" in r.expr.text or "lz_fast_path_calls_total" in r.expr.text]
    assert all('env="prod"' in r.expr.text for r in raw)


def test_names_stay_when_windows_are_shortened() -> None:
    """A shortened rule records under the same name, so that dashboards work on it."""
    short = recording.rules(parse({"time": {"scale": 0.01}}))
    assert [r.series.name for r in RULES] == [r.series.name for r in short]
    assert not any("[1h]" in r.expr.text for r in short)
