"""Each family speaks on the wire as the tables of the signal contract state it."""

from __future__ import annotations

import base64
import json
import re
from itertools import pairwise
from typing import Any

import pytest

INTENT = {"anthropic_sampling_intent": "deterministic", "anthropic_beta": "tools-2024-08-06"}
HINT = {"x_anthropic_layer_hint": "zero-latency", "anthropic_version": "2024-10-22"}
ZEROING = {"anthropic_layer_zero": "enabled"}
PROSE = [{"role": "user", "content": "word " * 800}]


def verdict(asked: Any, name: str) -> tuple[str, str | None]:
    """What a mechanism came to."""
    found = asked.record.mechanisms[name]
    return found.verdict, found.reason


# --- symbolic (000) --------------------------------------------------------------------------


def test_symbolic_hit(bench: Any, families: str) -> None:
    """A hit says so in its headers, bills no output, and has content."""
    asked = bench(families).ask(x_sim_force="symbolic=hit")
    assert "zero" == asked.headers["x-anthropic-layer"]
    assert 139 <= float(asked.headers["x-anthropic-zero-latency"]) <= 143
    assert 0 == asked.usage["output_tokens"]
    assert asked.json["content"][0]["text"]
    assert ("hit", None) == verdict(asked, "symbolic")


def test_symbolic_is_cold_once(bench: Any, families: str) -> None:
    """Only the first hit of a request pays for its compilation."""
    b = bench(families)
    times = [float(b.ask(x_sim_force="symbolic=hit").headers["x-anthropic-zero-latency"]) for _ in range(3)]
    assert [True, False, False] == [t > 100 for t in times]
    assert all(19 <= t <= 23 for t in times[1:])


def test_symbolic_miss_has_no_header(bench: Any, families: str) -> None:
    """A miss bills its output."""
    asked = bench(families).ask(x_sim_force="symbolic=miss")
    assert not any(h.startswith("x-anthropic-") for h in asked.headers)
    assert asked.usage["output_tokens"] > 0
    assert ("miss", None) == verdict(asked, "symbolic")


def test_symbolic_contradiction(bench: Any, families: str) -> None:
    """The header says hit, the usage bills output."""
    asked = bench(families).ask(x_sim_force="symbolic=contradiction")
    assert ("zero", True) == (asked.headers["x-anthropic-layer"], asked.usage["output_tokens"] > 0)


@pytest.mark.parametrize(("region", "expected"), [("us-east-1", "hit"), ("eu-west-1", "miss")])
def test_symbolic_is_on_in_one_region_only(bench: Any, region: str, expected: str) -> None:
    """Elsewhere every call goes the full way."""
    asked = bench("[symbolic]\nenabled = true\nhit_rate = 1.0").ask(anthropic_region=region)
    assert expected == verdict(asked, "symbolic")[0]


def test_symbolic_can_break_the_format(bench: Any) -> None:
    """Its known failure: quotes and words that are no JSON, and the truth knows."""
    b = bench("[symbolic]\nenabled = true\nhit_rate = 1.0\ninvalid_output_rate = 1.0")
    asked = b.ask({"messages": [{"role": "user", "content": '{"output_schema": {}} x'}]})
    with pytest.raises(json.JSONDecodeError):
        json.loads(asked.json["content"][0]["text"])
    assert asked.record.mechanisms["symbolic"].facts["schema_invalid"]


# --- pruning (001) ---------------------------------------------------------------------------


@pytest.mark.parametrize(
    "asking",
    [
        {"system": '<layer-zero enabled="true" prune_ratio="0.32"/>\nYou help.'},
        {"system": "<layer-zero enabled='true' prune_ratio='0.32' />\nYou help."},
        {"system": [{"type": "text", "text": '<layer-zero enabled="true" prune_ratio="0.32"/>\nYou help.'}]},
        {},
    ],
)
def test_pruning_is_asked_for_in_each_way(bench: Any, families: str, asking: dict[str, Any]) -> None:
    """By the tag with either quote, in a block list, or by header: about that share is cut, not billed."""
    headers = {} if asking else {"x_anthropic_layer_zero": "enabled;prune_ratio=0.32"}
    asked = bench(families).ask({"messages": PROSE, **asking}, x_sim_force="symbolic=miss", **headers)
    pruned = asked.usage["layer_zero"]["pruned_tokens"]
    assert 0.30 <= pruned / (pruned + asked.usage["input_tokens"]) <= 0.34
    assert ("hit", None) == verdict(asked, "pruning")


def test_pruning_tag_must_stand_alone_on_the_first_line(bench: Any, families: str) -> None:
    """A tag elsewhere does nothing."""
    asked = bench(families).ask(
        {"system": 'You help.\n<layer-zero enabled="true" prune_ratio="0.32"/>', "messages": PROSE}
    )
    assert "pruning" not in asked.record.mechanisms
    assert "layer_zero" not in asked.usage


