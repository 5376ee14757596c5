"""Case 24: what is drawn and alerted on is what is exposed: names, labels, values, units, buckets, source.

The rules of form that need no exposition are in tests/bundle.
"""

from __future__ import annotations

import datetime
import json
import re
import subprocess
from typing import TYPE_CHECKING, Any

import anthropic
import httpx2
import openai
import pytest
import yaml
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader
from prometheus_client import CollectorRegistry, generate_latest

import lz_otel
from lz_otel import catalogue, testing
from lz_otel._export.prometheus import StoreCollector
from lz_otel.bundle.promql import EXTERNAL
from tests.bundle.boards import FILES, MATCHER, ROOT, SELECTOR, load, panels, targets
from tests.casebook.bodies import ASK, CHAT
from tests.casebook.helpers import claude, good, gpt, in_turn, json_body, refusal, settle, stream
from tests.export.filling import filled, from_sdk, from_text
from tests.peers import need
from tests.wire_doubles import A_JSON, O_JSON, a_full, o_full, sse

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

RULES = sorted((ROOT / "alerts/rules").glob("*.yml"))
WORDS = {"and", "or", "unless", "bool", "offset", "inf", "nan", "start", "end", "atan2"}
GROUPING = re.compile(r"\b(?:by|on|ignoring|group_left|group_right|without)\s*\(([^)]*)\)")
# Labels that the scrape, the receiver or an alert's rule adds
ADDED = {
    "job",
    "instance",
    "le",
    "__name__",
    "alertname",
    "alertstate",
    "severity",
    "layer",
    "precision",
    "block_type",
}


def documents() -> Iterator[tuple[str, dict[str, Any]]]:
    for path in RULES:
        for group in yaml.safe_load(path.read_text())["groups"]:
            for rule in group["rules"]:
                yield path.stem, rule


def expressions() -> Iterator[tuple[str, str]]:
    """Every expression that is shipped: panels, variables, annotations, recording rules, alerts."""
    for path in FILES:
        board = load(path)
        yield from ((str(t), t.expr) for t in targets(board))
        yield from ((path.stem, a["expr"]) for a in board["annotations"]["list"])
        for variable in board["templating"]["list"]:
            if variable["type"] == "query":
                query = variable["query"]["query"]
                inner = re.fullmatch(r"label_values\((.*), ?(\w+)\)", query)
                yield path.stem, inner[1] if inner else query
    for stem, rule in documents():
        yield f"{stem} {rule.get('record') or rule.get('alert')}", rule["expr"]


def names(expr: str) -> set[str]:
    """Names of metrics in an expression."""
    text = re.sub(r'"(?:[^"\\]|\\.)*"', '""', expr)
    text = re.sub(r"\{[^}]*\}|\[[^\]]*\]", "", GROUPING.sub("", text))
    found = re.findall(r"(?<![\w:.$])([a-zA-Z_:][\w:]*)(?!\s*\(|[\w:])", re.sub(r"\$\{?\w+\}?", "0", text))
    return set(found) - WORDS


