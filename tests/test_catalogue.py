"""The catalogue: what is true of every metric, whoever adds one."""

from __future__ import annotations

import re
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lz_otel import catalogue
from lz_otel.catalogue import ALL, Metric, by_name, prometheus_name, selected
from lz_otel.errors import CatalogueError

# Nothing that tells one user, session or text from another may be a label.
FORBIDDEN = {"user", "session", "prompt", "url", "query", "key", "secret", "ip", "email", "trace",
             "request_id", "body", "content", "message"}  # fmt: skip
UNIT_WORDS = {"seconds", "milliseconds", "bytes", "percent", "total", "ratio"}
KINDS = {"counter", "updowncounter", "gauge", "histogram"}

each = pytest.mark.parametrize(
    "metric", ALL, ids=lambda m: f"{m.name}[{m.convention}]" if m.convention else m.name
)


@pytest.mark.parametrize(
    ("name", "unit", "kind", "expected"),
    [
        ("llm.cache.requests", "{request}", "counter", "llm_cache_requests_total"),
        ("llm.cost", "USD", "counter", "llm_cost_USD_total"),
        ("llm.cost", "{USD}", "counter", "llm_cost_total"),
        ("x_total", "", "counter", "x_total"),
        ("llm.bytes", "By", "counter", "llm_bytes_total"),
        ("gen_ai.client.operation.duration", "s", "histogram", "gen_ai_client_operation_duration_seconds"),
        ("a.rate", "{token}/s", "histogram", "a_rate_per_second"),
        ("a.share", "%", "gauge", "a_share_percent"),
        ("a.active", "{call}", "updowncounter", "a_active"),
        ("x__y", "", "gauge", "x_y"),
    ],
)
def test_names_follow_the_standard_translation(name: str, unit: str, kind: str, expected: str) -> None:
    """The rows of the table that exporter and receiver agree on."""
    assert expected == prometheus_name(name, unit, kind)


@each
def test_a_name_means_the_same_to_every_translator(metric: Metric) -> None:
    """Exporter and receiver differ on unit words inside a name, on ``total``, and on unit 1: none is used."""
    words = re.split(r"[._]", metric.name)
    inside = UNIT_WORDS & set(words[:-1])
    assert set() == inside
    assert "total" not in words
    assert metric.unit not in ("1", "")
    assert re.fullmatch(r"[a-z][a-z0-9_]*(\.[a-z][a-z0-9_]*)+", metric.name)


@each
def test_labels_are_closed_or_capped(metric: Metric) -> None:
    """A label has a list of values or a limit, never neither and never both."""
    assert [] == [a.name for a in metric.attributes if bool(a.values) == bool(a.cap)]
    assert [] == [a.name for a in metric.attributes if len(set(a.values)) != len(a.values)]
    assert len({*metric.labels}) == len(metric.labels)
    assert [] == [a.name for a in metric.attributes if "" in a.values and not a.optional]


@each
def test_no_label_tells_people_apart(metric: Metric) -> None:
    """No label is named after a user, a session, a prompt, a URL or a key."""
    assert [] == [a.name for a in metric.attributes if FORBIDDEN & set(re.split(r"[._]", a.name))]
    assert [] == [label for label in metric.labels if label in ("le", "job", "instance", "quantile")]


@each
def test_shape(metric: Metric) -> None:
    """Kind, mark, convention and mechanism are of the known ones; buckets go with histograms and rise."""
    assert metric.kind in KINDS
    assert metric.mark in ("D", "A", "C")
    assert metric.convention in ("", "latest", "1.36")
    assert metric.mechanism in ("", *catalogue.MECHANISMS)
    assert (metric.kind == "histogram") == bool(metric.buckets)
    assert [] == [pair for pair in pairwise(metric.buckets) if pair[0] >= pair[1]]


@each
def test_a_meaning_is_one_sentence(metric: Metric) -> None:
    """What a reader of the documentation sees is a sentence, not a label."""
    assert not metric.doc.startswith((" ", "The metric"))
    assert metric.doc.endswith(".")
    assert "\n" not in metric.doc


@pytest.mark.parametrize("conventions", ["latest", "1.36", "both"])
def test_names_are_unique(conventions: str) -> None:
    """Whatever conventions are asked for, two metrics in force never share a name."""
    names = [m.prometheus for m in selected(conventions)]
    assert sorted(set(names)) == sorted(names)
    assert {"lz_attempts_total", "lz_cost_usd_total"} < set(names)


def test_conventions_choose_the_names() -> None:
    """The newest conventions have five token counters, those of 1.36 one histogram."""
    latest = {m.name for m in selected("latest")}
    older = {m.name for m in selected("1.36")}
    assert "gen_ai.client.token.usage" in older - latest
    assert "gen_ai.client.inference.duration" in latest - older


def test_both_modes_are_resolved() -> None:
    """The buckets of durations separate a fast path at 19–38 ms from a full one at 0.8–1.2 s, finely."""
    fast = [b for b in catalogue.DURATION_BUCKETS if 0.019 <= b <= 0.040]
    full = [b for b in catalogue.DURATION_BUCKETS if 0.8 <= b <= 1.2]
    assert ([0.020, 0.025, 0.030, 0.040], [0.8, 1.0, 1.2]) == (fast, full)


def test_counters_of_closed_lists_start_at_zero() -> None:
    """``increase`` never sees the first event of a series that was not there."""
    assert by_name("lz.fast_path.calls").starts_at_zero
    assert not by_name("lz.cost.usd").starts_at_zero
    assert not by_name("lz.call.active").starts_at_zero


def test_fallbacks_belong_to_mechanisms() -> None:
    """Each reason of a fallback is in the label's list."""
    listed = next(a.values for a in by_name("lz.fast_path.fallbacks").attributes if a.name == "reason")
    assert set(catalogue.FALLBACK_REASONS) <= set(catalogue.MECHANISMS)
    assert set() == {r for rs in catalogue.FALLBACK_REASONS.values() for r in rs} - set(listed)


@each
def test_found_by_either_name(metric: Metric) -> None:
    """A metric is found by its OpenTelemetry name and by its Prometheus name."""
    assert metric.name == by_name(metric.name).name == by_name(metric.prometheus).name


@given(st.text().filter(lambda t: t not in {n for m in ALL for n in (m.name, m.prometheus)}))
def test_an_unknown_name_is_refused(name: str) -> None:
    """A metric that is not in the catalogue cannot be drawn or alerted on; the error names it."""
    with pytest.raises(CatalogueError) as caught:
        by_name(name)
    assert repr(name) in str(caught.value)