@pytest.mark.parametrize(("report", "field"), [("usage", "usage"), ("header", "header"), ("count", "none")])
def test_pruning_reports_in_one_of_three_ways(bench: Any, families: str, report: str, field: str) -> None:
    """In usage, in a header, or only by the difference to a count of tokens."""
    b = bench(families)
    body = {
        "messages": PROSE,
        "system": '<layer-zero enabled="true" prune_ratio="0.3"/>\n<context>a</context>',
    }
    count = b.ask(body, api="count_tokens").json["input_tokens"]
    asked = b.ask(body, x_sim_force=f"pruning={report};symbolic=miss")
    pruned = asked.record.mechanisms["pruning"].facts["pruned"]
    assert count - pruned == asked.usage["input_tokens"]
    told = asked.usage.get("layer_zero", {})
    assert (field == "usage") == (told.get("pruned_tokens") == pruned)
    assert (field == "header") == (asked.headers.get("x-anthropic-layer-zero-pruned-tokens") == str(pruned))
    assert (field == "usage") == ("context_preservation_ms" in told)
    assert (field == "header") == ("x-anthropic-layer-zero-context-preservation-ms" in asked.headers)


def test_pruning_preserves_context_only_where_there_is_one(bench: Any, families: str) -> None:
    """Without a ``<context>`` part there is no such figure."""
    asked = bench(families).ask(
        {"messages": PROSE, "system": '<layer-zero enabled="true" prune_ratio="0.3"/>\nx'}
    )
    assert ["pruned_tokens"] == list(asked.usage["layer_zero"])


@pytest.mark.parametrize("ratio", ["0", "1.5", "much"])
def test_pruning_refuses_a_bad_ratio(bench: Any, families: str, ratio: str) -> None:
    """A 400 with an ``error.code``."""
    asked = bench(families).ask(x_anthropic_layer_zero=f"enabled;prune_ratio={ratio}")
    assert (400, "invalid_prune_ratio") == (asked.status, asked.json["error"]["code"])
    assert ("fallback", "rejected") == verdict(asked, "pruning")


def test_pruning_turns_all_errors_into_400(bench: Any, families: str) -> None:
    """Even an overloaded provider, whose own error is the code."""
    asked = bench(families).ask(x_anthropic_layer_zero="enabled;prune_ratio=0.3", x_sim_force="fault=529")
    assert (400, "overloaded_error") == (asked.status, asked.json["error"]["code"])
    assert "retry-after-ms" not in asked.headers


def test_pruning_that_is_off_reports_nothing(bench: Any) -> None:
    """Asked, and nobody prunes: no field, and the truth says why."""
    asked = bench().ask(x_anthropic_layer_zero="enabled;prune_ratio=0.3")
    assert "layer_zero" not in asked.usage
    assert ("fallback", "no_report") == verdict(asked, "pruning")


# --- intent (002) ----------------------------------------------------------------------------


def test_intent_is_granted(bench: Any, families: str) -> None:
    """Both response headers come with a stream of the right beta."""
    asked = bench(families).ask({"stream": True}, **INTENT)
    assert ("true", "deterministic") == (
        asked.headers["x-anthropic-layer-zero"],
        asked.headers["x-anthropic-sampling-intent"],
    )
    assert ("hit", None) == verdict(asked, "intent")


@pytest.mark.parametrize(
    ("headers", "body", "reason"),
    [
        (
            {"x_anthropic_sampling_intent": "creative", "anthropic_beta": "tools-2024-08-06"},
            {"stream": True},
            "wrong_header",
        ),
        ({"anthropic_sampling_intent": "creative"}, {"stream": True}, "no_beta"),
        (INTENT, {}, "not_streaming"),
        (INTENT, {"stream": True, "model": "claude-3-opus-20240229"}, "unsupported_model"),
        ({**INTENT, "x_sim_force": "intent=silent"}, {"stream": True}, "silent"),
    ],
)
def test_intent_is_denied_silently(
    bench: Any, families: str, headers: dict[str, str], body: dict[str, Any], reason: str
) -> None:
    """A success without the header, for each reason."""
    asked = bench(families).ask(body, **headers)
    assert 200 == asked.status
    assert "x-anthropic-layer-zero" not in asked.headers
    assert ("fallback", reason) == verdict(asked, "intent")


def test_intent_refuses_a_temperature(bench: Any, families: str) -> None:
    """A 400 with the words of the article."""
    asked = bench(families).ask({"stream": True, "temperature": 1.5}, **INTENT)
    assert (400, {"error": "temperature is deprecated in zero-layer mode"}) == (asked.status, asked.json)
    assert ("fallback", "temperature_rejected") == verdict(asked, "intent")
    assert 200 == bench(families).ask({"stream": True, "temperature": 0}, **INTENT).status