def traffic() -> None:
    """The calls of cases 01-04, 11, 13, 15 and 16."""
    error = sse({"type": "error", "error": {"type": "overloaded_error", "message": "Overloaded"}})
    soon = datetime.datetime.now(datetime.UTC) + datetime.timedelta(minutes=1)
    limited = {
        "anthropic-ratelimit-requests-limit": "50",
        "anthropic-ratelimit-requests-remaining": "49",
        "anthropic-ratelimit-requests-reset": f"{soon:%Y-%m-%dT%H:%M:%SZ}",
    }
    claude(lambda r: httpx2.Response(200, headers=limited, json=A_JSON)).messages.create(**ASK)
    settle(claude(stream([p for e in a_full() for p in (0.002, e)])).messages.create(**ASK, stream=True))
    gpt(json_body(O_JSON)).chat.completions.create(**CHAT)
    settle(gpt(stream(o_full(usage=False))).chat.completions.create(**CHAT, stream=True))
    stopped = claude(stream(a_full())).messages.create(**ASK, stream=True)
    next(stopped)
    stopped.close()
    with pytest.raises(anthropic.APIStatusError):
        settle(claude(stream([*a_full()[:3], error])).messages.create(**ASK, stream=True))
    claude(in_turn(refusal(429, "rate_limit_error"), refusal(529, "overloaded_error"), good)).messages.create(
        **ASK
    )
    with lz_otel.operation("ticket"):
        with pytest.raises(anthropic.APIStatusError):
            claude(refusal(529, "overloaded_error"), max_retries=0).messages.create(**ASK)
        gpt(json_body(O_JSON)).chat.completions.create(**CHAT)
    lz_otel.record_quality(0.97)
    lz_otel.record_response_cache(hit=True)
    gpt(json_body(EMBEDDING)).embeddings.create(
        model="text-embedding-3-small", input="x", encoding_format="float"
    )
    with pytest.raises(openai.APIConnectionError):
        gpt(lambda r: httpx2.ConnectError("no", request=r), max_retries=0).chat.completions.create(**CHAT)


EMBEDDING = {
    "object": "list",
    "model": "text-embedding-3-small",
    "usage": {"prompt_tokens": 7, "total_tokens": 7},
    "data": [{"object": "embedding", "index": 0, "embedding": [0.5, 0.25]}],
}


class Exposed:
    """Samples of the Prometheus text and of OTLP, translated by the usual rules."""

    def __init__(self) -> None:
        registry, reader = CollectorRegistry(), InMemoryMetricReader()
        provider = MeterProvider([reader])
        with testing.capture(
            strict=True,
            exporters="prometheus",
            prometheus_port=0,
            registry=registry,
            meter_provider=provider,
            overhead_sample=1.0,
        ):
            traffic()
            self.text = generate_latest(registry).decode()
            data = reader.get_metrics_data()
        provider.shutdown()
        self.pulled, self.pushed = from_text(self.text), from_sdk(data)
        self.data: Any = data


@pytest.fixture(scope="module")
def exposed() -> Exposed:
    return Exposed()


@pytest.fixture(scope="module")
def whole() -> dict[str, set[str]]:
    """Every sample's name with its label keys,
    of a store in which every metric has data (empty values included).
    """
    registry = CollectorRegistry()
    registry.register(StoreCollector(filled("latest")))
    out: dict[str, set[str]] = {}
    for line in generate_latest(registry).decode().splitlines():
        if not line.startswith("#"):
            name, _, rest = line.partition("{")
            out.setdefault(name.partition(" ")[0], set()).update(
                re.findall(r'(\w+)="', rest.rpartition("}")[0])
            )
    return out


def test_24_both_expositions_have_the_same_names(exposed: Exposed) -> None:
    """What is pulled and what is pushed are the same samples, but for what a scrape adds."""
    pulled, pushed = {n for n, _ in exposed.pulled}, {n for n, _ in exposed.pushed}
    assert pulled == pushed
    assert "otel_scope" not in exposed.text


def test_24_the_traffic_fills_the_metrics_of_every_call(exposed: Exposed) -> None:
    """All metrics that need no mechanism of the articles have data after these calls."""
    families = {"symbolic", "pruning", "intent", "zeroing", "scheduling"}
    missing = set()
    for metric in catalogue.selected("latest"):
        if metric.mechanism in families or metric.name in (
            "lz.fast_path.engine.duration",
            "lz.fast_path.fallbacks",
        ):
            continue
        if not any(n.startswith(metric.prometheus) for n, _ in exposed.pulled):
            missing.add(metric.name)
    assert {"lz.internal.overflow"} == missing  # nothing was over a limit


def test_24_every_name_is_exposed_or_recorded(whole: dict[str, set[str]]) -> None:
    """Each name in each expression is a sample of the exposition, a recorded series,
    or of another exporter.
    """
    known = (
        set(whole) | {r["record"] for _, r in documents() if "record" in r} | {m.prometheus for m in EXTERNAL}
    )
    unknown = {(where, n) for where, expr in expressions() for n in names(expr) if n not in known}
    assert set() == unknown
    used = {n for _, expr in expressions() for n in names(expr)}
    assert len(used & set(whole)) > 40


