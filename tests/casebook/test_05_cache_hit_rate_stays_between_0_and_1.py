"""Case 05: the shipped hit-rate expressions, over the real exposition of six calls,
by Prometheus' own engine.
"""

from __future__ import annotations

import re
import subprocess
from typing import TYPE_CHECKING, Any

import anthropic
import pytest
import yaml
from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.parser import text_string_to_metric_families

from lz_otel import catalogue
from tests.bundle.boards import ROOT, load, targets
from tests.casebook.bodies import ASK, CHAT
from tests.casebook.helpers import claude, gpt, json_body, observed, refusal
from tests.peers import need
from tests.wire_doubles import A_JSON, O_JSON

if TYPE_CHECKING:
    from pathlib import Path

WANTED = re.compile(r"gen_ai_client_inference_usage_\w+_total|lz_fast_path_calls_total")


def message(**usage: int) -> dict[str, Any]:
    return {**A_JSON, "usage": {"output_tokens": 1, **usage}}


def completion(prompt: int, cached: int | None) -> dict[str, Any]:
    usage: dict[str, Any] = {"prompt_tokens": prompt, "completion_tokens": 1, "total_tokens": prompt + 1}
    if cached is not None:
        usage["prompt_tokens_details"] = {"cached_tokens": cached}
    return {**O_JSON, "usage": usage}


def six_calls() -> None:
    """The calls of the case, one after the other."""
    for body in (
        message(input_tokens=1000, cache_read_input_tokens=0, cache_creation_input_tokens=9000),
        message(input_tokens=1000, cache_read_input_tokens=9000, cache_creation_input_tokens=0),
        message(input_tokens=500),
    ):
        claude(json_body(body)).messages.create(**ASK)
    for body in (completion(2000, 1500), completion(800, None)):
        gpt(json_body(body)).chat.completions.create(**CHAT)
    with pytest.raises(anthropic.BadRequestError):
        claude(refusal(400, "invalid_request_error")).messages.create(**ASK)


def exposition() -> str:
    """The Prometheus text after the six calls."""
    registry = CollectorRegistry()
    with observed(exporters="prometheus", prometheus_port=0, registry=registry, conventions="latest"):
        six_calls()
        return generate_latest(registry).decode()


def test_05_parts_of_the_input() -> None:
    """The counters from which the rate is made, per vendor."""
    with observed() as found:
        six_calls()
        assert (2500, 9000, 9000) == found.parts(gen_ai_provider_name="anthropic")
        assert (1300, 1500, 0) == found.parts(gen_ai_provider_name="openai")
        misses = found.seen.value("lz.fast_path.calls", mechanism="prompt_cache", verdict="miss")
        assert 1 == misses  # the write; not the refused call


def shipped(title: str, provider: str) -> str:
    """A dashboard's expression with Grafana's variables filled in."""
    values = {
        "__rate_interval": "5m",
        "job": ".*",
        "instance": ".*",
        "provider": provider,
        "model": ".*",
        "route": ".*",
    }
    [target] = [t for t in targets(load(ROOT / "dashboards" / "lz-otel-caches.json")) if t.title == title]
    return re.sub(r"\$(\w+)", lambda m: values[m[1]], target.expr)


def recorded(by: str) -> str:
    """The same rate from the recorded series."""
    prefix = "job_provider_model_route:llm"
    read, whole = (
        f"sum by ({by}) ({prefix}_{part}:rate5m)" for part in ("cache_read_input_tokens", "input_tokens")
    )
    return f"{read} / {whole}"


def samples(expr: str, at: str, *values: tuple[str, float]) -> dict[str, Any]:
    return {
        "expr": f"round({expr}, 0.0001)",
        "eval_time": at,
        "exp_samples": [{"labels": labels, "value": value} for labels, value in values],
    }


def test_05_the_shipped_expressions(tmp_path: Path) -> None:
    """Token-weighted rate per vendor and of both, and the share of calls;
    no value when there were no calls.
    """
    promtool = need("promtool")
    series = []
    for family in text_string_to_metric_families(exposition()):
        for sample in family.samples:
            if WANTED.fullmatch(sample.name):
                labels = ",".join(
                    f'{k}="{v}"' for k, v in {**sample.labels, "job": "j", "instance": "i"}.items()
                )
                value = f"0x20 {sample.value}x40"
                series.append({"series": f"{sample.name}{{{labels}}}", "values": value})
    during, long_after = "22m", "55m"
    tokens, calls = "Input tokens from cache", "Calls that hit"
    tests = [
        samples(shipped(tokens, "anthropic"), during, ("{}", 0.4390)),
        samples(shipped(tokens, "openai"), during, ("{}", 0.5357)),
        samples(shipped(tokens, ".*"), during, ("{}", 0.4506)),
        samples(
            shipped("Share from cache by model", ".*"),
            during,
            ('{gen_ai_request_model="claude-opus-5"}', 0.4390),
            ('{gen_ai_request_model="gpt-5"}', 0.5357),
        ),
        samples(
            recorded("gen_ai_provider_name"),
            during,
            ('{gen_ai_provider_name="anthropic"}', 0.4390),
            ('{gen_ai_provider_name="openai"}', 0.5357),
        ),
        # of the three calls that could have read the cache; a call without a cache in play has no verdict
        samples(shipped(calls, ".*"), during, ("{}", 0.6667)),
        *(
            samples(shipped(title, ".*"), long_after)
            for title in (tokens, calls, "Share from cache by model")
        ),
    ]
    case = {"interval": "1m", "input_series": series, "promql_expr_test": tests}
    document = {
        "rule_files": [str(ROOT / "alerts/rules/recording.yml")],
        "evaluation_interval": "1m",
        "tests": [case],
    }
    path = tmp_path / "case.test.yml"
    path.write_text(yaml.safe_dump(document))
    done = subprocess.run([promtool, "test", "rules", str(path)], capture_output=True, text=True, check=False)
    assert 0 == done.returncode, done.stdout + done.stderr


def test_05_no_ratio_is_a_metric() -> None:
    """No gauge of ours holds a share: shares cannot be added up or averaged."""
    gauges = [m.name for m in catalogue.ALL if m.kind == catalogue.GAUGE]
    assert [
        "lz.build_info",
        "lz.rate_limit.limit",
        "lz.rate_limit.remaining",
        "lz.rate_limit.reset",
    ] == sorted(gauges)