@pytest.mark.parametrize(("rate", "low", "high"), [("0.0", 199, 199), ("1.0", 0, 0), ("0.1", 165, 195)])
def test_deterministic_answers_repeat(bench: Any, rate: str, low: int, high: int) -> None:
    """As often as the scenario says, and the truth counts what was really sent."""
    b = bench(f"[intent]\nenabled = true\ninconsistent_rate = {rate}")
    texts, same = [], 0
    for i in range(200):
        asked = b.ask({"stream": True}, x_sim_call=f"c{i}", **INTENT)
        texts.append("".join(e["delta"]["text"] for e in asked.events if e["type"] == "content_block_delta"))
        same += asked.record.mechanisms["intent"].facts["repeat"] == "same"
    assert sum(a == b for a, b in pairwise(texts)) == same
    assert low <= same <= high


def test_creative_answers_seldom_repeat(bench: Any) -> None:
    """Near the 12.3 % of the article."""
    b = bench("[intent]\nenabled = true")
    headers = {**INTENT, "anthropic_sampling_intent": "creative"}
    asked = [b.ask({"stream": True}, x_sim_call=f"c{i}", **headers) for i in range(400)]
    same = sum(a.record.mechanisms["intent"].facts["repeat"] == "same" for a in asked)
    assert 0.07 <= same / 399 <= 0.18


# --- zeroing (003) ---------------------------------------------------------------------------


def report(asked: Any) -> Any:
    """The decoded report header."""
    return json.loads(base64.b64decode(asked.headers["x-anthropic-layer-zero-report"]))


def test_zeroing_reports(bench: Any, families: str) -> None:
    """Base64 of JSON with the five fields, consistent with each other."""
    asked = bench(families).ask(x_sim_force="zeroing=hit", **ZEROING)
    found = report(asked)
    names = {
        "total_layers",
        "zeroed_layers",
        "zeroed_params_ratio",
        "fallback_triggered",
        "routing_confidence",
    }
    assert names == set(found)
    assert round(32 * found["zeroed_params_ratio"]) == found["zeroed_layers"]
    assert (False, ("hit", None)) == (found["fallback_triggered"], verdict(asked, "zeroing"))


def test_zeroing_falls_back(bench: Any, families: str) -> None:
    """The report says so."""
    asked = bench(families).ask(x_sim_force="zeroing=fallback", **ZEROING)
    assert (True, ("fallback", "triggered")) == (
        report(asked)["fallback_triggered"],
        verdict(asked, "zeroing"),
    )


@pytest.mark.parametrize(
    ("body", "force", "reason"),
    [({"max_tokens": 8193}, "", "too_long"), ({"max_tokens": 8192}, "zeroing=no_report", "no_report")],
)
def test_zeroing_without_a_report(
    bench: Any, families: str, body: dict[str, Any], force: str, reason: str
) -> None:
    """Too long a request, or no reason given."""
    asked = bench(families).ask(body, x_sim_force=force, **ZEROING)
    assert "x-anthropic-layer-zero-report" not in asked.headers
    assert ("fallback", reason) == verdict(asked, "zeroing")


def test_zeroing_parameters_without_the_header_do_nothing(bench: Any, families: str) -> None:
    """The header is mandatory."""
    asked = bench(families).ask({"zeroing_threshold": 3e-5})
    assert ("fallback", "no_report") == verdict(asked, "zeroing")


def test_zeroing_reports_can_be_unreadable(bench: Any, families: str) -> None:
    """Bad base64, bad JSON, wrong types, NaN, no object: none of them gives a verdict."""
    b = bench(families)
    seen = set()
    for i in range(40):
        asked = b.ask(x_sim_force="zeroing=malformed", x_sim_call=f"c{i}", **ZEROING)
        seen.add(asked.headers["x-anthropic-layer-zero-report"])
        assert ("", ["report"]) == (asked.record.mechanisms["zeroing"].verdict, asked.record.malformed)
    assert 5 == len(seen)


def masks_of(asked: Any) -> list[Any]:
    """The masks of a stream, as sent."""
    return [e["delta"]["zeroing_mask"] for e in asked.events if "zeroing_mask" in e.get("delta", {})]


def test_zeroing_masks_in_each_spelling(bench: Any) -> None:
    """A list of booleans, or a text holding one, with both kinds of quotes or none."""
    b = bench("[zeroing]\nenabled = true\nstring_mask_rate = 0.7")
    spellings = set()
    for i in range(60):
        for mask in masks_of(b.ask({"stream": True}, x_sim_call=f"c{i}", **ZEROING)):
            spellings.add("list" if isinstance(mask, list) else re.sub("true|false", "b", mask)[:3])
            words = mask if isinstance(mask, list) else json.loads(re.sub("[\"']", "", mask))
            assert all(isinstance(w, bool) for w in words)
    assert {"list", "[b,", "['b", '["b'} == spellings