def test_24_every_label_and_value_exists(whole: dict[str, set[str]]) -> None:
    """A label in a matcher exists on that sample, and a literal value there is one the library can emit."""
    closed = {(m.prometheus, a.label): set(a.values) for m in catalogue.ALL for a in m.attributes if a.values}
    checked = 0
    for where, expr in expressions():
        for name, matchers in ((m[1], MATCHER.findall(m[2])) for m in SELECTOR.finditer(expr)):
            if name not in whole:
                continue
            for label, sign, value in matchers:
                assert label in whole[name] | ADDED, f"{label} on {name}: {where}"
                family = re.sub(r"_(bucket|count|sum)$", "", name)
                values = closed.get((family, label))
                if values and "$" not in value:
                    literal = re.fullmatch(r"[\w|.]*", value)
                    words = (
                        value.split("|") if "~" in sign and literal else [value] if "~" not in sign else []
                    )
                    assert set(words) <= values | {""}, f"{label}{sign}{value}: {where}"
                    checked += len(words)
    assert checked > 100


def test_24_grouping_labels_exist(whole: dict[str, set[str]]) -> None:
    """A label in by (...) exists on what is grouped, or is made in the same expression."""
    recorded = {
        r["record"]: set(re.findall(r"\w+", " ".join(GROUPING.findall(r["expr"]))))
        | set(r.get("labels") or ())
        for _, r in documents()
        if "record" in r
    }
    everything = set().union(*whole.values(), *recorded.values()) | ADDED
    external = {label for m in EXTERNAL for label in m.labels}
    checked = 0
    for where, expr in expressions():
        made = set(re.findall(r'label_(?:replace|join)\([^"]*"(\w+)"', expr))
        carried = set().union(
            *(whole.get(n, set()) | recorded.get(n, set()) for n in names(expr)), made, ADDED, external
        )
        if "__name__" in expr:
            carried |= everything
        for group in GROUPING.findall(expr):
            for label in re.findall(r"\w+", group):
                assert label in carried, f"by ({label}): {where}"
                checked += 1
    assert checked > 100


def test_24_all_points_of_a_metric_have_the_same_keys(exposed: Exposed) -> None:
    """An absent value is an empty text in the text, and no attribute in what is pushed: stores drop both."""
    keys: dict[str, set[tuple[str, ...]]] = {}
    for line in exposed.text.splitlines():
        if not line.startswith("#"):
            name, _, rest = line.partition("{")
            keys.setdefault(name.partition(" ")[0], set()).add(tuple(re.findall(r'(\w+)="', rest)))
    assert dict.fromkeys(keys, 1) == {n: len(k) for n, k in keys.items()}
    for resource in exposed.data.resource_metrics:
        for scope in resource.scope_metrics:
            for metric in scope.metrics:
                named = {attribute.name for attribute in catalogue.by_name(metric.name).attributes}
                assert all(set(p.attributes) <= named for p in metric.data.data_points), metric.name
                assert all(value != "" for p in metric.data.data_points for value in p.attributes.values())


def test_24_buckets_tell_fast_from_slow() -> None:
    """Tenths, seconds and tens of seconds fall into different buckets, and a median of 2 s is read as 1 to 3.

    The contract's last finite bound is 160 s: 400 s is beyond it, in the bucket of the rest.
    """
    bounds = catalogue.by_name("gen_ai.client.inference.duration").buckets
    slots = [sum(b < value for b in bounds) for value in (0.4, 4.0, 40.0, 400.0)]
    assert 4 == len(set(slots))
    at = sum(b < 2.0 for b in bounds)
    low, high = bounds[at - 1], bounds[at]
    assert 1 < low + (high - low) * 0.5 < 3