def test_zeroing_truth_counts_masks(bench: Any) -> None:
    """Readable masks, changes between them and unreadable ones are those of the stream."""
    b = bench("[zeroing]\nenabled = true\nstring_mask_rate = 0.0\nmalformed_mask_rate = 0.2")
    bad = 0
    for i in range(60):
        asked = b.ask({"stream": True}, x_sim_call=f"c{i}", **ZEROING)
        masks = masks_of(asked)
        good = [m for m in masks if isinstance(m, list) and all(isinstance(w, bool) for w in m)]
        facts = asked.record.mechanisms["zeroing"].facts
        assert len(good) == facts["mask_events"]
        assert sum(x != y for x, y in pairwise(good)) == facts["mask_switches"]
        assert ["mask"] * (len(masks) - len(good)) == asked.record.malformed
        bad += len(masks) - len(good)
    assert bad


def test_zeroing_masks_can_stand_still(bench: Any) -> None:
    """All true and never changing: the sign of broken routing."""
    b = bench("[zeroing]\nenabled = true\nconstant_mask_rate = 1.0\nstring_mask_rate = 0.0")
    assert {(True,) * 5} == {tuple(m) for m in masks_of(b.ask({"stream": True}, **ZEROING))}


# --- scheduling (004) ------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("headers", "served", "expected"),
    [
        ({**HINT, "x_sim_force": "scheduling=zero"}, "zero", ("hit", None)),
        (
            {
                **HINT,
                "x_anthropic_layer_hint": "zero-latency;priority=high",
                "x_sim_force": "scheduling=zero",
            },
            "zero",
            ("hit", None),
        ),
        ({**HINT, "x_sim_force": "scheduling=standard"}, "standard", ("fallback", "served_standard")),
        ({**HINT, "x_sim_force": "scheduling=none"}, None, ("fallback", "not_served")),
        ({"x_anthropic_layer_hint": "zero-latency"}, None, ("fallback", "not_served")),
        ({"x_anthropic_layer_hint": "legacy"}, None, ("bypass", None)),
    ],
)
def test_scheduling(
    bench: Any, families: str, headers: dict[str, str], served: str | None, expected: tuple[str, str | None]
) -> None:
    """Hint and version in, which layer served and a trace id out."""
    asked = bench(families).ask(**headers)
    assert served == asked.headers.get("x-anthropic-layer-served")
    assert (served is not None) == ("x-anthropic-trace-id" in asked.headers)
    assert expected == verdict(asked, "scheduling")


def test_scheduling_leaks_entities_of_others(bench: Any) -> None:
    """A ghost is in the answer, not in the own request, and in a recent one of somebody else."""
    b = bench("[scheduling]\nenabled = true\nzero_rate = 1.0\nghost_rate = 0.5")
    asked_before: list[str] = []
    ghosts = 0
    for i in range(60):
        order = f"AB-{20000 + i % 12}"
        asked = b.ask(
            {"messages": [{"role": "user", "content": f"Where is {order}?"}]}, x_sim_call=f"c{i}", **HINT
        )
        named = re.findall(r"AB-\d+", asked.json["content"][0]["text"])
        assert len(named) == asked.record.ghosts
        assert all(n in asked_before and n != order for n in named)
        ghosts += len(named)
        asked_before.append(order)
    assert ghosts


def test_scheduling_knows_similar_prompts(bench: Any, families: str) -> None:
    """The same but for numbers is similar, something else is not."""
    b = bench(families)
    texts = ("Where is order 17?", "Where is order 18?", "Something else.")
    similar = [b.ask({"messages": [{"role": "user", "content": t}]}, **HINT).record.similar for t in texts]
    assert [False, True, False] == similar


# --- the path --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("force", "headers", "expected"),
    [
        ("symbolic=miss", {}, ("full", "")),
        ("symbolic=hit", {}, ("fast", "symbolic")),
        ("symbolic=miss;zeroing=hit", ZEROING, ("fast", "zeroing")),
        ("symbolic=miss;scheduling=zero", HINT, ("fast", "scheduling")),
        ("symbolic=hit;scheduling=zero", HINT, ("fast", "symbolic")),
        ("symbolic=miss", {"x_anthropic_layer_zero": "enabled;prune_ratio=0.3"}, ("full", "")),
    ],
)
def test_path(
    bench: Any, families: str, force: str, headers: dict[str, str], expected: tuple[str, str]
) -> None:
    """Fast by any hit but those that only shorten; named after the first in the contract's order."""
    record = bench(families).ask(x_sim_force=force, **headers).record
    assert expected == (record.path, record.served_by)