def test_24_ten_calls_of_two_seconds(exposed: Exposed) -> None:
    """Money, seconds and tokens carry the unit in their names as the expressions read them."""
    sample_names = {n for n, _ in exposed.pulled}
    assert {
        "lz_cost_usd_total",
        "gen_ai_client_inference_duration_seconds_bucket",
        "lz_attempts_total",
        "gen_ai_client_inference_usage_input_tokens_total",
        "lz_call_active",
    } <= sample_names


def test_24_three_instances(exposed: Exposed, tmp_path: Path) -> None:
    """The recorded sums of three instances are three times those of one,
    and quantiles and shares are the same.
    """
    series = []
    for (name, labels), value in exposed.pulled.items():
        for job, instance in (("one", "a"), *(("three", i) for i in "abc")):
            pairs = {**dict(labels), "job": job, "instance": instance}
            text = ",".join(f"{k}={json.dumps(v)}" for k, v in sorted(pairs.items()))
            series.append({"series": f"{name}{{{text}}}", "values": f"0x20 {value}x40"})
    times_three = [
        "sum({r})".replace("{r}", name)
        for name in (
            "job:llm_calls:rate5m",
            "job:llm_calls_failed:rate5m",
            "job_provider_model_route:lz_cost_usd:rate5m",
            "job_provider_model_route:llm_cache_read_input_tokens:rate5m",
        )
    ]
    bucket = "gen_ai_client_inference_duration_seconds_bucket"
    same = [
        "job:llm_failures_per_call:ratio_rate5m",
        f"histogram_quantile(0.9, sum by (le) (rate({bucket}[5m])))",
    ]
    tests = [
        {
            "expr": f"round(({_of(e, 'three')}) / ignoring(job) ({_of(e, 'one')}), 0.0001)",
            "eval_time": "22m",
            "exp_samples": [{"labels": "{}", "value": factor}],
        }
        for factor, exprs in ((3, times_three), (1, same))
        for e in exprs
    ]
    case = {"interval": "1m", "input_series": series, "promql_expr_test": tests}
    path = tmp_path / "case.test.yml"
    path.write_text(
        yaml.safe_dump({"rule_files": [str(p) for p in RULES], "evaluation_interval": "1m", "tests": [case]})
    )
    done = subprocess.run(
        [need("promtool"), "test", "rules", str(path)], capture_output=True, text=True, check=False
    )
    assert 0 == done.returncode, done.stdout + done.stderr


def _of(expr: str, job: str) -> str:
    """The expression for one job."""
    return re.sub(r"(rate5m|_bucket)(?=\[|\)|$)", rf'\1{{job="{job}"}}', expr)


def test_24_boards_load_by_provisioning() -> None:
    """Each source is a variable; no input to be filled in; no id; a uid of its own."""
    uids = set()
    for path in FILES:
        text, board = path.read_text(), load(path)
        assert "__inputs" not in text
        assert "${DS_" not in text
        assert board.get("id") is None
        uids.add(board["uid"])
        sources = {json.dumps(p["datasource"]) for p in panels(board)}
        assert sources == {'{"type": "prometheus", "uid": "${datasource}"}'}
        assert [v for v in board["templating"]["list"] if v["type"] == "datasource"]
    assert len(FILES) == len(uids)


def test_24_habits_of_all_expressions() -> None:
    """No rate of a gauge, no quantile but of a sum by (le), no mean of quantiles, no $__interval."""
    gauges = {
        m.prometheus for m in (*catalogue.ALL, *EXTERNAL) if m.kind in (catalogue.GAUGE, catalogue.UP_DOWN)
    }
    quantiles = 0
    for where, expr in expressions():
        assert not set(re.findall(r"\b(?:rate|irate|increase)\(([\w:]+)", expr)) & gauges, where
        assert "$__interval" not in expr, where
        assert not re.search(r"\bavg[^(]*\(\s*histogram_quantile", expr), where
        for inner in re.findall(r"histogram_quantile\(\s*[\d.]+,\s*(.{0,40})", expr, re.DOTALL):
            assert re.match(r"(?:\d+ \* )?\(?sum by \([^)]*\ble\b|[\w:]*_le:", inner), f"{where}: {inner}"
            quantiles += 1
    assert quantiles > 10
